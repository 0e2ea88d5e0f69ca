"""Maintenance by hand: the audit, the backup and the fold of stored profiles."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.services.fold import Folding
from app.services.profiles import list_profiles
from app.storage.counts.state import folded_revision
from app.storage.database.engine import backup as copy
from app.storage.database.engine import checkpoint, open_engine, pause, reading, writing
from app.storage.upkeep import audit as replay
from app.storage.upkeep import retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Engine

    from app.storage.profiles import ProfileRow
    from app.storage.upkeep.audit import Audit


def audit(engine: Engine, only: str | None = None) -> dict[str, Audit]:
    """Compare the counts of each profile with its ledger.

    Parameters
    ----------
    engine : Engine
        The database.
    only : str or None
        The profile to audit; None audits all.

    Returns
    -------
    dict of str to Audit
        By the name of the profile.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    """
    found = {}
    for row in list_profiles(engine, only):
        with reading(engine) as connection:
            found[row.name] = replay.audit(connection, row)
    return found


def backup(
    engine: Engine, file: Path, *, progress: Callable[[int, int], object]
) -> list[ProfileRow]:
    """Copy an SQLite database to a file while it is in use.

    Parameters
    ----------
    engine : Engine
        The database.
    file : Path
        The copy.
    progress : callable
        Is given the pages that are copied, and all pages.

    Returns
    -------
    list of ProfileRow
        The profiles in the copy.

    Raises
    ------
    InvalidInput
        If the database is not SQLite.
    """
    copy(engine, file, progress=progress)
    with _opened(file) as copied:
        return list_profiles(copied)


def audit_copy(file: Path) -> list[str]:
    """Return the profiles of a backup whose counts disagree with their ledger."""
    with _opened(file) as engine:
        return [name for name, found in audit(engine).items() if not found.sound]


@contextmanager
def _opened(file: Path) -> Iterator[Engine]:
    """Open a backup."""
    engine = open_engine(f"sqlite:///{file.resolve()}")
    try:
        yield engine
    finally:
        # Also when interrupted: else the files of SQLite's log stay beside it.
        engine.dispose()


@dataclass(slots=True, kw_only=True)
class Fold:
    """The fold of one profile, and how far it is.

    Parameters
    ----------
    name : str
        The profile.
    behind : int
        Ledger rows that were not folded when it began.
    rows : int
        Ledger rows that are folded now.
    seconds : float
        How long that took.
    folded_revision : int
        The ledger row up to which the counts hold everything.
    """

    name: str
    behind: int
    rows: int = 0
    seconds: float = 0.0
    folded_revision: int = 0


def fold(engine: Engine, only: str | None = None) -> Iterator[Fold]:
    """Fold ledgers into the counts; yield the same `Fold` after each step.

    Then what was forgotten is erased, which waits for the counts.  A profile begins
    with a `Fold` of no rows.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    DatabaseUnavailable, InconsistentCounts, CorruptVector
        As `app.services.fold.Folding.step`.
    """
    folding = Folding(engine)
    rows = list_profiles(engine, only)
    marks = {row.name: _folded(engine, row) for row in rows}
    for row in rows:
        begun = time.perf_counter()
        found = Fold(name=row.name, behind=row.revision - marks[row.name])
        yield found
        for some in folding.all(row):
            found.rows += some
            yield found
        found.seconds = time.perf_counter() - begun
        found.folded_revision = _folded(engine, row)
        erased = False
        while erase_some(engine, row, upto=found.folded_revision):
            erased = True
            pause()
        if erased:
            checkpoint(engine, emptied=True)
        yield found


def _folded(engine: Engine, row: ProfileRow) -> int:
    with reading(engine) as connection:
        return folded_revision(connection, row.id)


# Messages whose vectors are dropped in one transaction.
DROPPED_ROWS: Final = 64


def erase_some(engine: Engine, profile: ProfileRow, *, upto: int) -> bool:
    """Erase a few messages that were forgotten up to a revision.

    Returns whether there were any; then SQLite's log has to be emptied, which has them
    still.
    """
    with reading(engine) as connection:
        erasure = retention.prepare_erasure(
            connection, profile, upto=upto, limit=DROPPED_ROWS
        )
    if erasure is None:
        return False
    with writing(engine) as connection:
        return retention.erase(connection, profile, erasure)
