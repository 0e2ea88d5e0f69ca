"""Backup: a copy of an SQLite database in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import InvalidInput
from app.storage.database.dialect import dialect_of
from app.storage.database.engine import reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Engine


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
    dialect = dialect_of(engine)
    if dialect.is_server:
        msg = (
            "backup copies SQLite databases; for PostgreSQL use pg_dump, or "
            "postbayes export --with-ledger for one profile"
        )
        raise InvalidInput(msg)
    with reading(engine) as connection:
        dialect.backup(connection, target, progress)
