"""Moment sums: exact integer sums of measurements and of their products.

Contract of this file: sums are Python integers, which cannot overflow.  The products of
the values of a table, of up to 37 bits, would not fit into 64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from app.bayes.counts import Statistics
from app.bayes.sparse import one_hot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.bayes.sparse import Measurements
    from app.kernels import Bools, Ints

BigInts = Any
"""An array of Python integers: NDArray[np.object_], which numpy cannot type."""


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
    sums : ndarray of Python int, shape (D, K)
        Sum of each field over the messages of each class.  Unit: steps.
    pairs : ndarray of int64, shape (D, D, K)
        Messages of each class that have both fields.
    products : ndarray of Python int, shape (D, D, K)
        Sum of the products of two fields.  Unit: steps squared.

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

    messages: Ints
    ids: Ints
    sums: BigInts
    pairs: Ints
    products: BigInts

    @classmethod
    def zero(cls, n_classes: int) -> Self:
        """Return the statistics of no message."""
        return cls.sum((), n_classes=n_classes)

    @classmethod
    def of(cls, x: Measurements, *, label: int, n_classes: int) -> MomentSums:
        """Return what one message of class `label` adds.

        Raises
        ------
        InvalidObservation
            If `label` is not in ``range(n_classes)``.
        """
        mine = one_hot(label, n_classes)
        values = x.values.astype(object)
        products = np.multiply.outer(values, values)
        return cls(
            mine,
            x.ids,
            np.multiply.outer(values, mine),
            np.multiply.outer(np.ones(products.shape, np.int64), mine),
            np.multiply.outer(products, mine),
        )

    @classmethod
    def sum(cls, parts: Iterable[MomentSums], *, n_classes: int) -> Self:
        """Return the sum of many statistics."""
        kept, k = list(parts), n_classes
        empty = np.empty(0, np.int64)
        ids = np.unique(np.concatenate([empty, *(part.ids for part in kept)]))
        d, messages = ids.size, np.zeros(k, np.int64)
        sums, pairs = np.zeros((d, k), object), np.zeros((d, d, k), np.int64)
        products = np.zeros((d, d, k), object)
        for part in kept:
            # In place where it has all fields, which takes half the time.
            whole = part.ids.size == d
            where: Any = slice(None) if whole else ids.searchsorted(part.ids)
            both: Any = where if whole else np.ix_(where, where)
            messages += part.messages
            sums[where] += part.sums
            pairs[both] += part.pairs
            products[both] += part.products
        there = (sums != 0).any(axis=1)
        there |= ((pairs != 0) | (products != 0)).any(axis=(1, 2))
        return cls(messages, ids, sums, pairs, products).take(there)

    def take(self, fields: Bools) -> Self:
        """Return the statistics of some of the fields, given by a mask (D,)."""
        both = np.ix_(fields, fields)
        return type(self)(
            self.messages,
            self.ids[fields],
            self.sums[fields],
            self.pairs[both],
            self.products[both],
        )

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

    @property
    def documents(self) -> Ints:
        """Messages of each class that have the field, shape (D, K)."""
        return self.pairs.diagonal().T

    @property
    def squares(self) -> BigInts:
        """Sum of the square of each field, shape (D, K).  Unit: steps squared."""
        return self.products.diagonal().T


class MeasurementModel:
    """An event model whose training state sums measurements and their products."""

    __slots__ = ()

    def observe(self, x: Measurements, *, label: int, n_classes: int) -> MomentSums:
        """Return what one labelled message adds, as `FeatureModel.observe`."""
        return MomentSums.of(x, label=label, n_classes=n_classes)
