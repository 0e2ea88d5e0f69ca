"""`postbayes migrate`: an older database brought to the tables of this version."""

from __future__ import annotations

from app.doors.cli.console import OUT
from app.services.application import upgrade_database
from app.settings import load_settings


def migrate() -> None:
    """Bring an older database to the tables of this version, as `serve` does.

    Make a backup first: an older version refuses the database from then on. All other
    commands refuse an older database.
    """
    before, after = upgrade_database(load_settings())
    if before == after:
        OUT.print(f"the database is at migration {after}, as this version needs it")
    else:
        OUT.print(f"the database was migrated from {before} to {after}")
