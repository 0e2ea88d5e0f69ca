"""How long may a fold keep others waiting? Steps that are as long as they may be.

On SQLite a step holds the one write lock.  A long step is cheaper, because its
rows have many features in common, and these are written once: 6,047 messages took
5.9 s of CPU in steps of 1,000 rows, 15.8 s in steps of 250 ms and 34 s in steps of
50 ms.  So steps are long only where nobody is there to wait, which shows in the
short ones that come first.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select

from app.storage import fold, tables
from app.storage.engine import reading, writing
from app.storage.turn import pause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

    from app.storage.profiles import ProfileRow

# Of a step, where others teach and where nobody does.  Who comes meanwhile waits
# for one of the long ones, a fifth of what `busy_timeout` grants. Unit: seconds.
SHORT: Final = 0.05
LONG: Final = 1.0
# Taken for granted before the first step is measured. Unit: seconds.
SECONDS_PER_ROW: Final = 0.002
# Held in memory at once: some 10 MB.
MOST_ROWS: Final = 1000


class Folding:
    """Folds ledgers, and knows how many rows fit into a time.

    Parameters
    ----------
    engine : Engine
        The database.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seconds_per_row = SECONDS_PER_ROW

    def step(self, profile: ProfileRow, *, seconds: float) -> fold.Step | None:
        """Fold as many rows as can be written in some time.

        Returns
        -------
        Step or None
            What was written; None if all is folded, or another process folds
            the same rows.

        Raises
        ------
        DatabaseUnavailable
            If the database did not take it; nothing of the step is stored.
        InconsistentCounts, CorruptVector
            If the ledger cannot be folded; nothing of the step is stored.
        """
        with reading(self._engine) as connection:
            step = fold.prepare(connection, profile, limit=self._limit(seconds))
        if step is None:
            return None
        with writing(self._engine) as connection:
            begun = time.monotonic()
            written = fold.write(connection, profile, step)
        if not written:
            return None
        per_row = (time.monotonic() - begun) / step.rows
        self._seconds_per_row = (self._seconds_per_row + per_row) / 2
        return step

    def all(self, profile: ProfileRow) -> Iterator[int]:
        """Fold until nothing is left, and give the rows of each step.

        It can stop after any step, and in any: what was folded is folded.

        Raises
        ------
        DatabaseUnavailable, InconsistentCounts, CorruptVector
            As `step`.
        """
        seconds, alone = SHORT, True
        with reading(self._engine) as connection:
            taught = _taught(connection)
        while True:
            step = self.step(profile, seconds=seconds)
            if step is None:
                # A service folds what is prepared here before it is written, as
                # often as it is tried: its steps are shorter.  So in one go.
                with writing(self._engine) as connection:
                    rows = fold.fold(connection, profile, limit=self._limit(SHORT))
                if not rows:
                    return
            else:
                rows = step.rows
            pause()
            yield rows
            with reading(self._engine) as connection:
                alone = alone and _taught(connection) == taught
            # No longer than nobody taught before it.
            seconds = min(2 * seconds, LONG) if alone else SHORT

    def _limit(self, seconds: float) -> int:
        """Return how many rows can be written in some time."""
        return min(max(1, int(seconds / self._seconds_per_row)), MOST_ROWS)


def _taught(connection: Connection) -> int:
    """Return how much was taught, to all profiles together."""
    return int(
        connection.execute(select(func.sum(tables.profile.c.revision))).scalar() or 0
    )
