"""How does a transaction begin, and what becomes of one that fails?

SQLite and PostgreSQL, by URL.  `reading` gives one consistent snapshot,
`writing` one transaction that may change things; both translate what the
driver raises into the errors of `app.errors`, and roll back.
"""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.errors import DatabaseUnavailable, InconsistentCounts, InvalidSetting
from app.storage.drivers import (
    PATIENCE,
    READS,
    SILENCE,
    postgresql_engine,
    sqlite_engine,
)
from app.storage.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import URL, Connection

# Seconds that a transaction waits for the others before it gives up.  Python's
# sqlite3 module and Django wait 5 s as well; a mail server waits 30 s or more
# for us (Postfix `milter_command_timeout`).
BUSY_TIMEOUT: Final = 5.0

# Connections kept open.  SQLite has one writer at a time, so more of them only
# serve readers.
POOL_SIZE: Final = 5

# Pages of SQLite's log from which it is seen to that it begins anew: only one that is
# copied whole does, and where somebody always writes it never is.  A commit of ten
# pages took 0.32 ms where the file became longer, and 0.15 ms where it was written
# over.  To copy what came meanwhile, while nobody writes, took 5 to 27 ms on a busy
# machine.  As many as SQLite takes for a reason to copy them.
_LONG_LOG: Final = 1_000

# How long a process waits for another that migrates.  Unit: seconds.
_MIGRATION_PATIENCE: Final = 300.0

# Execution options of an engine: the lock that its writers take on SQLite, and what
# is known of a server that hangs.
_WRITER: Final = "postbayes_writer"
_OUTAGE: Final = "postbayes_outage"

_NOTHING_STORED: Final = "Nothing of this was stored; try again later."
# Whoever loses the connection between COMMIT and its answer cannot know.
_PERHAPS_STORED: Final = (
    "It was being committed, so this may or may not have been stored; "
    "sending it again is safe."
)


def open_engine(
    url: str, *, busy_timeout: float = BUSY_TIMEOUT, pool_size: int = POOL_SIZE
) -> Engine:
    """Return the engine for a database URL; nothing is connected yet.

    Parameters
    ----------
    url : str
        ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or
        ``postgresql://user@host/database``.
    busy_timeout : float
        How long a transaction waits for a lock or a free connection.
        Unit: seconds.
    pool_size : int
        Connections that are kept open.

    Returns
    -------
    Engine
        Use it through `reading` and `writing` only: they know how a
        transaction has to begin.

    Raises
    ------
    InvalidSetting
        If the URL is not of one of these shapes, or the driver is missing.
    DatabaseUnavailable
        If the folder of an SQLite file does not exist and cannot be created.

    Notes
    -----
    The folder of an SQLite file is created here.  An in-memory SQLite database
    is refused: every thread would see one of its own.
    """
    parsed = _parse(url)
    outage = Outage()
    options: dict[str, Any] = {
        "pool_size": pool_size,
        # A burst may open as many again; they are closed after it.
        "max_overflow": pool_size,
        "pool_timeout": busy_timeout,
        # The connection that was used last has the warmest page cache.
        "pool_use_lifo": True,
        "execution_options": {
            _WRITER: Lock(),
            PATIENCE: busy_timeout,
            _OUTAGE: outage,
        },
    }
    if parsed.get_backend_name() == "sqlite":
        return sqlite_engine(parsed, busy_timeout=busy_timeout, options=options)
    return postgresql_engine(
        parsed, busy_timeout=busy_timeout, outage=outage, options=options
    )


def hasty(engine: Engine) -> Engine:
    """Return the same engine for short transactions that somebody waits for.

    A PostgreSQL that says nothing for twice the busy time-out is then taken to
    hang.
    """
    return engine.execution_options(**{SILENCE: 0.0})


def probe(engine: Engine) -> None:
    """Ask a server that is known to hang whether it answers; any other, nothing.

    Raises
    ------
    DatabaseUnavailable
        If it hangs still, or is gone.
    """
    outage = _outage(engine)
    if outage.lasts:
        with _translated(engine):
            outage.probe()


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Give a connection that sees one consistent snapshot of the database.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be reached or does not answer.
    """
    _outage(engine).require_over()
    options: dict[str, Any] = {READS: True}
    if engine.dialect.name == "postgresql":
        options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with (
        _translated(engine),
        engine.connect().execution_options(**options) as connection,
        connection.begin(),
    ):
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Give a connection whose changes are durable when the block ends.

    Leaving the block normally commits; anything raised in it rolls back.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be reached, is locked for longer than the busy
        time-out, is full or read-only.  Nothing of the block is stored, unless
        the database went away while it committed: the error says so then.
    InconsistentCounts
        If a count would become negative.  Nothing of the block is stored.
    """
    transaction = _Transaction()
    if engine.dialect.name != "sqlite":
        _outage(engine).require_over()
        with _translated(engine, transaction), engine.begin() as connection:
            yield connection
            transaction.committing = True
        return
    with (
        _queued(engine),
        _translated(engine, transaction),
        engine.begin() as connection,
    ):
        yield connection
        transaction.committing = True


