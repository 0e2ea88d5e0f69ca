"""Which database does a URL mean?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from sqlalchemy import URL


def parse(url: str) -> URL:
    """Return a URL with the driver that we use.

    Raises
    ------
    InvalidSetting
        If it is none of SQLite or PostgreSQL.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        msg = (
            "The database URL cannot be read. Give one like "
            "sqlite:///var/postbayes.db or postgresql://user@host/database."
        )
        raise InvalidSetting(msg) from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or ":memory:" in parsed.database:
            msg = (
                "An in-memory SQLite database would lose what is learned. "
                "Give a file: sqlite:///var/postbayes.db."
            )
            raise InvalidSetting(msg)
        return parsed.set(drivername="sqlite+pysqlite")
    # "postgres" is how several hosting platforms write it.
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    msg = f"{backend!r} is not a database that Postbayes knows: sqlite or postgresql."
    raise InvalidSetting(msg)
