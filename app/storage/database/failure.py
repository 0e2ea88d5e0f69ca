"""Failures: the errors of drivers, and whether a server is known to be silent.

Whoever waits in vain begins an outage, and while it lasts every transaction is
refused at once.  One caller goes on asking, with connections that nobody else
waits for, and ends it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    DatabaseUnprepared,
    InconsistentCounts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Engine

NOTHING_STORED: Final = "Nothing of this was stored; try again later."
# Whoever loses the connection between COMMIT and its answer cannot know.
_PERHAPS_STORED: Final = (
    "It was being committed, so this may or may not have been stored; "
    "sending it again is safe."
)
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
# data_corrupted and index_corrupted, disk_full, insufficient_privilege, undefined_table
# and invalid_schema_name, lock_not_available, deadlock_detected and
# serialization_failure, query_canceled, read_only_sql_transaction: the appendix "Error
# Codes" of PostgreSQL's manual.
_DAMAGED_THERE: Final = {"XX001", "XX002"}
_FULL_THERE: Final = "53100"
_DENIED_THERE: Final = "42501"
_MISSING_THERE: Final = {"42P01", "3F000"}
_BUSY_THERE: Final = {"55P03", "40P01", "40001"}
_STOPPED_THERE: Final = "57014"
_READ_ONLY_THERE: Final = "25006"
# SQLite has no code of its own for it.
_MISSING: Final = "no such table"


@dataclass(slots=True)
class Transaction:
    """How far a transaction is."""

    committing: bool = False

    def stored(self, error: object) -> str:
        """Return what is to be said of it if it fails now, with that error."""
        # Of what did not fit not even the log has the end, so none of it counts.
        full = _code(error) == sqlite3.SQLITE_FULL
        return _PERHAPS_STORED if self.committing and not full else NOTHING_STORED


@contextmanager
def translated(
    engine: Engine, transaction: Transaction | None = None
) -> Iterator[None]:
    """Raise what the driver raises in the block as an error of ours.

    Raises
    ------
    DatabaseUnavailable
        If the database did not take it; the sentence says what may be stored.
    DatabaseUnprepared
        If somebody has to grant a right first, or to put a table back.
    DatabaseDamaged
        If no later attempt would help either.
    InconsistentCounts
        If a check of the tables refused a count.
    """
    state = transaction or Transaction()
    # The driver's own errors too: hot statements and bulk reads use its cursor.
    driver = engine.dialect.loaded_dbapi
    try:
        yield
    except PoolTimeoutError as error:
        msg = f"All connections to the database are in use. {NOTHING_STORED}"
        raise DatabaseUnavailable(msg) from error
    except (DBAPIError, driver.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, driver.IntegrityError) and "check" in str(cause).lower():
            msg = f"A count would be negative: {_first_line(cause)}"
            raise InconsistentCounts(msg) from error
        if _code(cause) in _DAMAGED or _state(cause) in _DAMAGED_THERE:
            raise DatabaseDamaged(_damage(engine, cause)) from error
        # For PostgreSQL's driver these are defects as well. But what is wrong is in the
        # database, and whoever mends it there needs no restart.
        if lack := _lack(engine, cause):
            msg = f"{lack} {state.stored(cause)}"
            raise DatabaseUnprepared(msg) from error
        # A statement or a value that the database cannot take is a defect of ours,
        # which no later attempt cures.
        defects = driver.IntegrityError, driver.ProgrammingError, driver.DataError
        if isinstance(cause, defects):
            raise
        msg = f"{_hindrance(engine, cause)} {state.stored(cause)}"
        raise DatabaseUnavailable(msg) from error


def _damage(engine: Engine, cause: object) -> str:
    """Return what is damaged, and what is to be done."""
    said = _first_line(cause)
    if engine.dialect.name == "sqlite":
        said = f"{_file(engine)} is damaged, or is no SQLite database ({said})"
    else:
        said = f"The database is damaged, says PostgreSQL: {said}"
    return f"{said}. Restore a backup, as docs/operating.md says."


def _lack(engine: Engine, cause: object) -> str | None:
    """Return what the database or its user lacks, and what is to be done."""
    said = _first_line(cause)
    if _state(cause) == _DENIED_THERE:
        return (
            f"PostgreSQL refuses {_user(engine)}: {said}. Make it the owner of the "
            "tables, or GRANT it all rights to them and CREATE on their schema."
        )
    if _state(cause) in _MISSING_THERE:
        return (
            f"The database lacks what was in it: {said}. Correct the search_path of "
            f"{_user(engine)}, or restore a backup, as docs/operating.md says."
        )
    if engine.dialect.name == "sqlite" and said.startswith(_MISSING):
        return (
            f"{_file(engine)} lacks what was in it: {said}. "
            "Restore a backup, as docs/operating.md says."
        )
    return None


def _hindrance(engine: Engine, cause: object) -> str:
    """Return what keeps a database from its work for now."""
    if _code(cause) == sqlite3.SQLITE_CANTOPEN:
        return (
            f"{_file(engine)} cannot be opened: look at its path, and at who may read "
            "and write it and its folder."
        )
    if _code(cause) == sqlite3.SQLITE_FULL:
        return f"The disk is full: make room where {_file(engine)} is."
    if _state(cause) == _FULL_THERE:
        return f"PostgreSQL has a full disk ({_first_line(cause)}): make room there."
    return f"The database {_trouble(cause)}: {_first_line(cause)}."


def _trouble(cause: object) -> str:
    """Return what is the matter with a database; that of most errors, it is away."""
    code, state = _code(cause), _state(cause)
    if code in _BUSY or state in _BUSY_THERE:
        return "is busy"
    if code == sqlite3.SQLITE_READONLY or state == _READ_ONLY_THERE:
        return "is read-only"
    # By a time-out of the server's, or by somebody.
    return "has stopped it" if state == _STOPPED_THERE else "is away"


def _code(error: object) -> int | None:
    """Return SQLite's code of an error; None of any other."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    # The lowest byte: the others tell more of the same.
    return None if code is None else code & 0xFF


