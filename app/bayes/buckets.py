"""How is one of a million sorted hashes found in two steps instead of twenty?

A binary search reads one place after the other, each far from the last, and most
of them are in no cache of the processor.  Hashes are spread evenly, so that their
leading bits tell where they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ID_BITS: Final = 64

# Of a row in each bucket on average, the fullest of two million has ten; only ids
# that are no hashes, or were chosen, stand closer.
FULLEST: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Where the ids with the same leading bits begin.

    Parameters
    ----------
    starts : ndarray of int32, shape (2**b,)
        The first id of each bucket, by its leading *b* bits, the smallest first.
    bits : int
        How many bits: *b*.
    steps : int
        How many ids the fullest bucket has.

    Examples
    --------
    >>> ids = np.array([-(2**62), 3, 2**62])
    >>> buckets = Buckets.of(ids)
    >>> buckets.find(ids, np.array([3, 2**62, 4])).tolist()
    [1, 2, 2]
    """

    starts: NDArray[np.int32]
    bits: int
    steps: int

    @classmethod
    def of(cls, ids: NDArray[np.int64]) -> Buckets | None:
        """Return the buckets of ids, strictly increasing, two at least.

        Returns
        -------
        Buckets or None
            None where the ids are not spread evenly: then search them.
        """
        # 2**31 rows would take 80 GB.
        bits = max(1, int(ids.size - 1).bit_length())
        filled = np.bincount(_leading(ids, bits), minlength=1 << bits)
        steps = int(filled.max())
        if steps > FULLEST:
            return None
        starts = np.zeros(1 << bits, np.int32)
        np.cumsum(filled[:-1], out=starts[1:])
        return cls(starts, bits, steps)

    def find(
        self, ids: NDArray[np.int64], asked: NDArray[np.int64]
    ) -> NDArray[np.intp]:
        """Return the place of each id that is asked for, or where it belongs.

        Parameters
        ----------
        ids : ndarray of int64, shape (V,)
            Those that the buckets are of.
        asked : ndarray of int64, shape (n,)
            In any order.

        Returns
        -------
        ndarray of int, shape (n,)
            What ``ids.searchsorted(asked)`` returns.
        """
        place = self.starts.take(_leading(asked, self.bits)).astype(np.intp)
        for _ in range(self.steps):
            smaller = ids.take(place, mode="clip") < asked
            if not np.count_nonzero(smaller):
                return place
            place += smaller
        # What is larger than all ids was led beyond the end.
        return np.minimum(place, ids.size)


def _leading(ids: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the leading bits of ids, from 0 for the smallest."""
    # The shift keeps the sign.
    return (ids >> (ID_BITS - bits)) + (1 << (bits - 1))
