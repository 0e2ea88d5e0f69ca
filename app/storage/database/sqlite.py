"""SQLite: connections, locks, the write-ahead log, and special statements.

Contract of this file: transactions begin according to the options of their connection
(`dialect.READ_ONLY`, `dialect.LOCK_TIMEOUT`).  Counts are read and written in few large
values (`app.storage.runs`): between two steps of a statement, the driver waits for the
lock of the interpreter, up to 5 ms, while it holds the write lock of the database.
Beside a thread that never rests, 5,000 upserts in 300,000 rows took 2.3 s one by one,
and 0.14 s in this way; alone both take 0.09 s.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.dialects import sqlite

from app.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    DatabaseUnprepared,
    InconsistentCounts,
    InvalidSetting,
    UnwritableFile,
)
from app.storage.database.dialect import (
    LOCK_TIMEOUT,
    NEGATIVE,
    OTHER_VERSION,
    READ_ONLY,
    Diagnosis,
    Dialect,
    first_line,
    missing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import URL, Connection

    from app.errors import PostbayesError

# Pages of the write-ahead log after which a commit itself copies them into the
# database, and waits for the disk twice more.  `checkpoint` does so earlier, beside
# the commits; this is for processes that do not call it.  SQLite's default is 1,000.
_LOG_PAGES: Final = 16_384
# Interval of requests for SQLite's write lock while another process has it.  SQLite's
# busy handler asks after 1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50 and then every 100 ms,
# so a process that has waited longest asks least often.  The longest of 100 waits
# (p99), in ms, with three and with seven others that hold it for 3 ms and rest for 1,
# and with one that holds it for 30 ms and rests for 7.5:
#
#     asks             busy handler   every 0.5 ms    1 ms    2 ms    5 ms
#     three others              231             45      38      61     104
#     seven others              532            105     102     157     169
#     a long one                535             31      57      57      62
#
# Unit: seconds.
_ASK_AGAIN: Final = 0.001
# The path in a URI for SQLite: without the host, which can only be this one
# (https://sqlite.org/uri.html).
_URI: Final = re.compile("file:(?://[^/?#]*)?([^?#]*)")
# Pages of SQLite's log from which a checkpoint restarts it: it restarts only if it was
# copied completely, which never happens beside writers that do not pause.  A commit of
# ten pages took 0.32 ms if the file grew, and 0.15 ms if it was overwritten.  Copying
# the rest under the write lock took 5 to 27 ms on a busy machine.  By default, SQLite
# copies from this size on.
_LONG_LOG: Final = 1_000
# For a backup: pages of one step, 4 MB, some ms, after which progress is shown; and
# instructions of SQLite, some ms, after which Python handles signals.
_BACKUP_PAGES: Final = 1024
_BACKUP_INSTRUCTIONS: Final = 1_000_000
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# The latter where not even the `-shm` finds room, at the first use of the file.
_FULL: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
# SQLite has no codes of its own for them: all are SQLITE_ERROR.
_NO_TABLE: Final = "no such table"
_NO_COLUMN: Final = ("no such column", "has no column named")
_DEFECTS: Final = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
)
# Note on a connection: whether SQLite's busy handler is on, as it is at first.  Readers
# have it, for the moments in which another process sets up or recovers the log;
# writers ask by themselves, and the holder of the lock never waits.
_HANDLED: Final = "postbayes_busy_handler"
# Note on a connection: how often connections were refused to write before; or that the
# file could not be written.  SQLite checks this only when it opens the file, and such a
# connection never writes.  Nor does any that is opened beside it, because all
# connections of a process share the index of the log.  So those from before the last
# refusal are closed after use, and the next ones may write.
_REFUSALS: Final = "postbayes_refusals"
_UNWRITABLE: Final = -1

_Identity: TypeAlias = tuple[int, int]
# What to do once a file was deleted, moved or replaced.
_PUT_BACK: Final = (
    ", put the file back, without the -wal and -shm files of another database, and "
    "start again"
)
# Its descriptors keep a log that has no name: the last process that ends copies it.
_RESTART: Final = (
    " with SIGTERM, which copies all that was confirmed into the database, and start "
    "again"
)


class Sqlite(Dialect):
    """A file, which the processes of one machine use."""

    is_server = False

    def __init__(self) -> None:
        super().__init__()
        self._writer = Lock()

    def place(self, url: URL) -> str:
        """Return the path of the file."""
        return str(_path(*sqlite.dialect().create_connect_args(url)))

    def create_engine(
        self, url: URL, *, busy_timeout: float, make: bool, options: dict[str, Any]
    ) -> Engine:
        """Return an engine for a file, which is made with its folder if it may be."""
        if make:
            _make_folder(str(url.database))
        else:
            _require_file(self.place(url))
        engine = create_engine(
            url,
            # No isolation level: the driver would begin transactions by itself, late
            # and only for some statements.  We begin them, in `_begin`.
            connect_args={"timeout": busy_timeout, "isolation_level": None},
            **options,
        )

        path = _path(*engine.dialect.create_connect_args(engine.url))
        log = path.with_name(f"{path.name}-wal")
        opened: _Identity | None = None
        # The log of each open connection.  SQLite deletes it with the last of all
        # processes, and makes another one with the next.
        logs: dict[int, _Identity | None] = {}
        refusals = 0

        def _open(_dialect: Any, record: Any, arguments: Any, named: Any) -> None:
            # Before SQLite makes an empty one.
            _require_same(path, opened, _PUT_BACK)
            _require_same(log, next(filter(None, tuple(logs.values())), None), _RESTART)
            if "mode" not in url.query:
                _make_private(path)
            _note_read_only(Path(str(url.database)), record, arguments, named)

        def _connect(connection: Any, record: Any) -> None:
            nonlocal opened
            opened = opened or _identity(path)
            record.info.setdefault(_REFUSALS, refusals)
            _configure(connection, record, timeout=busy_timeout)
            logs[id(connection)] = _identity(log)

        def _close(_connection: Any, record: Any) -> None:
            if record.info.get(_REFUSALS, refusals) < refusals:
                record.invalidate()

        def _begin(connection: Connection) -> None:
            nonlocal refusals
            _require_same(path, opened, _PUT_BACK)
            driver = connection.connection.dbapi_connection
            _require_same(log, logs.get(id(driver)), _RESTART)
            _require_uncut(log, driver)
            try:
                _begin_transaction(connection, busy_timeout)
            except sqlite3.OperationalError as error:
                if _code(error) == sqlite3.SQLITE_READONLY:
                    refusals += 1
                    engine.dispose()
                raise

        event.listen(engine, "do_connect", _open)
        event.listen(engine, "connect", _connect)
        event.listen(engine, "checkin", _close)
        event.listen(engine, "close", lambda each, _: logs.pop(id(each), None))
        event.listen(engine, "close_detached", lambda each: logs.pop(id(each), None))
        event.listen(engine, "begin", _begin)
        return engine

    @contextmanager
    def write_lock(self, timeout: float) -> Iterator[None]:
        """Wait until no other thread of this process writes.

        SQLite has one writer, and a waiting process has to ask repeatedly.  So the
        threads of one process queue here, and only the lock of other processes is asked
        for.
        """
        if not self._writer.acquire(timeout=timeout):
            raise DatabaseUnavailable(
                f"The database was busy for {timeout:g} seconds. Nothing was stored; "
                "try again later."
            )
        try:
            yield
        finally:
            self._writer.release()

    def checkpoint(self, engine: Engine, *, emptied: bool) -> bool:
        """Copy committed data from the write-ahead log into the database."""
        # The driver's connection: in a transaction there is no checkpoint. Its cursor
        # is closed before it is given back: beside a pragma that was not read to its
        # end SQLite refuses the next commit on the connection.
        with (
            closing(engine.raw_connection()) as connection,
            closing(connection.cursor()) as cursor,
        ):
            passive = "PRAGMA wal_checkpoint(PASSIVE)"
            _, pages, _ = cursor.execute(passive).fetchone()
            if pages >= _LONG_LOG or emptied:
                with self.write_lock(engine.get_execution_options()[LOCK_TIMEOUT]):
                    if not emptied:
                        cursor.execute(passive)
                        return True
                    # Without waiting for readers, as a writer of another process would.
                    cursor.execute("PRAGMA busy_timeout = 0")
                    connection.info[_HANDLED] = False
                    busy, _, _ = cursor.execute(
                        "PRAGMA wal_checkpoint(TRUNCATE)"
                    ).fetchone()
                    return not busy
        return True

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Give a transaction without foreign keys, which are checked at its end."""
        with closing(connection.connection.cursor()) as cursor:
            # Changing a table on SQLite means copying and dropping it, which
            # would delete what refers to it.  No effect inside a transaction.
            cursor.execute("PRAGMA foreign_keys = OFF")
        with connection.begin():
            yield
            if connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                msg = "A migration would leave rows with broken references."
                raise InconsistentCounts(msg)

    def backup(
        self,
        connection: Connection,
        target: Path,
        progress: Callable[[int, int], object],
    ) -> None:
        """Copy the database to a file, as the transaction of the connection sees it."""

        def show(_status: int, left: int, total: int) -> None:
            progress(total - left, total)

        # The snapshot is taken by the first read.
        connection.exec_driver_sql("SELECT 1 FROM sqlite_schema").first()
        source: Any = connection.connection.driver_connection
        try:
            _make_private(target)
            with closing(sqlite3.connect(target)) as copy:
                # A copy that fails is removed, and its journal would be left behind.
                copy.execute("PRAGMA journal_mode = OFF")
                source.backup(copy, pages=_BACKUP_PAGES, progress=show)
                # Else a signal would wait until the check of a large copy is done.
                copy.set_progress_handler(lambda: 0, _BACKUP_INSTRUCTIONS)
                # A file of its own, that can be copied on by itself.
                copy.execute("PRAGMA journal_mode = DELETE")
                found = copy.execute("PRAGMA integrity_check").fetchall()
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                # What a signal raises in the handler of progress, SQLite swallows.
                raise KeyboardInterrupt from error
            if error.sqlite_errorcode not in _DAMAGED:
                msg = f"the backup {target} cannot be written: {error}"
                raise UnwritableFile(msg) from error
            # What is bad enough ends the check instead of being found by it.
            found = [(str(error),)]
        if found != [("ok",)]:
            raise DatabaseDamaged(
                f"the backup {target} is damaged ({found[0][0]}), because the "
                "database or the disk is"
            )

    def diagnose(self, url: URL, error: BaseException | None) -> Diagnosis | None:
        """Return the diagnosis of an error of sqlite3."""
        message = first_line(error)
        path = str(url.database)
        file = path if path.startswith("file:") else str(Path(path).absolute())
        code = _code(error)
        extended: int | None = getattr(error, "sqlite_errorcode", None)
        kind: type[PostbayesError] = DatabaseUnavailable
        restore = "Restore a backup as docs/operating.md describes."
        if code in _DAMAGED:
            kind = DatabaseDamaged
            sentence = (
                f"{file} is damaged, or not an SQLite database ({message}). {restore}"
            )
        elif extended == sqlite3.SQLITE_CONSTRAINT_CHECK:
            kind, sentence = InconsistentCounts, NEGATIVE.format(text=message)
        elif message.startswith(_NO_TABLE):
            kind = DatabaseUnprepared
            sentence = f"Something is missing in {file}: {message}. {restore}"
        elif any(each in message for each in _NO_COLUMN):
            kind, sentence = DatabaseUnprepared, OTHER_VERSION.format(text=message)
        elif code == sqlite3.SQLITE_ERROR or isinstance(error, _DEFECTS):
            return None
        elif code == sqlite3.SQLITE_CANTOPEN:
            sentence = (
                f"{file} cannot be opened: check the path, the permissions of the file "
                "and its folder, and that the disk has free inodes (`df -i`); or too "
                "many files are open (`ulimit -n`)."
            )
        elif extended in _FULL:
            sentence = f"The disk of {file} is full; free some space there."
        elif code == sqlite3.SQLITE_READONLY:
            sentence = (
                f"{file} is read-only ({message}): check its disk, and that user "
                f"{os.geteuid()} may write the file, its -wal and -shm, and its folder."
            )
        elif code == sqlite3.SQLITE_IOERR:
            # For SQLite, only ENOSPC is a full disk.
            sentence = (
                f"The disk of {file} failed ({message}): check it, the log of the "
                f"system, and the disk quota and `ulimit -f` of user {os.geteuid()}."
            )
        else:
            trouble = "is busy" if code in _BUSY else "is unavailable"
            sentence = f"The database {trouble}: {message}."
            return Diagnosis(kind, sentence, passes=True)
        # Of what did not fit not even the log has the end.
        return Diagnosis(kind, sentence, stored=extended not in _FULL)