def _state(error: object) -> str | None:
    """Return PostgreSQL's code of an error; None of any other."""
    state: str | None = getattr(error, "sqlstate", None)
    return state


def _user(engine: Engine) -> str:
    """Return as whom PostgreSQL is used."""
    # Where the URL does not say it, the driver's environment may.
    name = engine.url.username
    return f"the user {name!r}" if name else "the user of the database URL"


def _file(engine: Engine) -> str:
    """Return the path of an SQLite database, from the root on."""
    path = str(engine.url.database)
    return path if path.startswith("file:") else str(Path(path).absolute())


def _first_line(error: object) -> str:
    """Return what the driver says, without its hints and positions."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


class Outage:
    """What the connections of one engine know of their server."""

    def __init__(self) -> None:
        self.lasts = False
        self.connect: Callable[[], Any] | None = None
        """Opens a connection for `probe`; None while there was none."""
        self.opened = 0
        """Connections until now: a server that was replaced has a new one."""
        self._begun = 0

    def begin(self) -> None:
        """Have everybody refused from now on."""
        self._begun += 1
        self.lasts = True

    def require_over(self) -> None:
        """Raise at once while the server is known to say nothing.

        Raises
        ------
        DatabaseUnavailable
            While it is; nothing was sent to it.
        """
        if self.lasts:
            msg = (
                "The database hangs, and is asked until it answers again. "
                "Nothing of this was stored; try again later."
            )
            raise DatabaseUnavailable(msg)

    def probe(self) -> None:
        """Ask the server, and end the outage unless it is silent again.

        The driver's error is raised where it cannot be asked.
        """
        if self.connect is None:
            return
        before = self._begun
        try:
            with closing(self.connect()) as connection:
                # A pooler lets connect whatever becomes of the server behind it.
                connection.execute("SELECT 1")
        finally:
            self.lasts = self._begun > before
