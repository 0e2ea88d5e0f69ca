"""Feature table: a growing sum of feature counts, in place.

Contract of this file: a table that refuses a sum does not change.  A reader must hold a
lock while another thread adds to the table (`app.services.live`).
"""

from __future__ import annotations

from copy import copy
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from app.bayes.counts import FeatureCounts, half
from app.bayes.sparse import added, totalled
from app.kernels import counts as slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.bayes.counts import CountSource
    from app.bayes.sparse import Counting
    from app.kernels import Ints

# Python draws the seed of its hashes at random at each start, so no sender knows it.
# The contents and answers of a table do not depend on it.
_SECRET: Final = np.uint64(hash("slots") % 2**64 | 1)
SMALLEST: Final = 64
NARROW: Final = 2**31 - 1
# Between 64 and 80 % of the slots are taken, so a feature of two classes takes 30 to
# 37.5 bytes and is found after 2 to 3 steps.  Unit: slots for each feature.
ROOMY: Final = 1 / 0.64
FULL: Final = 0.8


class FeatureTable:
    """The sum of the feature statistics of some messages.

    A new one is of no message; `add` changes it.

    Parameters
    ----------
    n_classes : int
        Number of classes K.

    Attributes
    ----------
    messages : ndarray of int64, shape (K,)
        Messages of each class.
    vocabulary : int
        Number of features with a count in any class.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> x = SparseCounts.of({1: 3, 2: 1})
    >>> delta = FeatureCounts.of(x, label=1, n_classes=2)
    >>> table = FeatureTable(2)
    >>> table.add(delta)
    >>> table.add(delta)
    >>> table.vocabulary, table.totals("occurrences").tolist()
    (2, [0, 8])
    >>> table.add(-delta)
    >>> table.flatten() == delta
    True
    """

    def __init__(self, n_classes: int) -> None:
        self.messages = np.zeros(n_classes, np.int64)
        self.vocabulary = 0
        self._totals = np.zeros(2 * n_classes, np.int64)
        # Replaced and read together: a reader never sees the keys of one table with
        # the counts of another.
        self._slots: tuple[Ints, slots.Counts] = (
            np.zeros(SMALLEST + 1, np.int64),
            np.zeros((SMALLEST + 1, 2 * n_classes), np.int32),
        )
        self._taken = 0

    @classmethod
    def of(cls, state: FeatureCounts) -> Self:
        """Return the table of a state.

        Raises
        ------
        InconsistentCounts
            If no set of messages has these counts.
        """
        table = cls(state.n_classes)
        table.add(state)
        return table

    def copy(self) -> Self:
        """Return a separate table with the same counts."""
        table = copy(self)
        keys, counts = self._slots
        table._slots = keys.copy(), counts.copy()  # noqa: SLF001
        table._totals = self._totals.copy()  # noqa: SLF001
        return table

    def add(self, delta: FeatureCounts) -> None:
        """Add the counts of messages, or subtract them.

        Raises
        ------
        InconsistentCounts
            If no set of messages has the counts of the features that change.
        """
        self.apply(delta, self.prepare(delta))

    def prepare(self, delta: FeatureCounts) -> int:
        """Check a sum and make room for it, so that `apply` cannot fail.

        Returns
        -------
        int
            Number of features that the vocabulary gains; pass it to `apply`.

        Raises
        ------
        InconsistentCounts
            If no set of messages has the counts of the features that change.
        InvalidObservation
            If 64 bits do not hold them.
        """
        messages = self.messages + delta.messages
        row, gained, largest = slots.survey(
            *self._slots, _SECRET, delta.ids, delta.columns, messages
        )
        if row >= 0 or min(messages.tolist()) < 0:
            self._refuse(delta, messages, row)
        keys, counts = self._slots
        wide = counts.dtype != np.int32
        # As many counts of 31 bits as fit into memory have a smaller sum.
        if largest > NARROW or wide:
            added(self._totals, totalled(delta.columns))
        if largest > NARROW and not wide:
            self._slots = keys, counts.astype(np.int64)
        if self._taken + delta.ids.size > FULL * (keys.size - 1):
            self._grow(delta.ids.size)
        return gained

    def apply(self, delta: FeatureCounts, gained: int) -> None:
        """Add a sum that `prepare` has made room for."""
        self._taken += slots.add(
            *self._slots, _SECRET, delta.ids, delta.columns, self._totals
        )
        self.messages = self.messages + delta.messages
        self.vocabulary += gained

    def _grow(self, more: int) -> None:
        """Move to larger arrays, with room for so many more features.

        Readers of the old arrays are not affected.
        """
        size = max(SMALLEST, int(ROOMY * (self.vocabulary + more)) + 1)
        old = self._slots[1]
        keys = np.zeros(size + 1, np.int64)
        counts = np.zeros((size + 1, old.shape[1]), old.dtype)
        self._taken = slots.move(*self._slots, _SECRET, keys, counts)
        self._slots = keys, counts

    def _refuse(self, delta: FeatureCounts, messages: Ints, row: int) -> None:
        """Raise the error about a sum that no set of messages has."""
        ids = delta.ids[row : row + 1] if row >= 0 else delta.ids[:0]
        added(self.messages, delta.messages)
        columns = added(self._columns(ids), delta.columns[row : row + ids.size])
        FeatureCounts(messages, ids, columns).require_reachable()

    @property
    def room(self) -> int:
        """Number of slots for features."""
        return self._slots[0].size - 1

    @property
    def nbytes(self) -> int:
        """Memory that the slots take.  Unit: bytes."""
        return sum(part.nbytes for part in self._slots)

    def totals(self, counting: Counting) -> Ints:
        """Return the sum over all features of their counts, shape (K,)."""
        return half(self._totals, counting).copy()

    def look_up(self, ids: Ints, counting: Counting) -> Ints:
        """Return the counts of `ids` (n,), shape (n, K); 0 where never seen."""
        found = np.zeros((ids.size, self.messages.size), np.int64)
        self.add_to(found[np.newaxis], ids, counting)
        return found

    def add_to(
        self, found: Ints, ids: Ints, counting: Counting, weight: int = 1
    ) -> None:
        """Add the counts of `ids` (n,), times a weight, to each of S sums (S, n, K)."""
        first = 0 if counting == "occurrences" else self.messages.size
        slots.look_up(*self._slots, _SECRET, ids, first, weight, found)

    def _columns(self, ids: Ints) -> Ints:
        """Return both counts of `ids` (n,), shape (n, 2K)."""
        found = np.zeros((ids.size, self._totals.size), np.int64)
        slots.look_up(*self._slots, _SECRET, ids, 0, 1, found[np.newaxis])
        return found

    def flatten(self) -> FeatureCounts:
        """Return the state as one group element, for comparing and saving."""
        return FeatureCounts(self.messages, *slots.rows(*self._slots))


