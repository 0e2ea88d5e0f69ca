"""Sum of rows: adds up the counts of equal ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.kernels import unlocked

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    # The stable sort is Timsort, which merges runs that are in order: two runs of
    # 400,000 take 9 ms, and 25 with the default sort (experiment 0101).
    return summed(ids, counts, ids.argsort(kind="stable"))


@unlocked
def summed(
    ids: NDArray[np.int64], counts: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct ids, and the sums of their rows, without zeros.

    Parameters
    ----------
    ids, counts
        As in `merged`.
    order : ndarray of int64, shape (n,)
        The places of the ids, in their order.
    """
    found = np.empty(order.size, np.int64)
    sums = np.empty((order.size, counts.shape[1]), np.int64)
    size = at = 0
    rows = min(ids.size, counts.shape[0])
    end = order.size if order.size and 0 <= order.min() <= order.max() < rows else 0
    while at < end:
        found[size] = ids[order[at]]
        sums[size] = 0
        while at < end and ids[order[at]] == found[size]:
            for c in range(counts.shape[1]):
                sums[size, c] += counts[order[at], c]
            at += 1
        left = False
        for c in range(counts.shape[1]):
            left |= sums[size, c] != 0
        size += left
    return found[:size], sums[:size]
