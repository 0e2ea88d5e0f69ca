"""Dialect: the URL of a database, facts in which databases differ, and statements.

SQLite takes 20 µs for an entry of the ledger and for what is asked before it.
Executed by SQLAlchemy the same statements took 109 µs of CPU, and take 43 when they are
prepared; with the other steps of a lesson in between, all in one thread, 260 and 110.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import unquote

from sqlalchemy import URL, Insert, Select, Update, literal, make_url, tuple_
from sqlalchemy.exc import ArgumentError

from app.errors import DatabaseUnavailable, InvalidSetting

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from pathlib import Path

    from sqlalchemy import (
        Column,
        ColumnElement,
        Connection,
        Delete,
        Engine,
        Row,
        Table,
    )
    from sqlalchemy import Dialect as Compiler
    from sqlalchemy.dialects import postgresql, sqlite

    from app.errors import PostbayesError

    Convert = Callable[[Any], Any]

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
    sentence : str
        The problem, and the remedy.
    stored : bool
        Whether something may have been stored, if the error came during a commit.
    passes : bool
        Whether a later attempt may succeed although nobody has done anything.
    """

    error: type[PostbayesError]
    sentence: str
    stored: bool = True
    passes: bool = False


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
        busy_timeout : float
            Time to wait for a lock. Unit: seconds.

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

    def listen(self, driver: Any) -> Any:
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
        UnwritableFile
            If the copy cannot be written.
        DatabaseDamaged
            If the copy is not sound.
        """
        raise NotImplementedError

    @abstractmethod
    def diagnose(self, url: URL, error: BaseException | None) -> Diagnosis | None:
        """Return the diagnosis of an error of the driver.

        None for a statement or a value that no database could process: a defect.
        """


def dialect_of(bind: Engine | Connection) -> Dialect:
    """Return the dialect of an engine from `engine.open_engine`, or its connection."""
    found: Dialect = bind.get_execution_options()[DIALECT]
    return found


def missing(place: str) -> InvalidSetting:
    """Return the error of a command that needs a database but may not create one."""
    return InvalidSetting(
        f"There is no database of Postbayes at {place}. Run the command in the folder "
        "of the service, or correct POSTBAYES_DATABASE_URL. `postbayes serve`, "
        "`learn`, `import`, `profiles create`, `keys create` and `people add` create "
        "a new database."
    )


OTHER_VERSION: Final = (
    "The tables are not those of this version of Postbayes: {text}. Start the version "
    "that has migrated them, or restore a backup as docs/operating.md describes."
)
"""The sentence for a missing column: tables of another version are there."""
NEGATIVE: Final = "A count would be negative: {text}"
"""The sentence for a violated check, of which the tables have no others."""


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
            raise DatabaseUnavailable(
                "The database hangs; Postbayes keeps trying. Nothing was stored; try "
                "again later."
            )

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
# Options of libpq that name servers: several, a Unix socket, or a service file's.
_SERVERS: Final = ("host", "port", "service")


UNREAD: Final = "unread"
"""In a URL, it precedes a settings file that the command's user may not read."""


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
        _require_file(parsed)
        return _usable(parsed.set(drivername="sqlite+pysqlite"))
    # Several hosting platforms write "postgres".
    if backend in {"postgresql", "postgres"}:
        _require_whole_password(url)
        return _usable(parsed.set(drivername="postgresql+psycopg"))
    if backend == UNREAD:
        raise InvalidSetting(
            f"The database is named in {url.partition('://')[2]}, which this user may "
            "not read. Run the command as root or as the user of the service, or set "
            "POSTBAYES_DATABASE_URL."
        )
    msg = f"{backend!r} is not a database that Postbayes knows: sqlite or postgresql."
    raise InvalidSetting(msg)


