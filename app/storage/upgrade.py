"""How does Alembic bring a database to the tables of this version?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config

from app.storage.migrate import MIGRATIONS

if TYPE_CHECKING:
    from sqlalchemy import Connection


def alembic_config() -> Config:
    """Return the configuration of Alembic; there is no file for it."""
    config = Config()
    # Alembic's configuration interpolates, so a percent sign is doubled.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(connection: Connection) -> None:
    """Run the migrations that the database lacks, in the caller's transaction."""
    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
