"""Folding in steps of bounded time.

On SQLite a step holds the one write lock.  Many rows at once are cheaper, because
their features are on the same pages of the database: of 2,000 messages, into the
counts of 4,000, a row took 11.5 ms in transactions of one row, 2.1 ms in those of a
hundred, and 0.9 ms in those of a thousand.  So a step is a part of a batch of as many
rows as there are (`app.storage.fold.state`), and lasts as long as a caller likes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from app.storage.database.engine import pause, reading, writing
from app.storage.fold import fold, state
from app.storage.profiles import last_revision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

    from app.storage.fold.fold import Step
    from app.storage.fold.state import Mark
    from app.storage.profiles import ProfileRow

# Length of a step of a fold by hand.  Unit: seconds.
BY_HAND: Final = 0.05
# Assumed before the first step is measured: 4 µs in large batches, 20 where
# a row is a batch. Unit: seconds.
SECONDS_PER_FEATURE: Final = 2e-5
# Features of a part at least.  What a transaction costs however small it is must not
# count as theirs: on a disk or a machine that is slow for a moment, parts would shrink
# to one feature, and a batch never end.  Some ms.
FEWEST: Final = 256
# Rows of a batch, which is held in memory: some 10 MB.
MOST_ROWS: Final = 1000
# The same of a fold by hand, and bytes of their vectors: the larger a batch, the fewer
# counts are written twice.  Some 150 MB.
MOST_BY_HAND: Final = 8000
BYTES_BY_HAND: Final = 32 * 1024 * 1024
# A service that finds that another process has moved the mark leaves the rows to it,
# until the mark has stood for so long: to sum the next batch takes that one 0.7 s, and
# more the busier it is.  Of four workers, each would hold the write lock as long as one
# may.  Unit: seconds.
AWAY: Final = 3.0


class Folding:
    """Folds ledgers, and measures how long a feature takes to write.

    Parameters
    ----------
    engine : Engine
        The database.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seconds_per_feature = SECONDS_PER_FEATURE
        self._begun: tuple[int, Step] | None = None
        self._marks: dict[int, Mark | None] = {}
        self._moved: dict[int, float] = {}

    @property
    def begun(self) -> int | None:
        """Profile whose batch is held in memory, because it is written in part."""
        return None if self._begun is None else self._begun[0]

    def step(self, profile: ProfileRow, *, seconds: float) -> Step | None:
        """Write as much of the next rows as fits, unless another process does.

        An unfinished batch of another profile is dropped: it is summed again later.

        Returns
        -------
        Step or None
            The rows, and whether they are `written` now; None if all is folded, or
            another process folds the same rows.

        Raises
        ------
        DatabaseUnavailable
            If the database did not take it; nothing of the step is stored.
        InconsistentCounts, CorruptVector
            If the ledger cannot be folded; nothing of the step is stored.
        """
        if self._another_folds(profile):
            self._begun = None
            return None
        return self._step(profile, seconds=seconds)

    def _step(
        self,
        profile: ProfileRow,
        *,
        seconds: float,
        by_hand: bool = False,
    ) -> Step | None:
        """Do a step beside other processes: all write parts of the same batch."""
        held, self._begun = self._begun, None
        step: Step | None
        if held is not None and held[0] == profile.id:
            _, step = held
        else:
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
        size = max(FEWEST, int(seconds / self._seconds_per_feature))
        with writing(self._engine) as connection:
            after = fold.write(connection, profile, step, size=size)
            mark = state.read(connection, profile.id)
        self._marks[profile.id] = mark
        if after is None:
            return None
        # There may be none, and another process may have written some of them.
        per_feature = after.seconds / max(1, after.done - step.done)
        self._seconds_per_feature = (self._seconds_per_feature + per_feature) / 2
        if not after.written:
            self._begun = profile.id, after
        return after

    def all(self, profile: ProfileRow) -> Iterator[int]:
        """Fold the rows until now, yielding the number that each step finished.

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
            step = self._step(profile, seconds=BY_HAND, by_hand=True)
            yield step.rows if step is not None and step.written else 0
            pause()

    def finish(self, profile: ProfileRow) -> None:
        """Finish a batch that is written in part.

        Raises
        ------
        DatabaseUnavailable, InconsistentCounts, CorruptVector
            As `step`.
        """
        while self._in_part(profile):
            self._step(profile, seconds=BY_HAND)
            pause()

    def _in_part(self, profile: ProfileRow) -> bool:
        with reading(self._engine) as connection:
            return state.in_part(connection, profile.id)

    def _is_behind(self, profile: ProfileRow, revision: int) -> bool:
        with reading(self._engine) as connection:
            return fold.is_behind(connection, profile.id, revision=revision)

    def _another_folds(self, profile: ProfileRow) -> bool:
        """Whether the mark was moved a moment ago, and not from here."""
        with reading(self._engine) as connection:
            mark = state.read(connection, profile.id)
        now = time.monotonic()
        if mark != self._marks.setdefault(profile.id, mark):
            self._marks[profile.id] = mark
            self._moved[profile.id] = now
        return now - self._moved.get(profile.id, -AWAY) < AWAY
