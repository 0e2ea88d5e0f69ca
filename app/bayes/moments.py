"""What have the measurements of a set of messages taught? Sums of powers.

Contract of this file: every sum is a Python integer in an array of objects.
It cannot overflow, so it cannot be wrong; with twenty fields one message
costs some tens of microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from app.bayes.one_hot import one_hot
from app.errors import InconsistentCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from app.bayes.measurements import Measurements

HALF_BITS: Final = 24
"""Where a value of up to 47 bits is cut, so that products of halves can be summed."""

AT_ONCE: Final = 2**13
"""Messages whose products of halves fit into 63 bits when they are summed."""

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
    def of(cls, x: Measurements, *, label: int, n_classes: int) -> MomentSums:
        """Return what one message of class `label` adds.

        Raises
        ------
        InvalidObservation
            If `label` is not in ``range(n_classes)``.
        """
        return cls.of_messages([x], one_hot(label, n_classes)[np.newaxis])

    @classmethod
    def of_messages(
        cls, xs: Sequence[Measurements], signs: NDArray[np.int64]
    ) -> MomentSums:
        """Return what M messages add, at least one.

        Parameters
        ----------
        xs : sequence of M Measurements
            The messages.
        signs : ndarray of int64, shape (M, K)
            What becomes of each in each class: 1 to learn it, -1 to take it back,
            0 to leave it.
        """
        if len(xs) == 1:
            return cls._of_one(xs[0], signs[0])
        if len(xs) > AT_ONCE:
            return cls.of_messages(xs[:AT_ONCE], signs[:AT_ONCE]) + cls.of_messages(
                xs[AT_ONCE:], signs[AT_ONCE:]
            )
        ids = xs[0].ids
        # Messages of one feature set have the same fields, nearly always.
        if not all(np.array_equal(x.ids, ids) for x in xs[1:]):
            ids = np.unique(np.concatenate([x.ids for x in xs]))
        values = np.zeros((len(xs), ids.size), np.int64)
        present = np.zeros((len(xs), ids.size), np.int64)
        for m, x in enumerate(xs):
            where = ids.searchsorted(x.ids)
            values[m, where] = x.values
            present[m, where] = 1
        # The product of two values has up to 94 bits: it is summed in halves, whose
        # sums stay below 2**62, and put together in Python's integers.
        high, low = values >> HALF_BITS, values & (2**HALF_BITS - 1)
        cross = _products(high, low, signs)
        state = cls(
            signs.sum(axis=0),
            ids,
            _joined((high.T @ signs).astype(object), low.T @ signs),
            _products(present, present, signs),
            _joined(
                _joined(
                    _products(high, high, signs).astype(object),
                    cross + cross.transpose(1, 0, 2),
                ),
                _products(low, low, signs),
            ),
        )
        return _without_empty_fields(state)

    @classmethod
    def _of_one(cls, x: Measurements, signs: NDArray[np.int64]) -> MomentSums:
        """Return what one message adds; alone it takes a third of the time so."""
        if not signs.any():
            return cls.zero(signs.size)
        values = x.values.astype(object)
        # Python integers on both sides, or a product beyond 63 bits would wrap.
        exact = signs.astype(object)
        pairs = np.zeros((x.size, x.size, signs.size), np.int64)
        pairs[:] = signs
        return cls(
            signs.copy(),
            x.ids,
            np.multiply.outer(values, exact),
            pairs,
            np.multiply.outer(np.multiply.outer(values, values), exact),
        )

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


def _products(
    left: NDArray[np.int64], right: NDArray[np.int64], signs: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sum over messages of left (M, D) times right (M, D), per class."""
    (m, d), k = left.shape, signs.shape[1]
    signed = (left[:, :, np.newaxis] * signs[:, np.newaxis]).reshape(m, d * k)
    # Matrices of integers are multiplied without BLAS, exactly.
    found: NDArray[np.int64] = (signed.T @ right).reshape(d, k, d).transpose(0, 2, 1)
    return found


def _joined(high: Integers, low: NDArray[np.int64]) -> Integers:
    """Return sums of values from the sums of their halves."""
    joined: Integers = high * 2**HALF_BITS + low
    return joined


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
    kept = (state.pairs != 0).any(axis=(1, 2))
    if kept.all():
        return state
    # Only where the counts cancel out: comparing Python's integers takes longer
    # than adding them.
    kept |= (state.sums != 0).any(axis=1) | (state.products != 0).any(axis=(1, 2))
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