def without_password(url: URL) -> str:
    """Return a URL for display: without password, and of its options the servers only.

    Examples
    --------
    >>> without_password(parse("postgresql://ann:secret@db.example/mail?sslmode=require"))
    'postgresql://ann@db.example/mail'
    >>> without_password(parse("postgresql:///mail?host=db1&host=db2&password=secret"))
    'postgresql:///mail?host=db1&host=db2'
    """
    return URL.create(
        url.get_backend_name(),
        username=url.username,
        host=url.host,
        port=url.port,
        database=url.database,
        query={name: url.query[name] for name in _SERVERS if name in url.query},
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
    # SQLAlchemy ignores them: `?sslmode:verify-full` would verify nothing.
    login, at, behind = url.partition("@")
    options = (behind if at else login).partition("?")[2].split("&")
    if any(option and "=" not in option for option in options):
        raise InvalidSetting(
            "The database URL has an option without =. Write each as name=value."
        )
    if parsed.port is not None and parsed.port not in _PORTS:
        raise InvalidSetting(f"The port of the database URL must be 1 to {_PORTS[-1]}.")
    return parsed


def _require_file(url: URL) -> None:
    """Refuse a URL of SQLite that is not of a file."""
    own = _SQLITE_OPTIONS if "uri" in url.query else ()
    require_options(url, ("uri", *own), database="SQLite")
    file = url.database
    if not file or ":memory:" in file or url.query.get("mode") == "memory":
        raise InvalidSetting(_IN_MEMORY)


def _usable(url: URL) -> URL:
    """Return a URL that SQLAlchemy can read for its driver, or refuse it."""
    try:
        url.get_dialect()().create_connect_args(url)
    except (ArgumentError, ValueError):
        raise InvalidSetting(_UNREADABLE) from None
    return url


def _require_whole_password(url: str) -> None:
    """Refuse a password with an @, because its rest would be shown as a host name."""
    behind = url.partition("://")[2].partition(":")[2].partition("@")[2]
    if "@" in behind.partition("?")[0]:
        msg = "The database URL has one @ too many. In a password, write it as %40."
        raise InvalidSetting(msg)


T = TypeVar("T")


class Prepared:
    """A statement, and how each database wants it.

    The values are those that SQLAlchemy takes and gives, and it runs in the
    transaction of the connection.  What the driver raises comes as it is.

    Parameters
    ----------
    statement : Select, Insert or Update
        With a `bindparam` for each value that differs from call to call, of which
        none is expanding.
    """

    def __init__(self, statement: Select[Any] | Insert | Update) -> None:
        self._statement = statement

    def rows(self, connection: Connection, **values: object) -> list[Any]:
        """Return the rows that a query finds, each as a named tuple."""
        plan = _planned(self._statement, connection.dialect)
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute(plan.text, plan.bound(values))
            return [plan.read(row) for row in cursor.fetchall()]

    def change(
        self, connection: Connection, each: Sequence[Mapping[str, object]]
    ) -> None:
        """Insert or update once for each of some values."""
        plan = _planned(self._statement, connection.dialect)
        bound = [plan.bound(values) for values in each]
        with closing(connection.connection.cursor()) as cursor:
            if len(bound) == 1:
                cursor.execute(plan.text, bound[0])
            elif bound:
                cursor.executemany(plan.text, bound)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A statement as one database wants it.

    Parameters
    ----------
    constant : mapping of str to Any
        The values that it brings along.
    convert : mapping of str to callable
        What becomes of the values on the way to the driver.
    order : sequence of str or None
        The order of the values; None if the driver takes them by name.
    row : type
        A named tuple of the columns, in their order.
    receive : sequence of (int, callable)
        What becomes of the columns on the way back.
    """

    text: str
    constant: Mapping[str, Any]
    convert: Mapping[str, Convert]
    order: Sequence[str] | None
    row: type[Any]
    receive: Sequence[tuple[int, Convert]]

    def bound(self, values: Mapping[str, Any]) -> Any:
        """Return values as the driver takes them."""
        full = {**self.constant, **values}
        for name, convert in self.convert.items():
            full[name] = convert(full[name])
        return full if self.order is None else [full[name] for name in self.order]

    def read(self, found: Sequence[Any]) -> Any:
        """Return a row of the driver with its names."""
        values = list(found)
        for place, receive in self.receive:
            values[place] = receive(values[place])
        return self.row(*values)


@lru_cache
def _planned(statement: Select[Any] | Insert | Update, dialect: Compiler) -> _Plan:
    """Compile a statement for a database."""
    compiled: Any = statement.compile(dialect=dialect)
    columns = statement.selected_columns if isinstance(statement, Select) else ()
    types = [column.type.dialect_impl(dialect) for column in columns]
    return _Plan(
        text=str(compiled),
        constant={
            name: value.effective_value
            for name, value in compiled.binds.items()
            if not value.required
        },
        convert={
            name: convert
            for name, value in compiled.binds.items()
            if (convert := value.type.dialect_impl(dialect).bind_processor(dialect))
        },
        order=compiled.positiontup if compiled.positional else None,
        row=namedtuple("Row", [column.name for column in columns]),  # noqa: PYI024  (no types)
        receive=[
            (place, receive)
            for place, kind in enumerate(types)
            if (receive := kind.result_processor(dialect, None))
        ],
    )


def insert_into(
    connection: Connection, table: Table
) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT of the connection's dialect, to add ``on_conflict`` to.

    SQLite and PostgreSQL share the clause, but SQLAlchemy has one class for each.
    """
    dialect = import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
    new: sqlite.Insert | postgresql.Insert = dialect.insert(table)
    return new


def upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, object]],
    *,
    adding_to: Collection[str] = (),
) -> None:
    """Insert rows, each in the place of one that has its key.

    Parameters
    ----------
    adding_to : collection of str
        The columns of which the sum of both rows is kept.
    """
    if not rows:
        return
    new = insert_into(connection, table)
    values: dict[str, Any] = {
        column.key: new.excluded[column.key]
        for column in table.columns
        if not column.primary_key
    }
    values |= {name: table.c[name] + values[name] for name in adding_to}
    statement = new.on_conflict_do_update(index_elements=table.primary_key, set_=values)
    connection.execute(statement, rows)


