"""Migrations: the tables of this version, by Alembic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect, text

import app
from app.errors import DatabaseTooNew, DatabaseUnprepared, InvalidSetting
from app.storage.database.engine import migrating, reading
from app.storage.database.failure import NOTHING_STORED

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection, Engine


def alembic_config() -> Config:
    """Return the configuration of Alembic; there is no file for it."""
    # Here, since hardly a start migrates, and Alembic takes 0.13 s to import.
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    # Alembic's configuration interpolates, so a percent sign is doubled.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(connection: Connection) -> None:
    """Run the migrations that the database lacks, in the caller's transaction."""
    from alembic import command  # noqa: PLC0415

    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


# Beside the package, in a checkout as in an installed wheel.
MIGRATIONS: Final = Path(app.__file__).parent.parent / "migrations"


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
    InvalidSetting
        If its user may not make tables there.
    """
    with reading(engine) as connection:
        if _is_current(connection):
            return
    try:
        with migrating(engine) as connection:
            # Again, now that no other process migrates.
            if not _is_current(connection):
                upgrade(connection)
    # Nobody has used it in this version: the URL names the wrong database or user.
    except DatabaseUnprepared as error:
        lack = str(error).removesuffix(NOTHING_STORED).rstrip()
        msg = f"The tables cannot be made in this database. {lack}"
        raise InvalidSetting(msg) from error


def _is_current(connection: Connection) -> bool:
    """Return whether nothing is to be done, or refuse a newer database."""
    if not inspect(connection).has_table("alembic_version"):
        return False
    # The files are numbered as the revisions are, one after the other: see
    # test_migrations_are_numbered_and_lead_to_one_head.
    known = sorted(file.name[:4] for file in (MIGRATIONS / "versions").glob("*.py"))
    found = connection.execute(text("SELECT version_num FROM alembic_version"))
    revisions = list(found.scalars())
    for revision in revisions:
        if revision not in known:
            msg = (
                f"The database is at migration {revision}, and this version of "
                f"Postbayes knows up to {known[-1]}. Start the "
                "newer version again, or restore a backup from before it."
            )
            raise DatabaseTooNew(msg)
    return revisions == known[-1:]