def _make_folder(place: str) -> None:
    """Make the folder of a file, and none above it; none for a URI."""
    if place.startswith("file:"):
        return
    folder = Path(place).absolute().parent
    try:
        folder.mkdir(exist_ok=True)
    except FileNotFoundError as error:
        raise InvalidSetting(
            f"The folder {folder} for the database cannot be created, because "
            f"{folder.parent} does not exist. Create that folder, or correct the "
            "database URL."
        ) from error
    except OSError as error:
        raise DatabaseUnavailable(
            f"The folder {folder} for the database cannot be created: "
            f"{error.strerror}. Create it for user {os.geteuid()}, or correct the "
            "database URL."
        ) from error


def _require_file(place: str) -> None:
    """Refuse a database that is not there, as far as the user may see.

    `Path.exists` raises PermissionError in a closed folder, and says no from Python
    3.14 on.
    """
    try:
        Path(place).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing(place) from error
    except OSError:
        pass  # It prevents SQLite too, which says so.


def _make_private(path: Path) -> None:
    """Make an empty file that nobody else may read, unless there is one.

    SQLite gives its log and its index the permissions of the database.
    """
    # What prevents it prevents SQLite too, which says so.
    with suppress(OSError):
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            give_to_owner_of(path.parent, file)
        finally:
            os.close(file)


