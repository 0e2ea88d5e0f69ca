"""What does it mean that the driver of a database raises an error?"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.errors import DatabaseUnavailable, InconsistentCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

NOTHING_STORED: Final = "Nothing of this was stored; try again later."
# Whoever loses the connection between COMMIT and its answer cannot know.
_PERHAPS_STORED: Final = (
    "It was being committed, so this may or may not have been stored; "
    "sending it again is safe."
)


@dataclass(slots=True)
class Transaction:
    """How far a transaction is."""

    committing: bool = False

    def stored(self, error: object) -> str:
        """Return what is to be said of it if it fails now, with that error."""
        # Of what did not fit not even the log has the end, so none of it counts.
        full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
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
