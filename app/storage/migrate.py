"""Does the database have the tables that this version works with?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

import app
from app.errors import DatabaseTooNew
from app.storage.engine import migrating, reading

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

# Beside the package, in a checkout as in an installed wheel.
MIGRATIONS: Final = Path(app.__file__).parent.parent / "migrations"

# Key of PostgreSQL's advisory lock: the first eight bytes of "postbayes", so
# that it is unlikely to be anybody else's.
_ADVISORY_LOCK: Final = int.from_bytes(b"postbaye", "big")

# How long a process waits for another that migrates.  Unit: milliseconds.
_PATIENCE: Final = 300_000


def migrate(engine: Engine) -> None:
    """Bring an empty or older database to the tables of this version.

    Any number of processes may call it at once: one does it, the others wait.
    A database that is up to date is only read.

    Raises
    ------
    DatabaseTooNew
        If a newer version of Postbayes has migrated the database.
    DatabaseUnavailable
        If the database cannot be reached or written.
    """
    config = alembic_config()
    scripts = ScriptDirectory.from_config(config)
    with reading(engine) as connection:
        if _is_current(connection, scripts):
            return
    with migrating(engine) as connection:
        if connection.dialect.name == "postgresql":
            _lock(connection)
        # Again, now that nobody else is at it.
        if not _is_current(connection, scripts):
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def alembic_config() -> Config:
    """Return the configuration of Alembic; there is no file for it."""
    config = Config()
    # Alembic's configuration interpolates, so a percent sign is doubled.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _is_current(connection: Connection, scripts: ScriptDirectory) -> bool:
    """Return whether nothing is to be done, or refuse a newer database."""
    known = {script.revision for script in scripts.walk_revisions()}
    heads = MigrationContext.configure(connection).get_current_heads()
    for revision in heads:
        if revision not in known:
            msg = (
                f"The database is at migration {revision}, and this version of "
                f"Postbayes knows up to {scripts.get_current_head()}. Start the "
                "newer version again, or restore a backup from before it."
            )
            raise DatabaseTooNew(msg)
    return heads == (scripts.get_current_head(),)


def _lock(connection: Connection) -> None:
    """Wait until no other process migrates this PostgreSQL database."""
    usual = connection.execute(text("SHOW lock_timeout")).scalar_one()
    set_timeout = text("SELECT set_config('lock_timeout', :value, true)")
    connection.execute(set_timeout, {"value": str(_PATIENCE)})
    connection.execute(
        text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK}
    )
    # The patience is for other migrations only: one that itself waits long for
    # a table's lock makes every query wait behind it.
    connection.execute(set_timeout, {"value": usual})
