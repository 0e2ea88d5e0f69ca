"""How are many sparse messages scored with one look-up?

Contract of this file: a sum over a message's features is taken in the same
order and by the same routine whether the message came alone or with others,
so that a batch answers bit for bit what its messages answer one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from app.bayes.sparse import SparseCounts


@dataclass(frozen=True, slots=True)
class Joined:
    """The features of M messages, one message after the other.

    Parameters
    ----------
    ids, counts : ndarray of int64, shape (N,)
        The features of all messages.
    bounds : list of int, length M + 1
        Message *m* has the features ``bounds[m]:bounds[m + 1]``.
    """

    ids: NDArray[np.int64]
    counts: NDArray[np.int64]
    bounds: list[int]

    def sums(self, terms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of `terms` (K, N) over each message, shape (M, K)."""
        sums = np.empty((len(self.bounds) - 1, terms.shape[0]))
        # Not np.add.reduceat: it adds from left to right, and the error of a
        # sum of a million terms would be a thousand times that of the
        # pairwise sum along a contiguous axis.
        for m, row in enumerate(sums):
            terms[:, self.bounds[m] : self.bounds[m + 1]].sum(axis=1, out=row)
        return sums


def join(xs: Sequence[SparseCounts]) -> Joined:
    """Return the features of several messages, one after the other.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> joined = join([SparseCounts.of({1: 1, 2: 3}), SparseCounts.of({2: 1})])
    >>> joined.ids.tolist(), joined.bounds
    ([1, 2, 2], [0, 2, 3])
    >>> joined.sums(np.array([[1.0, 2.0, 4.0], [0.5, 0.5, 0.5]])).tolist()
    [[3.0, 1.0], [4.0, 0.5]]
    """
    if len(xs) == 1:
        return Joined(xs[0].ids, xs[0].counts, [0, xs[0].size])
    bounds = [0]
    for x in xs:
        bounds.append(bounds[-1] + x.size)
    empty = np.empty(0, np.int64)
    return Joined(
        np.concatenate([empty, *(x.ids for x in xs)]),
        np.concatenate([empty, *(x.counts for x in xs)]),
        bounds,
    )
