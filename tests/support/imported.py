"""All that `postbayes` imports, and its kernels, for the processes of `command`."""

from __future__ import annotations

import app.doors.cli.serve
import app.doors.http.app
import app.doors.service  # noqa: F401
from app.services.classify import warm_up

warm_up()