@contextmanager
def _queued(engine: Engine) -> Iterator[None]:
    """Wait until no other thread of this process writes to SQLite.

    SQLite has one writer, and who waits for it has to ask again and again.  So the
    threads of one process queue here, and only other processes are asked for.
    """
    writer: Lock = engine.get_execution_options()[_WRITER]
    patience: float = engine.get_execution_options()[PATIENCE]
    if not writer.acquire(timeout=patience):
        msg = f"The database was busy for {patience:g} seconds. {_NOTHING_STORED}"
        raise DatabaseUnavailable(msg)
    try:
        yield
    finally:
        writer.release()


def checkpoint(engine: Engine) -> None:
    """Copy what is committed from SQLite's write-ahead log into the database.

    Writers wait for the last pages of a long log, and for nothing else; what
    readers still need stays for the next time.  On PostgreSQL there is nothing to do.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be written.
    """
    if engine.dialect.name != "sqlite":
        return
    # The driver's connection: in a transaction there is no checkpoint. Its cursor is
    # closed before it is given back: beside a pragma that was not read to its end
    # SQLite refuses the commit of whoever has the connection next.
    with (
        _translated(engine),
        closing(engine.raw_connection()) as connection,
        closing(connection.cursor()) as cursor,
    ):
        passive = "PRAGMA wal_checkpoint(PASSIVE)"
        _, pages, _ = cursor.execute(passive).fetchone()
        if pages >= _LONG_LOG:
            with _queued(engine):
                cursor.execute(passive)


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """Give a connection of its own that may change the tables themselves.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be reached or written.
    """
    _outage(engine).require_over()
    patient = {PATIENCE: _MIGRATION_PATIENCE}
    with (
        _translated(engine),
        engine.connect().execution_options(**patient) as connection,
    ):
        # Not given back to the pool: it is set up for this purpose only.
        connection.detach()
        if connection.dialect.name == "sqlite":
            cursor = connection.connection.cursor()
            # Changing a table on SQLite means copying and dropping it, which
            # would delete what refers to it.  No effect inside a transaction.
            cursor.execute("PRAGMA foreign_keys = OFF")
            cursor.close()
        with connection.begin():
            if connection.dialect.name == "postgresql":
                # To build an index, a server may say nothing for long.
                driver: Any = connection.connection.dbapi_connection
                driver.silence = math.inf
            yield connection
            if connection.dialect.name == "sqlite" and (
                connection.exec_driver_sql("PRAGMA foreign_key_check").first()
            ):
                msg = "A migration would leave rows that refer to nothing."
                raise InconsistentCounts(msg)


@contextmanager
def listening(engine: Engine) -> Iterator[Any]:
    """Give a connection of PostgreSQL's driver, outside of transactions.

    It is closed at the end.  What the driver raises in the block is translated.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be reached, or no longer.
    """
    _outage(engine).require_over()
    with _translated(engine), engine.connect() as connection:
        connection.detach()
        driver: Any = connection.connection.dbapi_connection
        driver.autocommit = True
        try:
            yield driver
        finally:
            # Of a connection that is lost nothing can be rolled back, and SQLAlchemy
            # would try and log a traceback.
            if driver.closed:
                connection.invalidate()


def _outage(engine: Engine) -> Outage:
    """Return what is known of a server that hangs."""
    outage: Outage = engine.get_execution_options()[_OUTAGE]
    return outage


def _parse(url: str) -> URL:
    """Return the URL with the driver that we use, or refuse it."""
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


@dataclass(slots=True)
class _Transaction:
    """How far a transaction is."""

    committing: bool = False

    def stored(self, error: object) -> str:
        """Return what is to be said of it if it fails now, with that error."""
        # Of what did not fit not even the log has the end, so none of it counts.
        full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        return _PERHAPS_STORED if self.committing and not full else _NOTHING_STORED


@contextmanager
def _translated(
    engine: Engine, transaction: _Transaction | None = None
) -> Iterator[None]:
    """Raise what the driver raises as an error of ours."""
    state = transaction or _Transaction()
    # The driver's own errors too: hot statements and bulk reads use its cursor.
    driver = engine.dialect.loaded_dbapi
    try:
        yield
    except PoolTimeoutError as error:
        msg = f"All connections to the database are in use. {_NOTHING_STORED}"
        raise DatabaseUnavailable(msg) from error
    except (DBAPIError, driver.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, driver.IntegrityError) and "check" in str(cause).lower():
            msg = f"A count would be negative: {_first_line(cause)}"
            raise InconsistentCounts(msg) from error
        # A statement or a value that the database cannot take is a defect of ours,
        # which no later attempt cures.
        defects = driver.IntegrityError, driver.ProgrammingError, driver.DataError
        if isinstance(cause, defects):
            raise
        msg = f"The database is away: {_first_line(cause)}. {state.stored(cause)}"
        raise DatabaseUnavailable(msg) from error


def _first_line(error: object) -> str:
    """Return what the driver says, without its hints and positions."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
