"""Maintenance by hand: audit, backup, fold and pruning of stored profiles."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from app.classifier.specification import TEXT_VIEWS
from app.errors import CorruptVector, DatabaseUnavailable, explaining
from app.ledger.entry import epoch_of
from app.services.profiles import list_profiles
from app.storage import fold as folding
from app.storage import pruning, retention, runs
from app.storage.database.engine import backup as copy
from app.storage.database.engine import (
    checkpoint,
    disposing,
    open_engine,
    pause,
    reading,
    writing,
)
from app.storage.fold import folded_revision
from app.storage.profiles import last_revision, list_all, lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Connection, Engine

    from app.kernels import Ints
    from app.storage.fold import Audit, Step
    from app.storage.profiles import ProfileRow
    from app.storage.pruning import Pruning
    from app.storage.runs import Merge

    Progress = Callable[[int], object]

Prepared = TypeVar("Prepared")


def audit(engine: Engine, only: str | None = None) -> dict[str, Audit]:
    """Compare the counts of each profile, or only of one, with its ledger.

    Returns
    -------
    dict of str to Audit
        By the name of the profile.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    CorruptVector
        If the ledger or the counts of a profile cannot be read, with its name.
    """
    found = {}
    for row in list_profiles(engine, only):
        try:
            with reading(engine) as connection:
                found[row.name] = folding.audit(connection, row)
        except CorruptVector as error:
            msg = f"the profile {row.name!r} cannot be audited: {error}"
            raise CorruptVector(msg) from error
    return found


def backup(
    engine: Engine, file: Path, *, progress: Callable[[int, int], object]
) -> list[ProfileRow]:
    """Copy an SQLite database to a file while it is in use.

    Parameters
    ----------
    progress : callable
        Called with the number of pages copied, and of all pages.

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


def damaged_in(file: Path) -> list[str]:
    """Return the profiles of a backup with stored features that are damaged.

    SQLite checks the structure of its file, and not what is stored in it.  Reading all
    checksums takes a twentieth of the time of an audit.
    """
    with _opened(file) as engine, reading(engine) as connection:
        rows = list_all(connection)
        return [row.name for row in rows if folding.is_damaged(connection, row)]


def audit_copy(file: Path) -> list[str]:
    """Return the profiles of a backup whose counts disagree with their ledger."""
    with _opened(file) as engine:
        return [name for name, found in audit(engine).items() if not found.sound]


def _opened(file: Path) -> AbstractContextManager[Engine]:
    """Open a backup."""
    # A file may be named like a part of a URL.
    path = quote(os.fsencode(file.resolve()))
    url = f"sqlite:///file:{quote(path)}?uri=true"
    return disposing(open_engine(url, make=False))


@dataclass(slots=True, kw_only=True)
class Fold:
    """The progress of the fold of one profile.

    Parameters
    ----------
    behind : int
        Ledger rows not folded at its beginning.
    rows : int
        Ledger rows folded so far.
    seconds : float
        Time taken.  Unit: seconds.
    folded_revision : int
        The ledger row up to which the counts are complete.
    """

    name: str
    behind: int
    rows: int = 0
    seconds: float = 0.0
    folded_revision: int = 0


