"""All that `postbayes` imports, and its kernels, for the processes of `command`.

Also what only some commands import, and what a library imports by its name: 0.16 s of
CPU time for each command that prints, and 0.05 s for one on PostgreSQL.
"""

# ruff: noqa: F401  (imported to be there)

from __future__ import annotations

import sqlalchemy.dialects.postgresql.pg_catalog
import uvicorn.lifespan.on
import uvicorn.loops.uvloop

import app.doors.cli.console
import app.doors.cli.serve
import app.doors.http.app
import app.doors.service
import app.storage.database.postgresql
from app.services.classify import warm_up

warm_up()
