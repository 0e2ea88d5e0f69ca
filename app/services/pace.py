"""When is the next step of a fold due? Where nobody is likely to wait for it.

Why so is decision 0019.  Contract of this file: it looks at no database, and knows of
feedback only what revisions tell, whichever process was taught.
"""

from __future__ import annotations

import time
from typing import Final

# For how long a step holds the write lock, which the next feedback may have to wait
# for.  Unit: seconds.
STEP: Final = 0.01
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


def rest(left: int) -> float:
    """Return how long to wait for a pause before the next step.  Unit: seconds.

    Parameters
    ----------
    left : int
        Rows that are not folded; without more than `BURST` there is no step but in a
        pause, however long that takes.
    """
    if left <= BURST:
        return float("inf")
    share = min(SHARE * left / BURST, MOST)
    return STEP / share - STEP