class PartialSums:
    """The weighted sum of feature tables, and that of all but the first, and so on.

    Parameters
    ----------
    parts : sequence of (int, FeatureTable)
        L tables with their weights; at least one.

    Attributes
    ----------
    messages : ndarray of int64, shape (L, K)
        Messages of each class, in each sum.
    vocabulary : int
        The features of the largest table: the exact number of a sum would take a pass
        through all of them, and only the pseudo-counts of a smoothing without an
        interpolation depend on it.

    Notes
    -----
    They are computed at each look-up: in one pass through each table, and no memory.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> x = FeatureCounts.of(SparseCounts.of({1: 3}), label=1, n_classes=2)
    >>> table = FeatureTable.of(x)
    >>> sums = PartialSums([(10, table), (1, table)])
    >>> sums.look_up(np.array([1, 2]), "occurrences").tolist()
    [[[0, 33], [0, 0]], [[0, 3], [0, 0]]]
    """

    def __init__(self, parts: Sequence[tuple[int, FeatureTable]]) -> None:
        self._parts = parts
        self.messages = _summed([w * table.messages for w, table in parts])
        self.vocabulary = max(table.vocabulary for _, table in parts)

    def totals(self, counting: Counting) -> Ints:
        """Return the sums over all features of their counts, shape (L, K)."""
        return _summed([w * table.totals(counting) for w, table in self._parts])

    def look_up(self, ids: Ints, counting: Counting) -> Ints:
        """Return the counts of `ids` (n,), shape (L, n, K); 0 where never seen."""
        levels, k = self.messages.shape
        found = np.zeros((levels, ids.size, k), np.int64)
        for last, (weight, table) in enumerate(self._parts, start=1):
            table.add_to(found[:last], ids, counting, weight)
        return found

    def flatten(self) -> FeatureCounts:
        """Return the sum of all as one group element."""
        return reduce(add, (table.flatten() * w for w, table in self._parts))


class GroupedClasses:
    """A source of counts with its classes added up in groups.

    Parameters
    ----------
    source : CountSource
        The counts of each class.
    group : ndarray of int64, shape (K,)
        The group of each class, from 0 on.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> x = FeatureCounts.of(SparseCounts.of({1: 3}), label=2, n_classes=3)
    >>> both = GroupedClasses(FeatureTable.of(x), np.array([0, 1, 1]))
    >>> both.messages.tolist(), both.look_up(np.array([1]), "occurrences").tolist()
    ([0, 1], [[0, 3]])
    """

    def __init__(self, source: CountSource, group: Ints) -> None:
        self._source = source
        # Of K rows and a column for each group: 1 where the class is in the group.
        self._member = np.eye(int(group.max()) + 1, dtype=np.int64)[group]
        self.messages: Ints = source.messages @ self._member
        self.vocabulary = source.vocabulary

    def totals(self, counting: Counting) -> Ints:
        """Return the sum over all features of their counts, shape (..., G)."""
        return self._source.totals(counting) @ self._member

    def look_up(self, ids: Ints, counting: Counting) -> Ints:
        """Return the counts of `ids` (n,), shape (..., n, G); 0 where never seen."""
        return self._source.look_up(ids, counting) @ self._member

    def flatten(self) -> FeatureCounts:
        """Return the sum of all as one group element."""
        flat = self._source.flatten()
        return FeatureCounts.of_counts(
            flat.messages @ self._member,
            flat.ids,
            flat.occurrences @ self._member,
            flat.documents @ self._member,
        )


def _summed(parts: Sequence[Ints]) -> Ints:
    """Return the sum of all parts, and that of all but the first, and so on."""
    # Copied: a kernel is compiled for arrays in this order, and anew for a view.
    found: Ints = np.add.accumulate(parts[::-1])[::-1].copy()
    return found
