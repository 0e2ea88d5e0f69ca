"""When is the next step of a fold due? Where nobody is likely to wait for it.

Why so is decision 0019.  Contract of this file: it looks at no database, and knows of
feedback only what revisions tell, whichever process was taught.
"""

from __future__ import annotations

import time
from typing import Final

# How long a step may take, by dialect.  On SQLite it holds the one write lock for so
# long, which the next feedback may have to wait for.  On PostgreSQL, where a step costs
# 6 ms of its own, others wait for the interpreter alone: 2,000 rows are folded in 17 s
# in steps of 10 ms, in 11 s in those of 25, and in 9 s in those of 50, beside which the
# p99 of scoring was 1.8 to 2.9 times the quiet one, and 1.3 to 2.4 beside the others.
# Unit: seconds.
STEP: Final = {"sqlite": 0.01, "postgresql": 0.025}
# Feedback that never pauses is left for afterwards, up to so many rows: many rows at
# once are cheaper, because they have most of their features in common
# (`app.services.folding`).  Rows that are not folded are read by a start, 1,000 in
# 0.17 s.
BURST: Final = 4_000
# Beside feedback that goes on, steps have the lock for this share of the time where
# `BURST` rows are left, twice of it where twice as many are, and at most for `MOST`.
SHARE: Final = 0.25
MOST: Final = 0.75
# Without feedback for so long, it pauses.  A client that teaches message after message
# comes back within a few ms.  Unit: seconds.
PAUSE: Final = 0.02


class Pace:
    """Notes when a profile was taught last."""

    def __init__(self) -> None:
        self._revision = -1
        self._since = 0.0

    def due(self, revision: int, *, folded: int) -> bool:
        """Tell whether to make a step now.

        Parameters
        ----------
        revision : int
            The ledger row that was learned last.
        folded : int
            The last one that is folded.
        """
        now = time.monotonic()
        if revision != self._revision:
            self._revision, self._since = revision, now
        return now - self._since >= PAUSE or revision - folded > BURST


def rest(left: int, *, step: float) -> float:
    """Return how long to wait for a pause before the next step.  Unit: seconds.

    Parameters
    ----------
    left : int
        Rows that are not folded; without more than `BURST` there is no step but in a
        pause, however long that takes.
    step : float
        How long one takes.  Unit: seconds.
    """
    if left <= BURST:
        return float("inf")
    share = min(SHARE * left / BURST, MOST)
    return step / share - step
