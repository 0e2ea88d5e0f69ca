"""Sum of sorted rows: merges many runs of ids and counts into one.

The runs are in a heap by their next id, so a row costs the logarithm of their number.

References
----------
.. [1] D. E. Knuth, *The Art of Computer Programming*, volume 3, second edition,
   Addison-Wesley, 1998, section 5.4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.kernels import unlocked

if TYPE_CHECKING:
    from numpy.typing import NDArray


@unlocked
def merged(
    ids: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct ids in order, and the sums of their rows, without zeros.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        Ids in any order; the fewer descents, the faster.
    counts : ndarray of int64, shape (n, C)
        Counts of each.
    """
    begins = np.ones(ids.size, np.bool_)
    begins[1:] = ids[1:] <= ids[:-1]
    at = begins.nonzero()[0]
    end = np.append(at[1:], ids.size)
    # A sorted array is a heap.
    heap = ids[at].argsort()
    keys = ids[at[heap]]
    size = heap.size
    found = np.empty(ids.size, np.int64)
    sums = np.empty(counts.shape, np.int64)
    n = 0
    while size:
        found[n] = keys[0]
        sums[n] = 0
        while size and keys[0] == found[n]:
            run = heap[0]
            for c in range(counts.shape[1]):
                sums[n, c] += counts[at[run], c]
            at[run] += 1
            # The run sinks from the top to its place.  A finished run is replaced by
            # the last one, which sinks.
            if at[run] == end[run]:
                size -= 1
                run = heap[size]
                key = keys[size]
            else:
                key = ids[at[run]]
            hole, child = 0, 1
            while child < size:
                if child + 1 < size and keys[child + 1] < keys[child]:
                    child += 1
                if keys[child] >= key:
                    break
                heap[hole], keys[hole] = heap[child], keys[child]
                hole, child = child, 2 * child + 1
            heap[hole], keys[hole] = run, key
        left = False
        for c in range(counts.shape[1]):
            left |= sums[n, c] != 0
        n += left
    return found[:n], sums[:n]