def values_of(of: object, names: Iterable[str], /, **more: object) -> dict[str, Any]:
    """Return attributes of an object by their names, and further values."""
    return more | {name: getattr(of, name) for name in names}


def where_given(
    *comparisons: tuple[ColumnElement[Any], Callable[..., Any], object],
) -> list[ColumnElement[bool]]:
    """Return the conditions of those comparisons whose value is not None.

    Parameters
    ----------
    *comparisons : (ColumnElement, callable, object)
        A column, how it is compared (`operator.eq`), and the value.
    """
    return [
        compare(column, value)
        for column, compare, value in comparisons
        if value is not None
    ]


def where_place(
    columns: Sequence[Column[Any]],
    compare: Callable[[Any, Any], Any],
    place: Iterable[object] | None,
) -> list[ColumnElement[bool]]:
    """Return the condition on the values of some columns together; none without any."""
    if place is None:
        return []
    pairs = zip(columns, place, strict=True)
    values = (literal(value, column.type) for column, value in pairs)
    return [compare(tuple_(*columns), tuple_(*values))]


PER_QUERY: Final = 512
"""Values in one query: below the 999 variables that SQLite allowed before 3.32."""


def chunks(
    values: Iterable[T],
    *,
    most: int = PER_QUERY,
    weigh: Callable[[T], int] = lambda _: 0,
    room: int = 1,
) -> Iterator[list[T]]:
    """Give values in lists that fit into one query, or into one transaction.

    A list ends with the value by whose weight its room is full.

    Examples
    --------
    >>> [*chunks(["a", "b", "ccc", "d"], most=3, weigh=len, room=4)]
    [['a', 'b', 'ccc'], ['d']]
    """
    chunk: list[T] = []
    left = room
    for value in values:
        chunk.append(value)
        left -= weigh(value)
        if len(chunk) == most or left <= 0:
            yield chunk
            chunk, left = [], room
    if chunk:
        yield chunk


def where_in(
    connection: Connection,
    statement: Select[Any] | Delete,
    column: ColumnElement[Any],
    values: Iterable[object],
) -> list[Row[Any]]:
    """Execute a statement for those rows whose column has one of some values.

    Returns
    -------
    list of rows
        What the statement returns, in no order.
    """
    found: list[Row[Any]] = []
    for chunk in chunks(values):
        done = connection.execute(statement.where(column.in_(chunk)))
        if done.returns_rows:
            found += done
    return found
