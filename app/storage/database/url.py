"""Database URLs, and the options of their engines.

A password may stand in it, also where it was not meant to: one with an @ in it ends
there, and its rest is taken for a host.  So no sentence quotes what was not read as
a name, nor the error of the parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Collection


_UNREADABLE: Final = (
    "The database URL cannot be read. Give one like "
    "sqlite:///var/postbayes.db or postgresql://user@host/database."
)
_IN_MEMORY: Final = (
    "An in-memory SQLite database would lose what is learned. "
    "Give a file: sqlite:///var/postbayes.db."
)
# Those of SQLite itself (https://sqlite.org/uri.html); those of the driver are ours.
_SQLITE_OPTIONS: Final = ("vfs", "mode", "cache", "psow", "nolock", "immutable")
_PORTS: Final = range(1, 65_536)


def parse(url: str) -> URL:
    """Return a URL with the driver that we use.

    Raises
    ------
    InvalidSetting
        If it is none of SQLite or PostgreSQL, or none that their drivers could use.
    """
    parsed = _read(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return _of_sqlite(parsed.set(drivername="sqlite+pysqlite"))
    # "postgres" is how several hosting platforms write it.
    if backend in {"postgresql", "postgres"}:
        _require_whole_password(url)
        return _usable(parsed.set(drivername="postgresql+psycopg"))
    msg = f"{backend!r} is not a database that Postbayes knows: sqlite or postgresql."
    raise InvalidSetting(msg)


def without_password(url: URL) -> str:
    """Return a URL as it may be shown: with neither password nor options.

    Examples
    --------
    >>> without_password(parse("postgresql://ann:secret@db.example/mail?sslmode=require"))
    'postgresql://ann@db.example/mail'
    """
    return URL.create(
        url.get_backend_name(),
        username=url.username,
        host=url.host,
        port=url.port,
        database=url.database,
    ).render_as_string()


def require_options(url: URL, options: Collection[str], *, database: str) -> None:
    """Refuse a URL with options that its database does not know.

    Raises
    ------
    InvalidSetting
        If there are any; the sentence names them.
    """
    unknown = sorted(set(url.query) - set(options))
    if not unknown:
        return
    msg = f"The database URL has an option that {database} does not know"
    # What follows an & in a password is taken for an option too.
    if "password" in url.query:
        msg += "; in a password, write & as %26."
    else:
        msg += f": {', '.join(unknown)}."
    raise InvalidSetting(msg)


def _read(url: str) -> URL:
    """Return the parts of a URL, or refuse it."""
    try:
        unquote(url).encode()
        parsed = make_url(url)
    # ValueError: a port that is no number, or half of a pair of surrogates.
    except (ArgumentError, ValueError):
        raise InvalidSetting(_UNREADABLE) from None
    # No path and no text of libpq's can have one.
    if "\0" in unquote(url):
        raise InvalidSetting(_UNREADABLE)
    if parsed.port is not None and parsed.port not in _PORTS:
        msg = f"The port of the database URL must be 1 to {_PORTS[-1]}."
        raise InvalidSetting(msg)
    return parsed


def _of_sqlite(url: URL) -> URL:
    """Return the URL of a file, or refuse it."""
    if not url.database or ":memory:" in url.database:
        raise InvalidSetting(_IN_MEMORY)
    own = _SQLITE_OPTIONS if "uri" in url.query else ()
    require_options(url, ("uri", *own), database="SQLite")
    if url.query.get("mode") == "memory":
        raise InvalidSetting(_IN_MEMORY)
    return _usable(url)


def _usable(url: URL) -> URL:
    """Return a URL that SQLAlchemy can read for its driver, or refuse it."""
    try:
        url.get_dialect()().create_connect_args(url)
    except (ArgumentError, ValueError):
        raise InvalidSetting(_UNREADABLE) from None
    return url


def _require_whole_password(url: str) -> None:
    """Refuse a password with an @, whose rest would be shown as a host's name."""
    _, _, behind = url.partition("://")
    _, password, behind = behind.partition(":")
    _, _, behind = behind.partition("@")
    if password and "@" in behind.partition("?")[0]:
        msg = "The database URL has an @ too many. In a password, write it as %40."
        raise InvalidSetting(msg)
