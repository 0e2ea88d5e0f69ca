"""Folding in steps, each of a short transaction or two.

On SQLite a transaction holds the one write lock.  What takes long, to decode and sum
the rows of a batch and to merge runs, is done before it begins.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from app.storage.counts import fold, runs, state
from app.storage.database.engine import pause, reading, writing
from app.storage.profiles import last_revision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

    from app.storage.counts.fold import Step
    from app.storage.profiles import ProfileRow

# Rows of a batch, which is held in memory: some 10 MB.
MOST_ROWS: Final = 1000
# The same of a fold by hand, and bytes of their vectors: the larger a batch, the fewer
# counts are written twice.  Some 150 MB.
MOST_BY_HAND: Final = 8000
BYTES_BY_HAND: Final = 32 * 1024 * 1024
# A service that finds that another process has moved the mark leaves the rows to it,
# until the mark has stood for so long: to sum the next batch takes that one 0.7 s, and
# more the busier it is.  Unit: seconds.
AWAY: Final = 3.0


class Folding:
    """Folds ledgers, and merges the runs that folds leave.

    Parameters
    ----------
    engine : Engine
        The database.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._marks: dict[int, int] = {}
        self._moved: dict[int, float] = {}

    def step(self, profile: ProfileRow) -> Step | None:
        """Fold the next rows, unless another process does.

        Returns
        -------
        Step or None
            The rows; None if all is folded, or another process folds the same rows.

        Raises
        ------
        DatabaseUnavailable
            If the database did not take it; the counts are as they were.
        InconsistentCounts, CorruptVector
            If the ledger cannot be folded; the counts are as they were.
        """
        return None if self._another_folds(profile) else self._step(profile)

    def _step(self, profile: ProfileRow, *, by_hand: bool = False) -> Step | None:
        """Do a step, whatever other processes do."""
        with reading(self._engine) as connection:
            step = (
                fold.prepare(
                    connection,
                    profile,
                    limit=MOST_BY_HAND,
                    room=BYTES_BY_HAND,
                    pause=0.0,
                )
                if by_hand
                else fold.prepare(connection, profile, limit=MOST_ROWS)
            )
        if step is None:
            return None
        with writing(self._engine) as connection:
            written = fold.write(connection, profile, step)
            self._marks[profile.id] = state.folded_revision(connection, profile.id)
        while self._merge(profile):
            pause()
        return step if written else None

    def compact(self, profile: ProfileRow) -> None:
        """Merge all that is counted: what was taken back takes no room any more.

        Raises
        ------
        DatabaseUnavailable, InconsistentCounts, CorruptVector
            As `step`.
        """
        while self._merge(profile, whole=True):
            pause()

    def _merge(self, profile: ProfileRow, *, whole: bool = False) -> bool:
        """Merge runs where there are many; return whether there were."""
        with reading(self._engine) as connection:
            merge = runs.prepare_merge(connection, profile, "counts", whole=whole)
        if merge is None:
            return False
        with writing(self._engine) as connection:
            if state.try_lock(connection, profile.id) is None:
                return False
            return runs.write_merge(connection, profile, merge)

    def all(self, profile: ProfileRow) -> Iterator[int]:
        """Fold the rows until now, yielding the number of each step.

        Rows that come meanwhile are left, so the fold ends however fast they come; a
        service leaves the rows to it until then.  It may be interrupted anywhere: rows
        that are folded stay folded.

        Raises
        ------
        DatabaseUnavailable, InconsistentCounts, CorruptVector
            As `step`.
        """
        with reading(self._engine) as connection:
            newest = last_revision(connection, profile.id)
        while self._is_behind(profile, newest):
            # None if another process was faster: it may have begun the next rows.
            step = self._step(profile, by_hand=True)
            yield 0 if step is None else step.rows
            pause()

    def _is_behind(self, profile: ProfileRow, revision: int) -> bool:
        with reading(self._engine) as connection:
            return fold.is_behind(connection, profile.id, revision=revision)

    def _another_folds(self, profile: ProfileRow) -> bool:
        """Whether the mark was moved a moment ago, and not from here."""
        with reading(self._engine) as connection:
            mark = state.folded_revision(connection, profile.id)
        now = time.monotonic()
        if mark != self._marks.setdefault(profile.id, mark):
            self._marks[profile.id] = mark
            self._moved[profile.id] = now
        return now - self._moved.get(profile.id, -AWAY) < AWAY
