"""Dialect: the URL of a database, and the facts in which databases differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol
from urllib.parse import unquote

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from app.errors import DatabaseUnavailable, InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from sqlalchemy import Connection, Engine, Table
    from sqlalchemy.dialects import postgresql, sqlite

    from app.errors import DatabaseDamaged, DatabaseUnprepared

READ_ONLY: Final = "postbayes_read_only"
"""Execution option of a connection: its transactions only read.

PostgreSQL then refuses writes.  On SQLite, all other transactions take the write lock
when they begin: one that reads first and then writes fails at once with SQLITE_BUSY,
whatever the busy time-out, if another one wrote in between
(https://sqlite.org/isolation.html).
"""
LOCK_TIMEOUT: Final = "postbayes_lock_timeout"
"""Execution option: time that a writer waits for the others.  Unit: seconds."""
EXTRA_RESPONSE_TIME: Final = "postbayes_extra_response_time"
"""Execution option: time that PostgreSQL may be silent beyond its time-out.

Unit: seconds.
"""
DIALECT: Final = "postbayes_dialect"
"""Execution option of an engine, by which `dialect_of` finds its dialect."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The meaning of an error of a driver.

    Parameters
    ----------
    error : type
        The error to raise.
    sentence : str
        The problem, and the remedy.
    stored : bool
        Whether something may have been stored, if the error came during a commit.
    """

    error: type[DatabaseDamaged | DatabaseUnavailable | DatabaseUnprepared]
    sentence: str
    stored: bool = True


class CommitListener(Protocol):
    """A connection that is notified of the commits of other processes."""

    def fileno(self) -> int:
        """Return the file descriptor, which is readable after a notification."""

    def notify(self) -> None:
        """Notify the listeners of all processes."""

    def heard(self) -> bool:
        """Return whether another process has notified since the last call."""


class Dialect(ABC):
    """One kind of database; each engine has its own instance."""

    is_server: ClassVar[bool]
    """Whether other machines may use the database, and `listen` works."""
    reading_options: ClassVar[Mapping[str, Any]] = {}
    """Execution options of a connection that reads one snapshot."""

    def __init__(self) -> None:
        self.outage = Outage()
        """The state of a server that hangs; unused for a file."""

    @abstractmethod
    def place(self, url: URL) -> str:
        """Return the place of the database of a URL, for people."""

    @abstractmethod
    def create_engine(
        self, url: URL, *, busy_timeout: float, make: bool, options: dict[str, Any]
    ) -> Engine:
        """Return an engine.

        Parameters
        ----------
        url : URL
            The URL of the database.
        busy_timeout : float
            Time to wait for a lock. Unit: seconds.
        make : bool
            Whether a missing file may be created.
        options : dict
            Further arguments of SQLAlchemy's engine.

        Raises
        ------
        InvalidSetting
            If the URL is invalid, or the database is missing and may not be created.
        DatabaseUnavailable
            If the folder of a file cannot be created.
        """

    def write_lock(
        self,
        timeout: float,  # noqa: ARG002  (a server has no such lock)
    ) -> AbstractContextManager[object]:
        """Return the lock that a writer holds before its transaction begins."""
        return nullcontext()

    def checkpoint(self, engine: Engine, *, emptied: bool) -> bool:  # noqa: ARG002
        """Copy committed data from the write-ahead log, if any, into the database.

        Return whether the log is empty, if `emptied`.
        """
        return True

    @abstractmethod
    def migrating(self, connection: Connection) -> AbstractContextManager[object]:
        """Return a transaction that may change tables, one process at a time."""

    def listen(self, driver: Any) -> CommitListener:
        """Return a listener on a connection of the driver, if `is_server`."""
        raise NotImplementedError

    def backup(
        self,
        connection: Connection,
        target: Path,
        progress: Callable[[int, int], object],
    ) -> None:
        """Copy the snapshot of a connection to a file, unless `is_server`.

        Raises
        ------
        DatabaseUnavailable
            If the copy cannot be written.
        DatabaseDamaged
            If the copy is not sound.
        """
        raise NotImplementedError

    @abstractmethod
    def diagnose(self, url: URL, error: BaseException | None) -> Diagnosis:
        """Return the diagnosis of an error of the driver."""

    @abstractmethod
    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        """Return an INSERT to add ``on_conflict_do_...`` to."""


def dialect_of(bind: Engine | Connection) -> Dialect:
    """Return the dialect of an engine from `engine.open_engine`, or its connection."""
    found: Dialect = bind.get_execution_options()[DIALECT]
    return found


def missing(place: str) -> InvalidSetting:
    """Return the error of a command that needs a database but may not create one."""
    msg = (
        f"There is no database of Postbayes at {place}. Run the command in the folder "
        "of the service, or correct POSTBAYES_DATABASE_URL. `postbayes serve`, "
        "`learn`, `import`, `profiles --create`, `keys create` and `people add` create "
        "a new database."
    )
    return InvalidSetting(msg)


def first_line(error: object) -> str:
    """Return the message of a driver, without its hints and positions."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


class Outage:
    """The outage of a server that hangs, shared by all connections of an engine.

    The first transaction that times out begins an outage; while it lasts, every
    transaction is refused at once.  One caller continues to ask, with separate
    connections, and ends the outage.
    """

    def __init__(self) -> None:
        self.active = False
        self.connect: Callable[[], Any] | None = None
        """Opens a connection for `probe`; None before the first connection."""
        self.opened = 0
        """Number of connections so far; it grows if the server was replaced."""
        self._begun = 0

    def begin(self) -> None:
        """Refuse every transaction from now on."""
        self._begun += 1
        self.active = True

    def require_over(self) -> None:
        """Raise at once during an outage.

        Raises
        ------
        DatabaseUnavailable
            During an outage; nothing was sent to the server.
        """
        if self.active:
            msg = (
                "The database hangs; Postbayes keeps trying. Nothing was stored; try "
                "again later."
            )
            raise DatabaseUnavailable(msg)

    def probe(self) -> None:
        """Ask the server, and end the outage unless it is silent again.

        The driver's error is raised if it cannot be asked.
        """
        if self.connect is None:
            return
        before = self._begun
        try:
            with closing(self.connect()) as connection:
                # A pooler accepts connections whatever the state of the server.
                connection.execute("SELECT 1")
        finally:
            self.active = self._begun > before


# A URL may contain a password, even in other places: one with an @ ends there, and its
# rest is taken for a host.  So no sentence quotes anything that was not read as a name,
# nor the error of the parser.

_UNREADABLE: Final = (
    "The database URL cannot be read. Give one like "
    "sqlite:///var/postbayes.db or postgresql://user@host/database."
)
_IN_MEMORY: Final = (
    "An in-memory SQLite database would lose everything at the end. Give a file: "
    "sqlite:///var/postbayes.db."
)
# Options of SQLite itself (https://sqlite.org/uri.html); we set those of the driver.
_SQLITE_OPTIONS: Final = ("vfs", "mode", "cache", "psow", "nolock", "immutable")
_PORTS: Final = range(1, 65_536)


def parse(url: str) -> URL:
    """Return a URL with the driver of Postbayes.

    Raises
    ------
    InvalidSetting
        If it is not a URL of SQLite or PostgreSQL that their drivers can use.
    """
    parsed = _read(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return _of_sqlite(parsed.set(drivername="sqlite+pysqlite"))
    # Several hosting platforms write "postgres".
    if backend in {"postgresql", "postgres"}:
        _require_whole_password(url)
        return _usable(parsed.set(drivername="postgresql+psycopg"))
    msg = f"{backend!r} is not a database that Postbayes knows: sqlite or postgresql."
    raise InvalidSetting(msg)


def without_password(url: URL) -> str:
    """Return a URL without password and options, for display.

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
    # The part after an & in a password is taken for an option too.
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
    # ValueError: a port that is not a number, or half of a pair of surrogates.
    except (ArgumentError, ValueError):
        raise InvalidSetting(_UNREADABLE) from None
    # No path and no text of libpq can contain one.
    if "\0" in unquote(url):
        raise InvalidSetting(_UNREADABLE)
    if parsed.port is not None and parsed.port not in _PORTS:
        raise InvalidSetting(f"The port of the database URL must be 1 to {_PORTS[-1]}.")
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
    """Refuse a password with an @, because its rest would be shown as a host name."""
    _, _, behind = url.partition("://")
    _, password, behind = behind.partition(":")
    _, _, behind = behind.partition("@")
    if password and "@" in behind.partition("?")[0]:
        msg = "The database URL has one @ too many. In a password, write it as %40."
        raise InvalidSetting(msg)
