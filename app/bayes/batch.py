"""Batches: many sparse messages joined for one look-up.

Contract of this file: a sum over a message's features is taken in the same
order and by the same routine whether the message came alone or with others,
so that a batch answers bit for bit what its messages answer one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np

from app.bayes.sparse import (
    Counting,
    Sparse,
    in_a_row,
    numbered,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from app.bayes.counts import (
        FeatureCounts,
        Spectrum,
    )


class CountSource(Protocol):
    """What a text model needs to know of its training data.

    `FeatureCounts` answers by summing; `app.bayes.table.FeatureTable` keeps
    the answers up to date while messages are learned.
    """

    @property
    def messages(self) -> NDArray[np.int64]:
        """Messages per class, shape (K,)."""
        ...

    @property
    def vocabulary(self) -> int:
        """Number of features seen in any class."""
        ...

    def totals(self, counting: Counting) -> NDArray[np.int64]:
        """Return the sum over all features of their counts, shape (K,)."""
        ...

    def look_up(self, ids: NDArray[np.int64], counting: Counting) -> NDArray[np.int64]:
        """Return the counts of `ids` (n,), shape (n, K); 0 where never seen."""
        ...

    def document_frequencies(self, label: int) -> Spectrum:
        """Return how many features have each document frequency in a class."""
        ...


class RowSource(CountSource, Protocol):
    """Training data whose rows can be listed, not only looked up."""

    def flatten(self) -> FeatureCounts:
        """Return the state as one group element."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """What training knows of some features.

    Parameters
    ----------
    counts : ndarray of int64, shape (K + 1, N), read-only
        The count of each feature in each class; the last row is of all classes as
        one.
    seen : ndarray of bool, shape (N,), read-only
        Whether any class has it.
    """

    counts: NDArray[np.int64]
    seen: NDArray[np.bool_]

    @classmethod
    def of(cls, found: NDArray[np.int64]) -> Known:
        """Return what is known where these counts were found, shape (N, K)."""
        counts = np.empty((found.shape[1] + 1, found.shape[0]), np.int64)
        counts[:-1] = found.T
        np.add.reduce(counts[:-1], axis=0, out=counts[-1])
        seen: NDArray[np.bool_] = counts[-1] > 0
        counts.flags.writeable = seen.flags.writeable = False
        return cls(counts, seen)

    @property
    def by_class(self) -> NDArray[np.int64]:
        """The count of each feature in each class, shape (K, N)."""
        return self.counts[:-1]

    def take(self, place: NDArray[np.intp]) -> Known:
        """Return what is known of the features at some places, in their order."""
        counts, seen = self.counts.take(place, axis=1), self.seen.take(place)
        counts.flags.writeable = seen.flags.writeable = False
        return Known(counts, seen)


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """The features of M messages, one message after the other.

    Parameters
    ----------
    ids, values : ndarray of int64, shape (N,)
        The features of all messages, and their counts or measured values.
    bounds : list of int, length M + 1
        Message *m* has the features ``bounds[m]:bounds[m + 1]``.
    distinct : ndarray of int64
        Each of `ids` once, strictly increasing.
    place : ndarray of int, shape (N,), or None
        Where each of `ids` is among them; None if they are the same.
    """

    ids: NDArray[np.int64]
    values: NDArray[np.int64]
    bounds: list[int]
    distinct: NDArray[np.int64]
    place: NDArray[np.intp] | None = None
    _known: dict[tuple[int, Counting], tuple[CountSource, Known]] = field(
        default_factory=dict, init=False, repr=False
    )

    def known(self, source: CountSource, counting: Counting) -> Known:
        """Return what a source knows of the features.

        Looked up once, whoever asks: two models of one view ask the same, and
        half of what a model takes is the look-up.
        """
        found = self._known.get((id(source), counting))
        if found is None:
            known = Known.of(source.look_up(self.distinct, counting))
            if self.place is not None:
                known = known.take(self.place)
            # With the source, so that its id stays its own.
            found = self._known[id(source), counting] = source, known
        return found[1]


def join(xs: Sequence[Sparse]) -> Joined:
    """Return the features of several messages, one after the other.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> joined = join([SparseCounts.of({1: 1, 2: 4}), SparseCounts.of({2: 2})])
    >>> joined.ids.tolist(), joined.values.tolist(), joined.bounds
    ([1, 2, 2], [1, 4, 2], [0, 2, 3])
    """
    if len(xs) == 1:
        (x,) = xs
        return Joined(x.ids, x.values, [0, int(x.ids.size)], x.ids)
    ids, values = in_a_row(xs)
    return Joined(
        ids,
        values,
        [0, *accumulate(int(x.ids.size) for x in xs)],
        # Messages share features: 9,700 of 25 were 5,500 different ones. In order and
        # each once they are found in a table of 60,000 in 190 us instead of 470, and
        # to sort them takes 160, once for all tables and tiers.
        *numbered(ids, runs=len(xs)),
    )
