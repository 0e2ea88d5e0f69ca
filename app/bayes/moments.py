"""Moment sums: exact integer sums of measurements and of their products.

Contract of this file: a sum is stored in 64 bits only while twice its size fits into
them, and as a Python integer beyond that.  So two stored sums can be added without a
check, and every result is exact.  Callers get Python integers, which cannot overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from app.bayes.counts import Statistics
from app.bayes.sparse import one_hot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from app.bayes.sparse import Measurements

ROOM: Final = 2**62
"""Sums below this are stored in 64 bits, because the sum of two of them fits too.

The squares of measurements of mail reach it after some ten million messages; beyond
it, adding a message of 16 fields takes 1.5 times as long.
"""
SMALL: Final = 2**31
"""Values whose products stay below `ROOM`."""
Integers = Any
"""An array of Python integers: NDArray[np.object_], which numpy cannot type."""
Kept = Any
"""An array of 64-bit integers, or of Python integers where one has no room."""


def narrowed(sums: Integers) -> Kept:
    """Return sums in the form in which they are stored."""
    return sums.astype(np.int64) if _has_room(sums) else sums


def added(left: Kept, right: Kept) -> Kept:
    """Return the sum of two stored sums."""
    found = left + right
    if found.dtype == object or _has_room(found):
        return found
    return found.astype(object)


def _has_room(sums: Kept) -> bool:
    """Return whether 64 bits hold integers, and the sum of two as large."""
    return _largest(sums) < ROOM


def _largest(values: Kept) -> int:
    """Return the largest magnitude of some integers."""
    return int(np.maximum.reduce(np.abs(values), axis=None, initial=0))


@dataclass(frozen=True, slots=True, eq=False)
class MomentSums(Statistics):
    """Moment statistics of a set of messages: an element of a group.

    Parameters
    ----------
    messages : ndarray of int64, shape (K,)
        Messages of each class.
    ids : ndarray of int64, shape (D,)
        Field ids, strictly increasing; a field without any sum is left out,
        so equal statistics are equal arrays.
    first : ndarray of int64 or of Python int, shape (D, K)
        `sums`, as stored.
    pairs : ndarray of int64, shape (D, D, K)
        Messages of each class that have both fields.
    second : ndarray of int64 or of Python int, shape (D, D, K)
        `products`, as stored.

    Notes
    -----
    Gaussian naive Bayes reads the diagonal of `products`, the discriminant
    their sum over the classes, so both models share one state.

    Examples
    --------
    >>> from app.bayes.sparse import Measurements
    >>> x = Measurements(np.array([1, 2]), np.array([3, -4]))
    >>> state = MomentSums.of(x, label=1, n_classes=2)
    >>> state.sums[:, 1].tolist(), state.products[:, :, 1].tolist()
    ([3, -4], [[9, -12], [-12, 16]])
    >>> state + state - state == state
    True
    """

    messages: NDArray[np.int64]
    ids: NDArray[np.int64]
    first: Kept
    pairs: NDArray[np.int64]
    second: Kept

    @classmethod
    def of_sums(
        cls,
        messages: NDArray[np.int64],
        ids: NDArray[np.int64],
        sums: Integers,
        pairs: NDArray[np.int64],
        products: Integers,
    ) -> MomentSums:
        """Return the statistics of sums in Python's integers.

        Fields without any sum are left out.
        """
        return _without_empty_fields(
            cls(messages, ids, narrowed(sums), pairs, narrowed(products))
        )

    @classmethod
    def zero(cls, n_classes: int) -> Self:
        """Return the statistics of no message."""
        return cls(
            np.zeros(n_classes, np.int64),
            np.empty(0, np.int64),
            np.zeros((0, n_classes), np.int64),
            np.zeros((0, 0, n_classes), np.int64),
            np.zeros((0, 0, n_classes), np.int64),
        )

    @classmethod
    def of(cls, x: Measurements, *, label: int, n_classes: int) -> MomentSums:
        """Return what one message of class `label` adds.

        Raises
        ------
        InvalidObservation
            If `label` is not in ``range(n_classes)``.
        """
        mine = one_hot(label, n_classes)
        values = x.values if _largest(x.values) < SMALL else x.values.astype(object)
        squares = np.multiply.outer(values, values)
        return cls(
            mine,
            x.ids,
            np.multiply.outer(values, mine),
            np.multiply.outer(np.ones(squares.shape, np.int64), mine),
            np.multiply.outer(squares, mine),
        )

    @classmethod
    def sum(cls, parts: Iterable[MomentSums], *, n_classes: int) -> MomentSums:
        """Return the sum of many statistics."""
        kept = list(parts)
        if not kept:
            return cls.zero(n_classes)
        ids = np.unique(np.concatenate([part.ids for part in kept]))
        return _without_empty_fields(reduce(_fieldwise, (_over(ids, p) for p in kept)))

    def __neg__(self) -> MomentSums:
        """Return the inverse element."""
        return MomentSums(
            -self.messages, self.ids, -self.first, -self.pairs, -self.second
        )

    def __mul__(self, times: int) -> MomentSums:
        """Return the statistics of the same messages, each so many times."""
        if times == 0:
            return MomentSums.zero(self.n_classes)
        return MomentSums.of_sums(
            self.messages * times,
            self.ids,
            self.sums * times,
            self.pairs * times,
            self.products * times,
        )

    @property
    def documents(self) -> NDArray[np.int64]:
        """Messages of each class that have the field, shape (D, K)."""
        documents: NDArray[np.int64] = _of_each(self.pairs)
        return documents

    @property
    def sums(self) -> Integers:
        """Sum of each field over the messages of each class, shape (D, K).

        Unit: steps.
        """
        return self.first.astype(object)

    @property
    def squares(self) -> Integers:
        """Sum of the square of each field, shape (D, K).  Unit: steps squared."""
        return _of_each(self.second).astype(object)

    @property
    def products(self) -> Integers:
        """Sum of the products of two fields, shape (D, D, K).  Unit: steps squared."""
        return self.second.astype(object)


def _of_each(pairs: Kept) -> Kept:
    """Return the diagonal of an array of shape (D, D, K), shape (D, K)."""
    return pairs.diagonal().T


def _over(ids: NDArray[np.int64], part: MomentSums) -> MomentSums:
    """Return the same statistics over more fields, zero where it has none."""
    if ids.size == part.ids.size:
        return part
    where = ids.searchsorted(part.ids)
    both = where[:, np.newaxis], where
    d, k = ids.size, part.n_classes
    first = np.zeros((d, k), part.first.dtype)
    pairs = np.zeros((d, d, k), np.int64)
    second = np.zeros((d, d, k), part.second.dtype)
    first[where], pairs[both], second[both] = part.first, part.pairs, part.second
    return MomentSums(part.messages, ids, first, pairs, second)


def _fieldwise(left: MomentSums, right: MomentSums) -> MomentSums:
    """Return the sum of two statistics of the same fields."""
    return MomentSums(
        left.messages + right.messages,
        left.ids,
        added(left.first, right.first),
        left.pairs + right.pairs,
        added(left.second, right.second),
    )


def _without_empty_fields(state: MomentSums) -> MomentSums:
    """Return the same statistics without rows of zeros."""
    kept = (state.first != 0).any(axis=1)
    kept |= ((state.pairs != 0) | (state.second != 0)).any(axis=(1, 2))
    if kept.all():
        return state
    both = np.ix_(kept, kept)
    return MomentSums(
        state.messages,
        state.ids[kept],
        state.first[kept],
        state.pairs[both],
        state.second[both],
    )


class MeasurementModel:
    """An event model whose training state sums measurements and their products."""

    __slots__ = ()

    def observe(self, x: Measurements, *, label: int, n_classes: int) -> MomentSums:
        """Return what one labelled message adds, as `FeatureModel.observe`."""
        return MomentSums.of(x, label=label, n_classes=n_classes)
