"""Event models: the likelihood that each estimates, and the product over views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from app.bayes.sparse import Vector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.kernels import Bools, Floats, Ints


X = TypeVar("X", bound=Vector)
"""The form of a message that an event model reads: sparse counts, measurements, ..."""


@dataclass(frozen=True, slots=True)
class Contributions:
    """The log-likelihood of a message, taken apart.

    Parameters
    ----------
    constant : ndarray of float64, shape (K,)
        Term of each class that does not depend on the features.  Unit: nats.
    terms : ndarray of float64, shape (K, n)
        Term of each feature; 0 if it was never seen.  Unit: nats.
    seen : ndarray of bool, shape (n,)
        Whether the feature takes part: training saw it, in any class, or it is
        declared.
    totals : ndarray of float64, shape (L, K)
        Their sum: the log-likelihood ``log P(x | c)``.  Where the counts are those of
        several levels (`app.bayes.table.PartialSums`), all else is of the first of
        them, and the other rows are the sums of the others.  Unit: nats.
    """

    constant: Floats
    terms: Floats
    seen: Bools
    totals: Floats

    @property
    def features(self) -> Floats:
        """Term of each feature for each class, shape (n, K).  Unit: nats."""
        return self.terms.T

    @property
    def known(self) -> int:
        """Number of the features that training has seen."""
        return int(np.count_nonzero(self.seen))


class Likelihood(ABC, Generic[X]):
    """A fitted event model: the log-likelihood of a message in each class."""

    __slots__ = ()

    @abstractmethod
    def contributions(self, x: X, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by feature."""

    def __call__(self, x: X, /) -> Floats:
        """Return ``log P(x | c)`` for each class, shape (K,).  Unit: nats."""
        found: Floats = self.contributions(x).totals[0]
        return found


def by_level(array: Ints, axes: int) -> Ints:
    """Return an array of a source of counts with the axis of levels, also of one level.

    Parameters
    ----------
    axes : int
        Number of its axes with that of the levels.
    """
    return array if array.ndim == axes else array[np.newaxis]


@dataclass(frozen=True, slots=True)
class Product:
    r"""The likelihood of a message whose views are independent given the class.

    Parameters
    ----------
    n_classes : int
        Number of classes K.
    likelihoods : mapping of str to Likelihood
        A fitted event model for each view: text, facts, measurements.

    Notes
    -----
    .. math:: \log P(x \mid c) = \sum_v \log P(x_v \mid c)

    A view that the message does not have, or that has no event model, adds
    nothing.

    Examples
    --------
    >>> from app.bayes.models.discrete import Multinomial
    >>> from app.bayes.sparse import SparseCounts
    >>> words = Multinomial()
    >>> x = SparseCounts.of({1: 1})
    >>> likelihood = words.estimate(words.observe(x, label=0, n_classes=2))
    >>> both = Product(2, {"words": likelihood, "headers": likelihood})
    >>> views = {"words": x, "headers": x}
    >>> bool((both(views) == 2 * likelihood(x)).all())
    True
    """

    n_classes: int
    likelihoods: Mapping[str, Likelihood[Any]]

    def __call__(self, views: Mapping[str, Any], /) -> Floats:
        """Return ``log P(x | c)`` for each class, shape (K,).  Unit: nats."""
        total = np.zeros(self.n_classes)
        for name, model in self.likelihoods.items():
            if name in views:
                total += model(views[name])
        return total

    def contributions(self, views: Mapping[str, Any], /) -> dict[str, Contributions]:
        """Return the contributions of each view that the message has."""
        return {
            name: model.contributions(views[name])
            for name, model in self.likelihoods.items()
            if name in views
        }