def give_to_owner_of(folder: Path, file: int) -> None:
    """Let a new file of root belong to the owner of its folder.

    A command that root runs before the first start would otherwise make a file that the
    service may not read.  SQLite does the same for its log and its index.
    """
    if os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(file, owner.st_uid, owner.st_gid)


def _path(arguments: Any, named: Any) -> Path:
    """Return the file that the driver opens, which a URI may name."""
    name = str(arguments[0])
    if named.get("uri") and (found := _URI.match(name)):
        name = os.fsdecode(unquote_to_bytes(found[1]))
    return Path(name).absolute()


def _identity(path: Path) -> _Identity | None:
    """Return the identity of a file behind its name; None if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116  half the time, for each transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _require_same(path: Path, opened: _Identity | None, way_out: str) -> None:
    """Raise if a file that was opened is there no more.

    SQLite goes on writing to one that has no name any more, and then it is gone.

    Raises
    ------
    DatabaseUnavailable
        If it was deleted, moved or replaced.
    """
    if opened is not None and _identity(path) != opened:
        raise DatabaseUnavailable(
            f"The file {path} is not the one that was opened: it was deleted, moved "
            f"or replaced. Stop every process that uses it{way_out}. Nothing was "
            "stored.",
            confidential=True,
        )


def _require_uncut(log: Path, driver: Any) -> None:
    """Raise if the write-ahead log was emptied in place, and not by SQLite.

    SQLite goes on writing behind what is gone, and at the end copies zeros into the
    database: after `truncate` and one lesson, no table could be read.

    Raises
    ------
    DatabaseUnavailable
        If its index says that it has pages.
    """
    if not _is_empty(log):
        return
    try:
        # Of a log that SQLite has emptied itself, the index is empty too.
        _, pages, _ = driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.OperationalError as error:
        if _code(error) != sqlite3.SQLITE_IOERR:
            return
        pages = 1
    # Looked at again, since another process may have written meanwhile.
    if pages > 0 and _is_empty(log):
        raise DatabaseUnavailable(
            f"The file {log} was emptied by another program. Stop every process that "
            "uses it, and start again: the database then lacks what was stored in its "
            "last moments before that. Nothing was stored.",
            confidential=True,
        )


def _is_empty(path: Path) -> bool:
    try:
        return os.stat(path).st_size == 0  # noqa: PTH116  as in `_identity`
    except OSError:
        return False


def _note_read_only(path: Path, record: Any, arguments: Any, named: Any) -> None:
    """See to it that a file is read that cannot be written."""
    # Before it is opened: the file may become writable at any time.
    # Not `is_file`, which raises where a folder may not be looked into.
    if os.access(path, os.F_OK) and not os.access(path, os.W_OK):
        record.info[_REFUSALS] = _UNWRITABLE
        # After a clean stop it has no write-ahead log, and on a read-only file system
        # SQLite cannot make one: it reads nothing then, unless it is told that the file
        # never changes.
        log = path.with_name(f"{path.name}-wal")
        if os.statvfs(path).f_flag & os.ST_RDONLY and not log.exists():
            arguments[0] = f"{path.absolute().as_uri()}?immutable=1"
            named["uri"] = True


def _code(error: BaseException | None) -> int | None:
    """Return SQLite's code of an error: the lowest byte, without what explains it."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _begin_transaction(connection: Connection, busy_timeout: float) -> None:
    """Begin to read, or to write."""
    # On the driver's connection, in a tenth of the time.
    driver: Any = connection.connection.dbapi_connection
    options = connection.get_execution_options()
    reads = options.get(READ_ONLY, False)
    if connection.info.get(_HANDLED, True) != reads:
        seconds = busy_timeout if reads else 0
        driver.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
        connection.info[_HANDLED] = reads
    if reads:
        driver.execute("BEGIN DEFERRED")
    else:
        _execute_when_free(driver, "BEGIN IMMEDIATE", timeout=options[LOCK_TIMEOUT])


