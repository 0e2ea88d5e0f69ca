"""SQLite: connections, locks and the write-ahead log.

One function per database.  Both give an engine whose transactions begin the way
that the options of its connection say.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from sqlalchemy import Engine, create_engine, event

from app.errors import DatabaseUnavailable, InvalidSetting
from app.storage.database.url import PATIENCE, READS

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection


# Kibibytes of SQLite's page cache per connection, of which there may be ten.  A
# fold upserts features in no order that disk pages know: 1,680 upserts into 0.9
# million rows took 9.0 ms of CPU with the default of 2,000, 8.1 ms with this and
# 8.0 ms with 65,536.
_CACHE_KIB: Final = 16_384
# Pages of the write-ahead log after which a commit itself copies them into the
# database, and waits for the disk twice more.  `checkpoint` does so before, beside
# the commits; this is for processes that do not call it.  SQLite's default is 1,000.
_LOG_PAGES: Final = 16_384
# How often SQLite's write lock is asked for while another process has it.  SQLite's
# busy handler asks after 1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50 and then every 100 ms,
# so that who has waited longest finds it free least often.  The longest of 100 waits
# (p99), in ms, for three and for seven others that hold it for 3 ms and rest for 1, and
# for one that holds it for 30 ms and rests for 7.5:
#
#     asks             busy handler   every 0.5 ms    1 ms    2 ms    5 ms
#     three others              231             45      38      61     104
#     seven others              532            105     102     157     169
#     a long one                535             31      57      57      62
#
# Unit: seconds.
_ASK_AGAIN: Final = 0.001
# The path in a URI as SQLite reads it: without the host, which can only be this one
# (https://sqlite.org/uri.html).
_URI: Final = re.compile("file:(?://[^/?#]*)?([^?#]*)")
# What is noted of a connection: whether SQLite's busy handler is on, as it is at first.
# Readers have it, for the moments in which another process sets up or recovers the
# log; writers ask by themselves, and who has the lock waits for nobody.
_HANDLED: Final = "postbayes_busy_handler"
# What is noted of a connection to a file that could not be written: SQLite asks
# once, when it opens the file, and such a connection never writes.
_READ_ONLY: Final = "postbayes_read_only"


def sqlite_engine(url: URL, *, busy_timeout: float, options: dict[str, Any]) -> Engine:
    """Return an engine for an SQLite file, whose folder is made.

    Raises
    ------
    InvalidSetting
        If the folder would have to be made in one that is not there.
    DatabaseUnavailable
        If it cannot be made.
    """
    if not str(url.database).startswith("file:"):
        _make_folder(Path(str(url.database)).absolute().parent)
    engine = create_engine(
        url,
        # No isolation level: the driver would begin transactions by itself, late
        # and only for some statements.  We begin them, in `_begin`.
        connect_args={"timeout": busy_timeout, "isolation_level": None},
        **options,
    )

    path = _path(*engine.dialect.create_connect_args(engine.url))
    opened: tuple[int, int] | None = None

    def _open(_dialect: Any, record: Any, arguments: Any, named: Any) -> None:
        # Before SQLite makes an empty one.
        _require_same(path, opened)
        _note_read_only(Path(str(url.database)), record, arguments, named)

    def _connect(connection: Any, record: Any) -> None:
        nonlocal opened
        opened = opened or _identity(path)
        cursor = connection.cursor()
        if _READ_ONLY not in record.info:
            _use_wal(cursor, patience=busy_timeout)
        # FULL: a commit that was acknowledged survives a power cut.  WAL with
        # NORMAL may lose the last ones (https://sqlite.org/pragma.html).
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        cursor.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        cursor.close()

    def _begin(connection: Connection) -> None:
        _require_same(path, opened)
        # On the driver's connection, in a tenth of the time.
        driver: Any = connection.connection.dbapi_connection
        options = connection.get_execution_options()
        reads = options.get(READS, False)
        if connection.info.get(_HANDLED, True) != reads:
            seconds = busy_timeout if reads else 0
            driver.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
            connection.info[_HANDLED] = reads
        if reads:
            driver.execute("BEGIN DEFERRED")
        else:
            _take_write_lock(driver, patience=options[PATIENCE])

    event.listen(engine, "do_connect", _open)
    event.listen(engine, "connect", _connect)
    event.listen(engine, "checkin", _let_go)
    event.listen(engine, "begin", _begin)
    return engine


def _make_folder(folder: Path) -> None:
    """Make the folder of a file; those above it are somebody's mistake."""
    try:
        folder.mkdir(exist_ok=True)
    except FileNotFoundError as error:
        msg = (
            f"The folder {folder} for the database cannot be made, because "
            f"{folder.parent} does not exist. Make that folder, or correct the "
            "database URL."
        )
        raise InvalidSetting(msg) from error
    except OSError as error:
        msg = f"The folder {folder} for the database cannot be made: {error.strerror}."
        raise DatabaseUnavailable(msg) from error


def _path(arguments: Any, named: Any) -> Path:
    """Return the file that the driver opens, which a URI may name."""
    name = str(arguments[0])
    if named.get("uri") and (found := _URI.match(name)):
        name = os.fsdecode(unquote_to_bytes(found[1]))
    return Path(name).absolute()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from any other of its name; None if it is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116  half the time, for each transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _require_same(path: Path, opened: tuple[int, int] | None) -> None:
    """Raise if a file that was opened is there no more.

    SQLite goes on writing to one that has no name any more, and then it is gone.

    Raises
    ------
    DatabaseUnavailable
        If it was deleted, moved or replaced.
    """
    if opened is not None and _identity(path) != opened:
        msg = (
            f"The file {path} is not the one that was opened: it was deleted, moved or "
            "replaced. Stop every process that uses it, put the file in its place, "
            "without the -wal and -shm of another, and start again. Nothing of this "
            "was stored."
        )
        raise DatabaseUnavailable(msg)


def _note_read_only(path: Path, record: Any, arguments: Any, named: Any) -> None:
    """See to it that a file is read that cannot be written."""
    # Before it is opened: the file may become writable at any time.
    # Not `is_file`, which raises where a folder may not be looked into.
    if os.access(path, os.F_OK) and not os.access(path, os.W_OK):
        record.info[_READ_ONLY] = True
        if _nobody_writes(path):
            arguments[0] = f"{path.absolute().as_uri()}?immutable=1"
            named["uri"] = True


def _take_write_lock(driver: Any, *, patience: float) -> None:
    """Begin to write, as soon as no other process does."""
    deadline = time.monotonic() + patience
    while True:
        try:
            driver.execute("BEGIN IMMEDIATE")
        except driver.OperationalError as error:
            # The lowest byte of the code: the others tell why it is busy.
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() >= deadline:
                raise
        else:
            return
        time.sleep(_ASK_AGAIN)


def _let_go(_connection: Any, record: Any) -> None:
    """Close a connection that never writes, so that the next one may."""
    if _READ_ONLY in record.info:
        record.invalidate()


def _nobody_writes(path: Path) -> bool:
    """Tell whether a file may be read as if it never changed.

    After a clean stop it has no write-ahead log, and on a read-only file system
    SQLite cannot make one: it reads nothing then, unless it is told so.
    """
    log = path.with_name(f"{path.name}-wal")
    read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    return bool(read_only) and not log.exists()


def _use_wal(cursor: Any, *, patience: float) -> None:
    """Switch the file to its write-ahead log, once in its life."""
    deadline = time.monotonic() + patience
    while cursor.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        # The busy handler is not asked for this lock: of 800 connections that met
        # an empty file eight at a time, 26 got "database is locked" at once.
        except cursor.connection.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
