"""How long may the next step of a fold be? As long as nobody is likely to wait for it.

Why so is decision 0018.  Contract of this file: it looks at no database, and knows of
feedback only what revisions tell, whichever process was taught.
"""

from __future__ import annotations

import time
from typing import Final

# For how long a step holds the write lock in a pause, which the next feedback may have
# to wait for.  Unit: seconds.
SHORTEST: Final = 0.015
LONGEST: Final = 0.25
# Feedback that never pauses is left for afterwards, up to so many rows.  Of more a long
# step is folded each half second: a row by itself takes 10 to 30 ms, since each of its
# 600 features is on another page, and one of a hundred 1.5 ms.  So short steps get
# nowhere, and a long one makes fewer wait for each row.  Rows that are not folded are
# read by a start, 1,000 in 0.17 s.
BURST: Final = 4_000
# With more of them the steps are longer, up to so many times, and what comes meanwhile
# has to wait: two clients were held at a limit that was set to 300.
LONGER: Final = 4
# Without feedback for so long, it pauses.  A client that teaches message after message
# comes back within a few ms.  Unit: seconds.
PAUSE: Final = 0.02
# A step takes this share of the pause so far, and whoever ends the pause waits for no
# more than that.  Long steps are cheaper, because their rows have many features in
# common (`app.services.folding`).
SHARE: Final = 0.05


class Pace:
    """Notes when a profile was taught last."""

    def __init__(self) -> None:
        self._revision = -1
        self._since = 0.0

    def seconds(self, revision: int, *, folded: int) -> float:
        """Return how long a step may hold the write lock; 0: better none now.

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
        pause = now - self._since
        behind = revision - folded
        late = LONGEST * min(behind / BURST, LONGER) if behind > BURST else 0.0
        if pause < PAUSE:
            return late
        return min(max(SHORTEST, SHARE * pause, late), LONGEST)
