"""Engine: transactions for reading and for writing, and the migrations.

Contract of this file: `reading` gives one consistent snapshot, `writing` one
transaction that may change things; both roll back what fails, and raise the errors of
`app.errors` for those of the driver.

A thread that writes in steps pauses after each step; otherwise it would hold the lock
for all of its work.  Another thread of its process gets the lock as soon as it is
free, and another process asks for it every millisecond (`sqlite.py`).  The
longest of 100 waits (p99) of three processes that write for 3 ms every 10 ms, and the
number of steps of a fourth in 6 s beside them:

    a step takes       30 ms            60 ms           250 ms
    pauses of  2 ms    101 ms   155    189 ms    87    506 ms    24
               5 ms    103 ms   151    129 ms    86    762 ms    24
              10 ms     36 ms   146     65 ms    85    256 ms    23
    half a step         38 ms   116     67 ms    64    255 ms    18
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

import app
from app.errors import (
    DatabaseTooNew,
    DatabaseUnavailable,
    DatabaseUnprepared,
    InvalidInput,
    InvalidSetting,
)
from app.storage.database.dialect import (
    DIALECT,
    EXTRA_RESPONSE_TIME,
    LOCK_TIMEOUT,
    READ_ONLY,
    dialect_of,
    missing,
    parse,
)
from app.storage.database.sqlite import Sqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alembic.config import Config
    from sqlalchemy import Connection, Engine

    from app.storage.database.dialect import Dialect
    from app.storage.database.postgresql import CommitListener

# Seconds that a transaction waits for the others before it gives up.  Python's
# sqlite3 module and Django wait 5 s as well; a mail server waits 30 s or more
# for us (Postfix `milter_command_timeout`).
BUSY_TIMEOUT: Final = 5.0
# Connections to keep open.  SQLite has one writer at a time, so more of them only
# serve readers.
POOL_SIZE: Final = 5
# Time that a process waits for another that migrates.  Unit: seconds.
_MIGRATION_TIMEOUT: Final = 300.0
NOTHING_STORED: Final = "Nothing was stored."
# By whether the transaction writes, and then by whether the trouble passes.
_EFFECTS: Final = (
    ("", "Try again later."),
    (NOTHING_STORED, "Nothing was stored; try again later."),
)
# A client that loses the connection between COMMIT and its answer cannot know more.
_PERHAPS_STORED: Final = (
    "The commit was under way, so the data may have been stored; sending it again is "
    "safe."
)


def open_engine(
    url: str,
    *,
    busy_timeout: float = BUSY_TIMEOUT,
    pool_size: int = POOL_SIZE,
    make: bool = True,
) -> Engine:
    """Return the engine for a database URL; nothing is connected yet.

    Parameters
    ----------
    url : str
        ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or
        ``postgresql://user@host/database``.
    busy_timeout : float
        Time that a transaction waits for a lock or a free connection.
        Unit: seconds.
    make : bool, default True
        Whether a missing SQLite file may be created.

    Returns
    -------
    Engine
        Use it only through `reading` and `writing`, which begin transactions
        correctly.

    Raises
    ------
    InvalidSetting
        If the URL is not of one of these shapes, the driver is missing, or the folder
        of an SQLite file would have to be made in one that does not exist; or if the
        file is not there and may not be made.
    DatabaseUnavailable
        If the folder of an SQLite file does not exist and cannot be made.

    Notes
    -----
    The folder of an SQLite file is made here, and none above it.  An in-memory SQLite
    database is refused: every thread would see one of its own.
    """
    parsed = parse(url)
    dialect: Dialect = Sqlite()
    if parsed.get_backend_name() != "sqlite":
        try:
            # Here, because SQLite alone works without the driver.
            import psycopg  # noqa: F401, PLC0415

            from app.storage.database.postgresql import Postgresql  # noqa: PLC0415
        # Not only where it is missing: also where it finds no libpq.
        except ImportError as error:
            raise InvalidSetting(
                "The PostgreSQL driver is not installed. Run pip install "
                "'.[postgres]' in the folder of the source."
            ) from error
        dialect = Postgresql()
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
        "execution_options": {LOCK_TIMEOUT: busy_timeout, DIALECT: dialect},
    }
    return dialect.create_engine(
        parsed, busy_timeout=busy_timeout, make=make, options=options
    )


@contextmanager
def disposing(engine: Engine) -> Iterator[Engine]:
    """Give an engine, and close its connections at the end.

    Otherwise the files of SQLite's log stay beside the database.
    """
    try:
        yield engine
    finally:
        engine.dispose()


def with_short_timeout(engine: Engine) -> Engine:
    """Return the same engine for short transactions that a client waits for.

    A PostgreSQL server that is silent for twice the busy time-out then counts as
    hanging.
    """
    return engine.execution_options(**{EXTRA_RESPONSE_TIME: 0.0})


def probe(engine: Engine) -> None:
    """Ask a server that hangs whether it answers; do nothing for any other.

    Raises
    ------
    DatabaseUnavailable
        If it still hangs, or is gone.
    """
    outage = dialect_of(engine).outage
    if outage.active:
        with translated(engine):
            outage.probe()


def connections_opened(engine: Engine) -> int:
    """Return the number of connections to a server so far.

    While the number stays the same, so does the server: one that crashed or was
    replaced has closed all its connections.  A pooler keeps those of its clients; then
    each counts again with its first transaction on another server.
    """
    return dialect_of(engine).outage.opened


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Give a connection that sees one consistent snapshot of the database.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be reached or does not answer.
    DatabaseDamaged
        If the data is damaged, or the file is not a database.
    """
    dialect_of(engine).outage.require_over()
    options = {READ_ONLY: True, **dialect_of(engine).reading_options}
    with (
        translated(engine, writes=False),
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
        the database went away during the commit, which the error then says.
    DatabaseDamaged
        If the data is damaged, or the file is not a database.
    InconsistentCounts
        If a count would become negative.  Nothing of the block is stored.
    """
    dialect_of(engine).outage.require_over()
    timeout: float = engine.get_execution_options()[LOCK_TIMEOUT]
    with (
        dialect_of(engine).write_lock(timeout),
        translated(engine) as transaction,
        engine.begin() as connection,
    ):
        yield connection
        transaction.committing = True


def checkpoint(engine: Engine, *, emptied: bool = False) -> bool:
    """Copy committed data from SQLite's write-ahead log into the database.

    Writers wait for the last pages of a long log, and for nothing else; what
    readers still need stays for the next time.  On PostgreSQL there is nothing to do.

    Parameters
    ----------
    emptied : bool
        Whether to empty the log, unless a reader still needs it.

    Returns
    -------
    bool
        False if the log was to be emptied and is not empty.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be written.
    """
    with translated(engine):
        return dialect_of(engine).checkpoint(engine, emptied=emptied)


def backup(
    engine: Engine,
    target: Path,
    *,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> None:
    """Copy a database to a file, in its state at one moment.

    Parameters
    ----------
    target : Path
        The file for the copy; an existing one is overwritten.
    progress : callable, optional
        Gets the number of copied pages, and of all pages.

    Raises
    ------
    InvalidInput
        If it is not an SQLite database.
    DatabaseUnavailable
        If it cannot be read.
    UnwritableFile
        If the copy cannot be written.
    DatabaseDamaged
        If the copy is not sound.

    Notes
    -----
    Learning goes on meanwhile.  The copy has the state at its beginning, because one
    read transaction is held.  Without it, SQLite's backup restarts whenever another
    process writes between two of its steps (https://sqlite.org/backup.html): with 50 MB
    and a process that writes all the time, it takes 0.14 s with the transaction, and
    had not finished after three minutes without.
    """
    dialect = dialect_of(engine)
    if dialect.is_server:
        raise InvalidInput(
            "backup copies SQLite databases; for PostgreSQL use pg_dump, or "
            "postbayes export --with-ledger for one profile"
        )
    with reading(engine) as connection:
        dialect.backup(connection, target, progress)


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """Give a separate connection that may change the tables themselves.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be reached or written.
    """
    dialect_of(engine).outage.require_over()
    with (
        translated(engine),
        engine.connect().execution_options(
            **{LOCK_TIMEOUT: _MIGRATION_TIMEOUT}
        ) as connection,
    ):
        # Not returned to the pool, because it is set up for this purpose only.
        connection.detach()
        with dialect_of(engine).migrating(connection):
            yield connection


@contextmanager
def listening(engine: Engine) -> Iterator[CommitListener]:
    """Give a listener on a separate connection; see `Dialect.is_server`.

    It is closed at the end.  Errors of the driver in the block are translated.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be reached, or not any longer.
    """
    dialect_of(engine).outage.require_over()
    with translated(engine), engine.connect() as connection:
        connection.detach()
        driver: Any = connection.connection.dbapi_connection
        try:
            yield dialect_of(engine).listen(driver)
        finally:
            # A lost connection cannot be rolled back; SQLAlchemy would try, and log a
            # traceback.
            if driver.closed:
                connection.invalidate()


@dataclass(slots=True)
class Transaction:
    """The progress of a transaction."""

    committing: bool = False


@contextmanager
def translated(engine: Engine, *, writes: bool = True) -> Iterator[Transaction]:
    """Translate errors of the driver in the block.

    Raises
    ------
    DatabaseUnavailable
        If the database refused it; the sentence says whether it may be stored.
    DatabaseUnprepared
        If a right, a table or a column is missing.
    DatabaseDamaged
        If no later attempt would help either.
    InconsistentCounts
        If a check of the tables refused a count.
    """
    transaction = Transaction()
    # The driver's own errors too: hot statements and bulk reads use its cursor.
    driver = engine.dialect.loaded_dbapi
    try:
        yield transaction
    except PoolTimeoutError as error:
        msg = f"All connections to the database are in use. {_EFFECTS[writes][True]}"
        raise DatabaseUnavailable(msg) from error
    except (DBAPIError, driver.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        found = dialect_of(engine).diagnose(engine.url, cause)
        # A defect, which no later attempt helps.
        if found is None:
            raise
        if not issubclass(found.error, DatabaseUnavailable):
            raise found.error(found.sentence, confidential=True) from error
        effect = _EFFECTS[writes][found.passes]
        if transaction.committing and found.stored:
            effect = _PERHAPS_STORED
        msg = f"{found.sentence} {effect}".rstrip()
        raise found.error(msg, confidential=True) from error


def _as_json(value: object) -> str:
    """Return a document in the form of its column."""
    # The scores of a row take 2 us, and 10.5 with the standard library's encoder.
    return to_json(value).decode()


PAUSE: Final = 0.01
"""Pause after a step that writes.  Unit: seconds."""


def pause() -> None:
    """Let other transactions take the lock."""
    time.sleep(PAUSE)


@contextmanager
def writing_then_pause(engine: Engine) -> Iterator[Connection]:
    """Give a connection that writes one step, and then others the time to write.

    Raises
    ------
    DatabaseUnavailable
        If the database refused it; then there is no pause.
    """
    with writing(engine) as connection:
        yield connection
    pause()


log = logging.getLogger(__name__)


def alembic_config() -> Config:
    """Return the configuration of Alembic; there is no file for it."""
    # Imported here: few starts migrate, and importing Alembic takes 0.13 s.
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    # Alembic's configuration interpolates, so a percent sign is doubled.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _run_migrations(connection: Connection) -> None:
    """Run the migrations that the database lacks, in the caller's transaction."""
    from alembic import command  # noqa: PLC0415

    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


# Beside the package, in a checkout as in an installed wheel.
MIGRATIONS: Final = Path(app.__file__).parent.parent / "migrations"


def migrate(
    engine: Engine,
    *,
    make: bool = True,
    upgrade: bool = True,
    check: Callable[[Connection], object] = lambda _: None,
) -> None:
    """Bring an empty or older database to the tables of this version.

    Any number of processes may call it at once: one does it, the others wait.
    A database that is up to date is only read.

    Parameters
    ----------
    make : bool, default True
        Whether to create the tables of an empty database.
    upgrade : bool, default True
        Whether to change the tables of an older version.
    check : callable
        Called before a migration is committed; its error leaves the database as it was.

    Raises
    ------
    DatabaseTooNew
        If a newer version of Postbayes has migrated the database.
    DatabaseUnprepared
        If its tables are of an older version, and may not be changed.
    DatabaseUnavailable
        If the database cannot be reached or written.
    InvalidSetting
        If its user may not create tables, or it has none and they may not be created.
    """
    with reading(engine) as connection:
        found = _checked(connection)
    if found == _known()[-1]:
        return
    if found is None and not make:
        raise missing(dialect_of(engine).place(engine.url))
    if found is not None and not upgrade:
        raise DatabaseUnprepared(
            f"The database is at migration {found}, but this version of Postbayes "
            f"needs {_known()[-1]}. Make a backup, then run `postbayes migrate`; "
            "`postbayes serve` migrates it too."
        )
    try:
        with migrating(engine) as connection:
            # Again, now that no other process migrates.
            before = _checked(connection)
            if before != _known()[-1]:
                _run_migrations(connection)
                check(connection)
                since = f"from {before} " if before else ""
                log.info("the database was migrated %sto %s", since, _known()[-1])
    # Nobody has used it in this version: the URL names the wrong database or user.
    except DatabaseUnprepared as error:
        lack = str(error).removesuffix(NOTHING_STORED).rstrip()
        msg = f"The tables cannot be created in this database. {lack}"
        raise InvalidSetting(msg) from error


def revision_of(engine: Engine) -> str | None:
    """Return the migration of the tables that are there; None if there are none."""
    with reading(engine) as connection:
        return _revision(connection)


def _revision(connection: Connection) -> str | None:
    """Return the migration of the tables; None without tables."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version = text("SELECT version_num FROM alembic_version")
    found: str | None = connection.scalar(version)
    return found


def _known() -> list[str]:
    """Return the revisions of this version, the newest last."""
    # The files are numbered as the revisions are, one after the other: see
    # test_migrations_are_numbered_and_lead_to_one_head.
    return sorted(file.name[:4] for file in (MIGRATIONS / "versions").glob("*.py"))


def _checked(connection: Connection) -> str | None:
    """Return the migration of the tables, or refuse a newer database."""
    migrations, revision = _known(), _revision(connection)
    if revision not in (None, *migrations):
        raise DatabaseTooNew(
            f"The database is at migration {revision}, but this version of Postbayes "
            f"only knows migrations up to {migrations[-1]}. Start the newer version "
            "again, or restore a backup from before the upgrade."
        )
    return revision
