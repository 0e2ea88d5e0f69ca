"""How are features found in a tier of a large table?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.bayes.buckets import Buckets

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from app.bayes.statistics import FeatureCounts

# Rows from which buckets are made.  CPU time of finding 250 and 4,000 features, half
# of them known, where something else used the caches in between:
#
#     rows         70,000          300,000         2,000,000
#     search       59    165       110    482      202   1147  µs
#     buckets      71    142        70    157       83    180  µs
#
# To make them takes 3 ms for 300,000 rows, and such a tier is made anew after some
# hundred messages.
BUCKETS_FROM: Final = 1 << 17

# Fewer features, those of a short message, are searched for also where there are
# buckets:
#
#     asked               7     20     50    100    250
#     277,000 rows
#       search            9     14     20     26     44  µs
#       buckets          20     23     25     27     35  µs
#     2,000,000 rows
#       search           14     32     56     85    139  µs
#       buckets          30     39     39     45     57  µs
FEW: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class Tier:
    """A part of a table, and how its features are found.

    Parameters
    ----------
    counts : FeatureCounts
        The part.
    buckets : Buckets or None
        Of its ids; None where they are few, or not spread evenly.
    """

    counts: FeatureCounts
    buckets: Buckets | None

    @classmethod
    def of(cls, counts: FeatureCounts) -> Tier:
        """Return the tier of some counts."""
        large = counts.ids.size >= BUCKETS_FROM
        return cls(counts, Buckets.of(counts.ids) if large else None)

    @property
    def size(self) -> int:
        """Number of features."""
        return self.counts.vocabulary

    def look_up(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the columns of `ids` (n,), shape (n, 2K); 0 where never seen."""
        if self.buckets is None or ids.size < FEW:
            place = self.counts.ids.searchsorted(ids)
        else:
            place = self.buckets.find(self.counts.ids, ids)
        return self.counts.take(ids, place)
