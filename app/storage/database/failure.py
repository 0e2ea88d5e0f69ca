"""Failures: the errors of drivers, translated into those of `app.errors`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.errors import DatabaseDamaged, DatabaseUnavailable, InconsistentCounts
from app.storage.database.dialect import dialect_of, first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

NOTHING_STORED: Final = "Nothing of this was stored; try again later."
# A client that loses the connection between COMMIT and its answer cannot know.
_PERHAPS_STORED: Final = (
    "It was being committed, so this may or may not have been stored; "
    "sending it again is safe."
)


@dataclass(slots=True)
class Transaction:
    """How far a transaction is."""

    committing: bool = False


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
        If a right or a table is missing.
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
            msg = f"A count would be negative: {first_line(cause)}"
            raise InconsistentCounts(msg) from error
        found = dialect_of(engine).diagnose(engine.url, cause)
        if found.error is DatabaseDamaged:
            raise DatabaseDamaged(found.sentence) from error
        # A statement or a value that the database cannot take is a defect of ours,
        # which no later attempt cures.  A table or a right that is missing is such an
        # error for PostgreSQL's driver as well, but what is wrong is in the database,
        # and whoever mends it there needs no restart.
        defects = driver.IntegrityError, driver.ProgrammingError, driver.DataError
        if found.error is DatabaseUnavailable and isinstance(cause, defects):
            raise
        perhaps = state.committing and found.stored
        msg = f"{found.sentence} {_PERHAPS_STORED if perhaps else NOTHING_STORED}"
        raise found.error(msg) from error
