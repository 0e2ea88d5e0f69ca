"""Backup: a copy of an SQLite database in use."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from app.errors import DatabaseDamaged, DatabaseUnavailable, InvalidInput
from app.storage.database.engine import reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Engine

# Pages of one step, 4 MB: some ms, after which progress is shown.
_PAGES: Final = 1024
# Instructions of SQLite, some ms, after which Python hears of a signal.
_INSTRUCTIONS: Final = 1_000_000
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def backup(
    engine: Engine,
    target: Path,
    *,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> None:
    """Copy a database to a file, as it is at one moment.

    Parameters
    ----------
    engine : Engine
        Of an SQLite database.
    target : Path
        Where the copy goes; what is there is overwritten.
    progress : callable, optional
        Told of the pages that are copied, and of all.

    Raises
    ------
    InvalidInput
        If it is not an SQLite database.
    DatabaseUnavailable
        If it cannot be read, or the copy cannot be written.
    DatabaseDamaged
        If the copy is not sound.

    Notes
    -----
    Learning goes on meanwhile.  The copy is of the moment when it begins: one
    read transaction is held.  SQLite's backup begins anew whenever another
    process writes between two of its steps (https://sqlite.org/backup.html): of
    50 MB beside a process that writes all the time it took 0.14 s so, and had not
    ended after three minutes without.
    """
    if engine.dialect.name != "sqlite":
        msg = (
            "backup copies SQLite databases; for PostgreSQL use pg_dump, or "
            "postbayes export --with-ledger for one profile"
        )
        raise InvalidInput(msg)

    def show(_status: int, left: int, total: int) -> None:
        progress(total - left, total)

    with reading(engine) as connection:
        # The snapshot is taken by the first read.
        connection.exec_driver_sql("SELECT 1 FROM sqlite_schema").first()
        source: Any = connection.connection.driver_connection
        try:
            with closing(sqlite3.connect(target)) as copy:
                source.backup(copy, pages=_PAGES, progress=show)
                # Else a signal would wait until the check of a large copy is done.
                copy.set_progress_handler(lambda: 0, _INSTRUCTIONS)
                # A file of its own, that can be copied on by itself.
                copy.execute("PRAGMA journal_mode = DELETE")
                found = copy.execute("PRAGMA integrity_check").fetchall()
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                # What a signal raises in the handler of progress, SQLite swallows.
                raise KeyboardInterrupt from error
            if error.sqlite_errorcode not in _DAMAGED:
                msg = f"the backup {target} cannot be written: {error}"
                raise DatabaseUnavailable(msg) from error
            # What is bad enough ends the check instead of being found by it.
            found = [(str(error),)]
    if found != [("ok",)]:
        msg = (
            f"the backup {target} is not sound ({found[0][0]}): the database itself is "
            "damaged, or the disk is"
        )
        raise DatabaseDamaged(msg)