def fold(engine: Engine, only: str | None = None) -> Iterator[Fold]:
    """Fold ledgers into the counts; yield the same `Fold` after each step.

    Afterwards forgotten messages are erased, which requires complete counts.  The first
    `Fold` of a profile has no rows.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    DatabaseUnavailable, InconsistentCounts, CorruptVector
        As `app.services.upkeep.Folding.step`.
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


# Rows erased, or sealed, in one transaction.
DROPPED_ROWS: Final = 64


def prepare_and_write(
    engine: Engine,
    profile: ProfileRow,
    prepare: Callable[[Connection, ProfileRow], Prepared | None],
    write: Callable[[Connection, ProfileRow, Prepared], bool],
) -> Prepared | None:
    """Prepare a change, and write it; return it if there was one and it was written.

    On SQLite a transaction holds the only write lock.  The slow work, decoding and
    summing rows and merging runs, is done before the transaction begins.
    """
    with reading(engine) as connection:
        prepared = prepare(connection, profile)
    if prepared is None:
        return None
    with writing(engine) as connection:
        return prepared if write(connection, profile, prepared) else None


def erase_some(engine: Engine, profile: ProfileRow, *, upto: int) -> bool:
    """Erase a few rows of messages that were forgotten up to a revision.

    Returns whether there were any.  Then SQLite's log, which still has them, must be
    emptied.
    """
    prepare = partial(retention.prepare_erasure, upto=upto, limit=DROPPED_ROWS)
    return prepare_and_write(engine, profile, prepare, retention.write) is not None


def seal_some(engine: Engine, profile: ProfileRow, *, before: datetime) -> bool:
    """Drop a few old vectors and seal their sums; return whether there were any."""
    prepare = partial(retention.prepare, before=before, limit=DROPPED_ROWS)
    return prepare_and_write(engine, profile, prepare, retention.write) is not None


def merge_runs(
    engine: Engine, profile: ProfileRow, kind: runs.Kind, *, whole: bool = False
) -> bool:
    """Merge runs if there are many; return whether any were merged.

    With `whole`, merge as soon as there are two, so that counts taken back no longer
    take room.
    """
    prepare = partial(runs.prepare_merge, kind=kind, whole=whole)
    return prepare_and_write(engine, profile, prepare, _write_merge) is not None


def _write_merge(connection: Connection, profile: ProfileRow, merge: Merge) -> bool:
    """Write merged runs under the lock of their kind, unless another process folds."""
    if merge.key["kind"] == "sealed":
        lock(connection, profile)
    elif folding.try_lock(connection, profile.id) is None:
        return False
    return runs.write_merge(connection, profile, merge)


# Rows of a batch, held in memory: some 10 MB.
MOST_ROWS: Final = 1000
# Rows of a batch, and bytes of their vectors, in a fold by hand: larger batches write
# fewer counts twice.  Some 150 MB.
MOST_BY_HAND: Final = 8000
BYTES_BY_HAND: Final = 32 * 1024 * 1024
# If another process has moved the mark, a service leaves the rows to that process until
# the mark has not moved for this time: summing a batch takes 0.7 s, and longer on a
# busy machine.  Unit: seconds.
AWAY: Final = 3.0


class Folding:
    """Folds ledgers, and merges the runs that folds create."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # The mark of each profile, and when another process moved it last.
        self._marks: dict[int, tuple[int, float]] = {}

    def step(self, profile: ProfileRow) -> Step | None:
        """Fold the next rows, unless another process does so.

        Returns
        -------
        Step or None
            The folded rows; None if no row is left, or another process folds them.

        Raises
        ------
        DatabaseUnavailable
            If the step could not be stored; the counts are unchanged.
        InconsistentCounts, CorruptVector
            If the ledger cannot be folded; the counts are unchanged.
        """
        if self._another_folds(profile):
            return None
        return self._step(profile, limit=MOST_ROWS)

    def _step(self, profile: ProfileRow, *, limit: int, **how: Any) -> Step | None:
        """Do a step, as `app.storage.fold.prepare`, even if other processes fold."""
        prepare = partial(folding.prepare, limit=limit, **how)
        step = prepare_and_write(self._engine, profile, prepare, folding.write)
        if step is not None:
            self._marks[profile.id] = step.upto, -AWAY
        while merge_runs(self._engine, profile, "counts"):
            pause()
        return step

    def all(self, profile: ProfileRow) -> Iterator[int]:
        """Fold all present rows, yielding the number of rows in each step.

        Rows that come meanwhile are left, so the fold ends however fast they come, and
        a service does not fold at the same time.  It may be interrupted anywhere:
        folded rows stay folded.

        Raises
        ------
        DatabaseUnavailable, InconsistentCounts, CorruptVector
            As `step`.
        """
        with reading(self._engine) as connection:
            newest = last_revision(connection, profile.id)
        while True:
            with reading(self._engine) as connection:
                if not folding.is_behind(connection, profile.id, revision=newest):
                    return
            # None if another process was faster and may have begun the next rows.
            step = self._step(
                profile, limit=MOST_BY_HAND, room=BYTES_BY_HAND, pause=0.0
            )
            yield 0 if step is None else step.rows
            pause()

    def _another_folds(self, profile: ProfileRow) -> bool:
        """Whether another process moved the mark a moment ago."""
        with reading(self._engine) as connection:
            mark = folded_revision(connection, profile.id)
        now = time.monotonic()
        known, moved = self._marks.get(profile.id, (mark, -AWAY))
        self._marks[profile.id] = mark, moved if mark == known else now
        return now - self._marks[profile.id][1] < AWAY


# An undo of many messages appends its rows in several steps.
_TRIES: Final = 10


def prunable(
    engine: Engine,
    profile: ProfileRow,
    *,
    max_messages: int,
    months: int,
    weak: Mapping[str, Ints] | None = None,
    time: datetime,
    progress: Progress,
) -> Pruning:
    """Return the old features with next to no evidence; the only change is the fold.

    Parameters
    ----------
    max_messages : int
        Prune features that at most this many messages had.
    months : int
        Prune only features that no message of this many last months had.
    weak : mapping of str to ndarray of int64, optional
        Further features to prune, if as old (`app.classifier.snapshot.insignificant`).
    progress : callable
        Called with the number of ledger rows folded in each step.

    Raises
    ------
    DatabaseUnavailable
        If the database cannot be read, or an undo or an import is under way.
    """
    for _ in range(_TRIES):
        with reading(engine) as connection:
            found = pruning.find(
                connection,
                profile,
                views=TEXT_VIEWS,
                max_messages=max_messages,
                before_epoch=months_before(epoch_of(time), months),
                weak=weak or {},
            )
        if found is not None:
            return found
        for rows in Folding(engine).all(profile):
            progress(rows)
    msg = "an undo or an import is running; prune again once it has ended"
    raise DatabaseUnavailable(msg)


def prune(
    engine: Engine,
    profile: ProfileRow,
    found: Pruning,
    *,
    time: datetime,
    progress: Progress,
) -> Pruning:
    """Prune features in one transaction, and fold the pruning.

    Returns
    -------
    Pruning
        The same, at the revision after it.

    Raises
    ------
    Irreversible
        If something was imported, undone or pruned meanwhile.
    DatabaseUnavailable
        If nothing could be pruned.  Or if the pruning could not be folded, and the
        error says so.
    """
    with writing(engine) as connection:
        rows = pruning.carry_out(connection, profile, found, time=time)
    if not rows:
        return found
    with explaining(
        "the features are pruned, but the counts are not up to date yet; a running "
        "service or `postbayes fold` updates them"
    ):
        for folded in Folding(engine).all(profile):
            progress(folded)
        while merge_runs(engine, profile, "counts", whole=True):
            pause()
    return replace(found, revision=rows[-1].revision)


def months_before(epoch: int, months: int) -> int:
    """Return the epoch some months before another.

    Examples
    --------
    >>> months_before(202603, 4)
    202511
    """
    year, month = divmod(epoch, 100)
    year, month = divmod(year * 12 + month - 1 - months, 12)
    return year * 100 + month + 1