def _execute_when_free(driver: Any, statement: str, *, timeout: float) -> Any:
    """Execute a statement as soon as no other process holds the lock that it takes."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return driver.execute(statement)
        except sqlite3.OperationalError as error:
            busy = _code(error) == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() >= deadline:
                raise
        time.sleep(_ASK_AGAIN)


def _configure(connection: Any, record: Any, *, timeout: float) -> None:
    """Set what holds for a connection while it is open."""
    cursor = connection.cursor()
    if record.info[_REFUSALS] != _UNWRITABLE:
        _use_wal(cursor, timeout=timeout)
    # FULL: a commit that was acknowledged survives a power cut.  WAL with
    # NORMAL may lose the last ones (https://sqlite.org/pragma.html).
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    # Deleted data is overwritten with zeros, so words of forgotten messages do
    # not stay in free pages.  For 1,000 messages, a fold takes 2.0 s of CPU
    # instead of 1.7, and expiring them from `scored` 60 ms instead of 40.
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    cursor.close()


def _use_wal(cursor: Any, *, timeout: float) -> None:
    """Switch the file to its write-ahead log, once in its life."""
    if cursor.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        # The busy handler is not asked for this lock: of 800 connections that met
        # an empty file eight at a time, 26 got "database is locked" at once.
        to_wal = "PRAGMA journal_mode = WAL"
        if _execute_when_free(cursor, to_wal, timeout=timeout).fetchone() != ("wal",):
            raise InvalidSetting(
                "SQLite can have no write-ahead log there, which takes memory that "
                "processes share. Keep the database on a local disk, and leave the vfs "
                "out of its URL."
            )
    # Who switched has not opened the log: SQLite would delete it with the last other
    # one that has, and a later transaction find that it is not the same.
    cursor.execute("PRAGMA schema_version").fetchall()
