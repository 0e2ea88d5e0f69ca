"""What have the measurements of a set of messages taught? Sums of powers.

Contract of this file: every sum is a Python integer in an array of objects.
It cannot overflow, so it cannot be wrong; with twenty fields one message
costs some tens of microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from app.errors import InconsistentCounts, InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from app.bayes.measurements import Measurements

Integers = Any
"""An array of Python integers: NDArray[np.object_], which numpy cannot type."""


@dataclass(frozen=True, slots=True, eq=False)
class MomentSums:
    """Moment statistics of a set of messages: an element of a group.

    Parameters
    ----------
    messages : ndarray of int64, shape (K,)
        Messages of each class.
    ids : ndarray of int64, shape (D,)
        Field ids, strictly increasing; a field without any sum is left out,
        so that equal statistics are equal arrays.
    sums : ndarray of Python int, shape (D, K)
        Sum of each field over the messages of each class.  Unit: steps.
    pairs : ndarray of int64, shape (D, D, K)
        Messages of each class that have both fields.
    products : ndarray of Python int, shape (D, D, K)
        Sum of the products of two fields.  Unit: steps squared.

    Notes
    -----
    Gaussian naive Bayes takes the diagonal of `products`, the discriminant
    its sum over the classes: both models share one state.

    Examples
    --------
    >>> from app.bayes.measurements import Measurements
    >>> x = Measurements(np.array([1, 2]), np.array([3, -4]))
    >>> state = MomentSums.of(x, label=1, n_classes=2)
    >>> state.sums[:, 1].tolist(), state.products[:, :, 1].tolist()
    ([3, -4], [[9, -12], [-12, 16]])
    >>> state + state - state == state
    True
    """

    messages: NDArray[np.int64]
    ids: NDArray[np.int64]
    sums: Integers
    pairs: NDArray[np.int64]
    products: Integers

    @classmethod
    def zero(cls, n_classes: int) -> Self:
        """Return the statistics of no message."""
        return cls._blank(np.zeros(n_classes, np.int64), np.empty(0, np.int64))

    @classmethod
    def of(cls, x: Measurements, *, label: int, n_classes: int) -> Self:
        """Return what one message of class `label` adds.

        Raises
        ------
        InvalidObservation
            If `label` is not in ``range(n_classes)``.
        """
        if not 0 <= label < n_classes:
            msg = f"label {label} is not in range({n_classes})"
            raise InvalidObservation(msg)
        messages = np.zeros(n_classes, np.int64)
        messages[label] = 1
        state = cls._blank(messages, x.ids)
        values = x.values.astype(object)
        state.sums[:, label] = values
        state.pairs[:, :, label] = 1
        state.products[:, :, label] = np.multiply.outer(values, values)
        return state

    @classmethod
    def sum(cls, parts: Iterable[MomentSums], *, n_classes: int) -> MomentSums:
        """Return the sum of many statistics."""
        kept = list(parts)
        # Messages of one feature set have the same fields, nearly always.
        if kept and all(np.array_equal(p.ids, kept[0].ids) for p in kept):
            return _without_empty_fields(reduce(_fieldwise, kept))
        ids = np.unique(np.concatenate([np.empty(0, np.int64), *(p.ids for p in kept)]))
        total = cls._blank(np.zeros(n_classes, np.int64), ids)
        for part in kept:
            where = ids.searchsorted(part.ids)
            both = np.ix_(where, where)
            total.messages[:] += part.messages
            total.sums[where] += part.sums
            total.pairs[both] += part.pairs
            total.products[both] += part.products
        return _without_empty_fields(total)

    @classmethod
    def _blank(cls, messages: NDArray[np.int64], ids: NDArray[np.int64]) -> Self:
        """Return statistics with all sums zero, to be filled in."""
        d, k = ids.size, messages.size
        return cls(
            messages,
            ids,
            np.zeros((d, k), object),
            np.zeros((d, d, k), np.int64),
            np.zeros((d, d, k), object),
        )

    def __add__(self, other: MomentSums) -> MomentSums:
        """Return the statistics of both sets of messages together."""
        return MomentSums.sum((self, other), n_classes=self.n_classes)

    def __neg__(self) -> MomentSums:
        """Return the inverse element."""
        return MomentSums(
            -self.messages, self.ids, -self.sums, -self.pairs, -self.products
        )

    def __sub__(self, other: MomentSums) -> MomentSums:
        """Return the statistics with those of `other` taken back."""
        return self + -other

    def __mul__(self, times: int) -> MomentSums:
        """Return the statistics of the same messages, each so many times."""
        if times == 0:
            return MomentSums.zero(self.n_classes)
        return MomentSums(
            self.messages * times,
            self.ids,
            self.sums * times,
            self.pairs * times,
            self.products * times,
        )

    def __eq__(self, other: object) -> bool:
        """Compare exactly: no tolerance."""
        if not isinstance(other, MomentSums):
            return NotImplemented
        return (
            np.array_equal(self.messages, other.messages)
            and np.array_equal(self.ids, other.ids)
            and np.array_equal(self.sums, other.sums)
            and np.array_equal(self.pairs, other.pairs)
            and np.array_equal(self.products, other.products)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.messages.size)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Messages of each class that have the field, shape (D, K)."""
        every = np.arange(self.ids.size)
        counts: NDArray[np.int64] = self.pairs[every, every]
        return counts

    @property
    def squares(self) -> Integers:
        """Sum of the square of each field, shape (D, K).  Unit: steps squared."""
        every = np.arange(self.ids.size)
        return self.products[every, every]

    def require_reachable(self) -> None:
        """Raise if these cannot be the statistics of any set of messages.

        Raises
        ------
        InconsistentCounts
            If a count is negative, a field is in more messages than there
            are, or a variance would be negative or vary over one message:
            something was unlearned that had not been learned.
        """
        for name, values in (("messages", self.messages), ("fields", self.pairs)):
            if values.size and int(values.min()) < 0:
                msg = f"a count of {name} would be negative: {int(values.min())}"
                raise InconsistentCounts(msg)
        counts = self.counts
        if (counts > self.messages).any():
            msg = (
                f"a field would be in {int(counts.max())} messages of a class, "
                f"but the classes have {self.messages.tolist()}"
            )
            raise InconsistentCounts(msg)
        spread = counts.astype(object) * self.squares - self.sums**2
        contradiction = (
            (spread < 0)
            | ((counts == 1) & (spread != 0))
            | ((counts == 0) & (self.squares != 0))
        )
        if contradiction.any():
            field = int(self.ids[contradiction.any(axis=1)][0])
            msg = f"no messages have such sums of field {field} and its square"
            raise InconsistentCounts(msg)


def _fieldwise(left: MomentSums, right: MomentSums) -> MomentSums:
    """Return the sum of two statistics of the same fields."""
    return MomentSums(
        left.messages + right.messages,
        left.ids,
        left.sums + right.sums,
        left.pairs + right.pairs,
        left.products + right.products,
    )


def _without_empty_fields(state: MomentSums) -> MomentSums:
    """Return the same statistics without rows of zeros."""
    kept = (
        (state.sums != 0).any(axis=1)
        | (state.pairs != 0).any(axis=(1, 2))
        | (state.products != 0).any(axis=(1, 2))
    )
    if kept.all():
        return state
    both = np.ix_(kept, kept)
    return MomentSums(
        state.messages,
        state.ids[kept],
        state.sums[kept],
        state.pairs[both],
        state.products[both],
    )
