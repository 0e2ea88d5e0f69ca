"""Migrations: the tables of this version, by Alembic."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect, text

import app
from app.errors import DatabaseTooNew, DatabaseUnprepared, InvalidSetting
from app.storage.database.dialect import dialect_of, missing
from app.storage.database.engine import NOTHING_STORED, migrating, reading

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection, Engine


log = logging.getLogger(__name__)


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


def migrate(engine: Engine, *, make: bool = True) -> None:
    """Bring an empty or older database to the tables of this version.

    Any number of processes may call it at once: one does it, the others wait.
    A database that is up to date is only read.

    Parameters
    ----------
    engine : Engine
        The database.
    make : bool, default True
        Whether one that has no tables yet gets them.

    Raises
    ------
    DatabaseTooNew
        If a newer version of Postbayes has migrated the database.
    DatabaseUnavailable
        If the database cannot be reached or written.
    InvalidSetting
        If its user may not make tables there, or it has none and may not get any.
    """
    with reading(engine) as connection:
        if _is_current(connection):
            return
        if not make and not inspect(connection).has_table("alembic_version"):
            raise missing(dialect_of(engine).place(engine.url))
    try:
        with migrating(engine) as connection:
            # Again, now that no other process migrates.
            if not _is_current(connection):
                upgrade(connection)
                log.info("the tables are now those of migration %s", _known()[-1])
    # Nobody has used it in this version: the URL names the wrong database or user.
    except DatabaseUnprepared as error:
        lack = str(error).removesuffix(NOTHING_STORED).rstrip()
        msg = f"The tables cannot be made in this database. {lack}"
        raise InvalidSetting(msg) from error


def require_migrated(engine: Engine) -> str | None:
    """Return the migration of the tables of this version; None if there are no tables.

    Raises
    ------
    DatabaseUnprepared
        If the tables are those of an older version.
    DatabaseTooNew
        If a newer version of Postbayes has migrated the database.
    DatabaseUnavailable
        If the database cannot be reached.
    """
    with reading(engine) as connection:
        if _is_current(connection):
            return _known()[-1]
    found = revision_of(engine)
    if found is None:
        return None
    msg = (
        f"The database is at migration {found}, and this version of Postbayes needs "
        f"{_known()[-1]}. Keep a copy of the database, then run `postbayes migrate`; "
        "`postbayes serve` migrates it too."
    )
    raise DatabaseUnprepared(msg)


def revision_of(engine: Engine) -> str | None:
    """Return the migration of the tables that are there; None if there are none."""
    with reading(engine) as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        found = connection.execute(text("SELECT version_num FROM alembic_version"))
        revision: str | None = found.scalar()
        return revision


def _known() -> list[str]:
    """Return the revisions of this version, the newest last."""
    # The files are numbered as the revisions are, one after the other: see
    # test_migrations_are_numbered_and_lead_to_one_head.
    return sorted(file.name[:4] for file in (MIGRATIONS / "versions").glob("*.py"))


def _is_current(connection: Connection) -> bool:
    """Return whether nothing is to be done, or refuse a newer database."""
    if not inspect(connection).has_table("alembic_version"):
        return False
    migrations = _known()
    found = connection.execute(text("SELECT version_num FROM alembic_version"))
    revisions = list(found.scalars())
    for revision in revisions:
        if revision not in migrations:
            msg = (
                f"The database is at migration {revision}, and this version of "
                f"Postbayes knows up to {migrations[-1]}. Start the "
                "newer version again, or restore a backup from before it."
            )
            raise DatabaseTooNew(msg)
    return revisions == migrations[-1:]
