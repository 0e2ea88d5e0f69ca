"""Feature counts, and the interface that they share with moment sums.

Contract of this file: statistics are sums of integers over messages, so they form a
group: addition is exact in any order, and subtracting restores the earlier state bit
for bit.  They contain no smoothing, no prior and no float.  Counts that no messages can
have are refused, with the value.  They are never clamped at zero: unlearning would not
be the inverse of learning, and an error would be invisible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from app.bayes.sparse import (
    LARGEST_COUNT,
    Counting,
    Rows,
    collected,
    in_a_row,
    one_hot,
    totalled,
)
from app.errors import InconsistentCounts, InvalidObservation
from app.kernels.counts import merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.bayes.sparse import SparseCounts
    from app.kernels import Ints


class Statistics(ABC):
    """The sums over the labelled messages, for one view.

    Attributes
    ----------
    messages : ndarray of int64, shape (K,)
        Messages of each class.
    ids : ndarray of int64, shape (V,)
        Feature or field ids, strictly increasing.
    """

    __slots__ = ()

    messages: Ints
    ids: Ints

    @classmethod
    @abstractmethod
    def sum(cls, parts: Iterable[Self], *, n_classes: int) -> Self:
        """Return the sum of many statistics in one pass."""

    def __add__(self, other: Self) -> Self:
        """Return the statistics of both sets of messages together."""
        return self.sum((self, other), n_classes=self.n_classes)

    def __neg__(self) -> Self:
        """Return the inverse element."""
        return self * -1

    @abstractmethod
    def __mul__(self, times: int) -> Self:
        """Return the statistics of the same messages, each so many times.

        Raises
        ------
        InvalidObservation
            If a count would leave the 64-bit integers.
        """

    def __eq__(self, other: object) -> bool:
        """Compare exactly: no tolerance."""
        if not isinstance(other, type(self)):
            return NotImplemented
        names: tuple[str, ...] = type(self).__slots__
        return all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)

    # Equal sums are equal values, but arrays are mutable: no hash.
    __hash__ = None  # type: ignore[assignment]

    def __sub__(self, other: Self) -> Self:
        """Return the statistics with those of `other` taken back."""
        return self + -other

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.messages.size)

    @property
    def vocabulary(self) -> int:
        """Number of features or fields seen in any class."""
        return int(self.ids.size)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureCounts(Statistics):
    """Feature statistics of a set of messages: an element of a group.

    Parameters
    ----------
    messages : ndarray of int64, shape (K,)
        Messages of each class.
    ids : ndarray of int64, shape (V,)
        Feature ids, strictly increasing; features whose row is zero are
        left out, so equal statistics are equal arrays.
    columns : ndarray of int64, shape (V, 2K)
        `occurrences`, then `documents`.

    Notes
    -----
    The event models of the text views share both counts: the multinomial on
    occurrences uses the first, the multinomial on presence and the Bernoulli
    model the second.  In one array, they are found, moved and added in one step.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> x = SparseCounts.of({1: 3, 2: 1})
    >>> state = FeatureCounts.of(x, label=1, n_classes=2)
    >>> state.totals("occurrences").tolist(), state.totals("presence").tolist()
    ([0, 4], [0, 2])
    >>> state + state - state == state
    True
    """

    messages: Ints
    ids: Ints
    columns: Ints

    @classmethod
    def of_counts(
        cls, messages: Ints, ids: Ints, occurrences: Ints, documents: Ints
    ) -> Self:
        """Return the statistics of both counts, each of shape (V, K)."""
        return cls(messages, ids, np.concatenate((occurrences, documents), axis=1))

    @classmethod
    def zero(cls, n_classes: int) -> Self:
        """Return the statistics of no message."""
        return cls(
            np.zeros(n_classes, np.int64),
            np.empty(0, np.int64),
            np.empty((0, 2 * n_classes), np.int64),
        )

    @classmethod
    def of(cls, x: SparseCounts, *, label: int, n_classes: int) -> FeatureCounts:
        """Return what one message of class `label` adds.

        Raises
        ------
        InvalidObservation
            If `label` is not in ``range(n_classes)``.
        """
        return cls.of_messages([x], one_hot(label, n_classes)[np.newaxis])

    @classmethod
    def of_messages(cls, xs: Sequence[SparseCounts], signs: Ints) -> FeatureCounts:
        """Return what M messages add, at least one.

        Parameters
        ----------
        xs : sequence of M SparseCounts
            The messages.
        signs : ndarray of int64, shape (M, K)
            For each message and class: 1 to learn it, -1 to unlearn it, 0 for no
            change.
        """
        if len(xs) == 1:
            return cls._of_one(xs[0], signs[0])
        # The messages that change each class; most messages change one.
        message, label = signs.nonzero()
        moved = [xs[m] for m in message.tolist()]
        sizes = [x.size for x in moved]
        ids, counts = in_a_row(moved)
        sign = signs[message, label].repeat(sizes)
        # One row for each feature of each message, with its numbers in that class.
        k = signs.shape[1]
        columns = np.zeros((ids.size, 2 * k), np.int64)
        place = np.arange(ids.size) * (2 * k)
        place += label.repeat(sizes)
        columns.reshape(-1)[place] = sign * counts
        columns.reshape(-1)[place + k] = sign
        return cls(np.add.reduce(signs), *merged(ids, columns))

    @classmethod
    def _of_one(cls, x: SparseCounts, signs: Ints) -> Self:
        """Return what one message adds; its features are in order already."""
        if not any(signs.tolist()):
            return cls.zero(signs.size)
        columns = np.empty((x.ids.size, 2 * signs.size), np.int64)
        np.multiply(x.values[:, np.newaxis], signs, out=half(columns, "occurrences"))
        half(columns, "presence")[:] = signs
        return cls(signs, x.ids, columns)

    @classmethod
    def sum(cls, parts: Iterable[FeatureCounts], *, n_classes: int) -> FeatureCounts:
        """Return the sum of many statistics in one pass."""
        kept = list(parts)
        if not kept:
            return cls.zero(n_classes)
        if len(kept) == 1:
            return kept[0]
        messages = totalled(np.array([part.messages for part in kept]))
        return cls(messages, *collected([part.rows for part in kept]))

    def __neg__(self) -> FeatureCounts:
        """Return the inverse element."""
        return FeatureCounts(-self.messages, self.ids, -self.columns)

    def __mul__(self, times: int) -> FeatureCounts:
        """Return the statistics of the same messages, each so many times."""
        if times == 0:
            return FeatureCounts.zero(self.n_classes)
        if times == 1:
            return self
        largest = max(
            int(np.abs(part).max(initial=0)) for part in (self.messages, self.columns)
        )
        if largest * abs(times) > LARGEST_COUNT:
            msg = f"a count of {largest} is too large to be taken {times} times"
            raise InvalidObservation(msg)
        return FeatureCounts(self.messages * times, self.ids, self.columns * times)

    @property
    def rows(self) -> Rows:
        """The counts without the messages."""
        return Rows(self.ids, self.columns)

    @property
    def occurrences(self) -> Ints:
        """Occurrences of each feature in the messages of each class, shape (V, K)."""
        return self.columns[:, : self.messages.size]

    @property
    def documents(self) -> Ints:
        """Messages of each class that hold the feature, shape (V, K)."""
        return self.columns[:, self.messages.size :]

    def between(self, first: int | None, end: int | None) -> FeatureCounts:
        """Return the part from one feature id on and before another.

        Parameters
        ----------
        first, end : int or None
            Ids; None: from the beginning, to the end.

        Notes
        -----
        The first part contains the messages that are added, the last part those that
        are removed.  So the sum of the first parts is always one that some messages
        can have, if the total is.
        """
        start, stop = (
            None if at is None else int(self.ids.searchsorted(at))
            for at in (first, end)
        )
        return self.part(start, stop)

    def part(self, start: int | None, stop: int | None) -> FeatureCounts:
        """Return features by their place; None: from the beginning, to the end."""
        messages = np.zeros_like(self.messages)
        if start is None:
            messages += self.messages.clip(min=0)
        if stop is None:
            messages += self.messages.clip(max=0)
        return FeatureCounts(messages, self.ids[start:stop], self.columns[start:stop])

    @property
    def gained(self) -> Ints:
        """Ids with a positive count of messages in any class."""
        return self.ids[(self.documents > 0).any(axis=1)]

    @property
    def lost(self) -> Ints:
        """Ids with a negative count of messages, and no positive one."""
        documents = self.documents
        return self.ids[(documents < 0).any(axis=1) & ~(documents > 0).any(axis=1)]

    @property
    def negative(self) -> bool:
        """Whether any count is below zero."""
        return bool((self.messages < 0).any() or (self.columns < 0).any())

    @property
    def magnitude(self) -> int:
        """Sum of the absolute values of all counts."""
        return int(np.abs(self.messages).sum()) + int(np.abs(self.columns).sum())

    def totals(self, counting: Counting) -> Ints:
        """Return the sum over all features of their counts, shape (K,).

        Raises
        ------
        InvalidObservation
            If 64 bits do not hold it.
        """
        return totalled(half(self.columns, counting))

    def look_up(self, ids: Ints, counting: Counting) -> Ints:
        """Return the counts of `ids` (n,), shape (n, K); 0 where never seen."""
        if not self.ids.size:
            return np.zeros((ids.size, self.n_classes), np.int64)
        place = self.ids.searchsorted(ids)
        # Clipped, so that an id beyond the last compares with the last and
        # differs.
        found = half(self.columns, counting).take(place, axis=0, mode="clip")
        found[self.ids.take(place, mode="clip") != ids] = 0
        return found

    def flatten(self) -> FeatureCounts:
        """Return the state itself."""
        return self

    def require_reachable(self) -> None:
        """Raise if no set of messages has these statistics.

        Raises
        ------
        InconsistentCounts
            If a count is negative or two numbers contradict each other: a message
            was unlearned that had not been learned.  Never clamp instead, or
            unlearning is not the inverse of learning.
        """
        occurrences, documents = self.occurrences, self.documents
        for name, values in (
            ("messages", self.messages),
            ("occurrences", occurrences),
            ("documents", documents),
        ):
            if values.min(initial=0) < 0:
                msg = f"a count of {name} would be negative: {int(values.min())}"
                raise InconsistentCounts(msg)
        # A feature of a message occurs in it, so both counts have the same non-zero
        # cells.
        same = np.count_nonzero(occurrences) == np.count_nonzero(documents)
        if np.count_nonzero(occurrences < documents) or not same:
            apart = (occurrences < documents) | ((occurrences > 0) & (documents == 0))
            where = tuple(np.argwhere(apart)[0])
            raise InconsistentCounts(
                f"a feature would occur {int(occurrences[where])} times "
                f"in {int(documents[where])} messages"
            )
        self.require_frequencies()

    def require_frequencies(self) -> None:
        """Raise if a feature is in more messages than its class has.

        Raises
        ------
        InconsistentCounts
            If there is such a feature: an estimate of its probability would exceed 1.
        """
        beyond = self.documents > self.messages
        if np.count_nonzero(beyond):
            row, c = np.argwhere(beyond)[0].tolist()
            raise InconsistentCounts(
                f"a feature would be in {int(self.documents[row, c])} messages of "
                f"class {c}, which has {int(self.messages[c])}"
            )


def half(columns: Ints, counting: Counting) -> Ints:
    """Return one of both counts, shape (..., K), of columns (..., 2K)."""
    k = columns.shape[-1] // 2
    return columns[..., :k] if counting == "occurrences" else columns[..., k:]


class CountSource(Protocol):
    """The training data as a text model reads it.

    `FeatureCounts` computes the sums for each call; `app.bayes.table.FeatureTable`
    keeps them up to date while messages are learned.  Of several levels
    (`app.bayes.table.PartialSums`) all arrays have one more axis, the first.
    """

    @property
    def messages(self) -> Ints:
        """Messages per class, shape (K,)."""
        ...

    @property
    def vocabulary(self) -> int:
        """Number of features seen in any class."""
        ...

    def totals(self, counting: Counting) -> Ints:
        """Return the sum over all features of their counts, shape (K,)."""
        ...

    def look_up(self, ids: Ints, counting: Counting) -> Ints:
        """Return the counts of `ids` (n,), shape (n, K); 0 where never seen."""
        ...

    def flatten(self) -> FeatureCounts:
        """Return the state as one group element."""
        ...


class FeatureModel:
    """An event model whose training state counts features."""

    __slots__ = ()

    def observe(self, x: SparseCounts, *, label: int, n_classes: int) -> FeatureCounts:
        """Return what one labelled message adds to the training state.

        Parameters
        ----------
        x : SparseCounts
            The message.
        label : int
            Class index in ``range(n_classes)``.
        n_classes : int
            Number of classes K.

        Returns
        -------
        FeatureCounts
            Add it to learn the message, subtract it to unlearn it.

        Raises
        ------
        InvalidObservation
            If `label` is out of range.
        """
        return FeatureCounts.of(x, label=label, n_classes=n_classes)
