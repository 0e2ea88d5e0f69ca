"""Engine: transactions for reading and for writing, and the errors of the driver.

SQLite and PostgreSQL, by URL.  `reading` gives one consistent snapshot,
`writing` one transaction that may change things; both roll back what fails.

A thread that takes the lock again at once would have it for the whole of its work.
Another thread of its process has the lock as soon as it is free, and another process
asks for it each millisecond (`sqlite.py`).  The longest of 100 waits (p99) of three
processes that write for 3 ms every 10 ms, and the steps that a fourth does in 6 s
beside them:

    a step takes       30 ms            60 ms           250 ms
    pauses of  2 ms    101 ms   155    189 ms    87    506 ms    24
               5 ms    103 ms   151    129 ms    86    762 ms    24
              10 ms     36 ms   146     65 ms    85    256 ms    23
    half a step         38 ms   116     67 ms    64    255 ms    18
"""

from __future__ import annotations

import math
import time
from contextlib import closing, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from app.errors import DatabaseUnavailable, InconsistentCounts, InvalidSetting
from app.storage.database.failure import NOTHING_STORED, Outage, Transaction, translated
from app.storage.database.sqlite import sqlite_engine
from app.storage.database.url import PATIENCE, READS, SILENCE, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection, Engine

    Begin = Callable[[], AbstractContextManager[Connection]]

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
        If the URL is not of one of these shapes, the driver is missing, or the folder
        of an SQLite file would have to be made in one that does not exist.
    DatabaseUnavailable
        If the folder of an SQLite file does not exist and cannot be made.

    Notes
    -----
    The folder of an SQLite file is made here, and none above it.  An in-memory SQLite
    database is refused: every thread would see one of its own.
    """
    parsed = parse(url)
    outage = Outage()
    options: dict[str, Any] = {
        "pool_size": pool_size,
        # A burst may open as many again; they are closed after it.
        "max_overflow": pool_size,
        "pool_timeout": busy_timeout,
        # The connection that was used last has the warmest page cache.
        "pool_use_lifo": True,
        "json_serializer": _as_json,
        # Whatever fails, words of mail, ids and vectors stay out of the log.
        "hide_parameters": True,
        "execution_options": {
            _WRITER: Lock(),
            PATIENCE: busy_timeout,
            _OUTAGE: outage,
        },
    }
    if parsed.get_backend_name() == "sqlite":
        return sqlite_engine(parsed, busy_timeout=busy_timeout, options=options)
    try:
        # Here, because SQLite alone works without the driver.
        from app.storage.database.postgresql import postgresql_engine  # noqa: PLC0415

        return postgresql_engine(
            parsed, busy_timeout=busy_timeout, outage=outage, options=options
        )
    # Not only where it is missing: also where it finds no libpq.
    except ImportError as error:
        msg = (
            "The PostgreSQL driver is not installed. "
            "Install it with: pip install 'postbayes[postgres]'."
        )
        raise InvalidSetting(msg) from error


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
        with translated(engine):
            outage.probe()


def opened(engine: Engine) -> int:
    """Return how many connections to a server there were until now.

    As long as they are no more, it is the server that it was: one that another took
    the place of, or that crashed, has let go of all.
    """
    return _outage(engine).opened


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Give a connection that sees one consistent snapshot of the database.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be reached or does not answer.
    DatabaseDamaged
        If what is read is damaged, or the file is no database.
    """
    _outage(engine).require_over()
    options: dict[str, Any] = {READS: True}
    if engine.dialect.name == "postgresql":
        options["isolation_level"] = "REPEATABLE READ"
    with (
        translated(engine),
        engine.connect().execution_options(**options) as connection,
        connection.begin(),
    ):
        yield connection


@contextmanager
def writing(engine: Engine, begin: Begin | None = None) -> Iterator[Connection]:
    """Give a connection whose changes are durable when the block ends.

    Leaving the block normally commits; anything raised in it rolls back.

    Parameters
    ----------
    engine : Engine
        The database.
    begin : callable or None
        Begins a transaction of this engine; None for one on a connection of the pool.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be reached, is locked for longer than the busy
        time-out, is full or read-only.  Nothing of the block is stored, unless
        the database went away while it committed: the error says so then.
    DatabaseDamaged
        If what is written to is damaged, or the file is no database.
    InconsistentCounts
        If a count would become negative.  Nothing of the block is stored.
    """
    transaction = Transaction()
    begun = begin or engine.begin
    if engine.dialect.name != "sqlite":
        _outage(engine).require_over()
        with translated(engine, transaction), begun() as connection:
            yield connection
            transaction.committing = True
        return
    with _queued(engine), translated(engine, transaction), begun() as connection:
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
        msg = f"The database was busy for {patience:g} seconds. {NOTHING_STORED}"
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
        translated(engine),
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
        translated(engine),
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
    with translated(engine), engine.connect() as connection:
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


def _as_json(value: object) -> str:
    """Return a document as a column holds it."""
    # The scores of a row take 2 us so, and 10.5 with the standard library's encoder.
    return to_json(value).decode()


def _outage(engine: Engine) -> Outage:
    """Return what is known of a server that hangs."""
    outage: Outage = engine.get_execution_options()[_OUTAGE]
    return outage


class Kept:
    """A connection that stays open between the transactions of one thread.

    To take one from the pool and to give it back took 85 us of the 2,140 that one
    feedback takes below HTTP.

    On SQLite only: of a connection to a server the pool asks before each transaction
    whether it is still alive.

    Parameters
    ----------
    engine : Engine
        The database.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def writing(self) -> AbstractContextManager[Connection]:
        """Return what `writing` returns, on the connection that is kept."""
        keeps = self._engine.dialect.name == "sqlite"
        return writing(self._engine, self._begin if keeps else None)

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        if self._connection is None:
            self._connection = self._engine.connect()
        try:
            with self._connection.begin():
                yield self._connection
        # It may be broken, or one to a file that could not be written once: SQLite
        # asks when it opens it.
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the connection back; the next transaction takes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


PAUSE: Final = 0.01
"""What comes after a step.  Unit: seconds."""


def pause() -> None:
    """Let others write."""
    time.sleep(PAUSE)


@contextmanager
def brief(engine: Engine) -> Iterator[Connection]:
    """Give a connection that writes one step, and then others the time to write.

    Raises
    ------
    DatabaseUnavailable
        If the database did not take it; then there is no pause.
    """
    with writing(engine) as connection:
        yield connection
    pause()
