"""Likelihood: the interface of every event model, and the product of several views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from app.bayes.batch import join
from app.bayes.sparse import Sparse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.bayes.batch import Joined

X = TypeVar("X", bound=Sparse)
"""What a message is to an event model: sparse counts, measurements, ..."""


@dataclass(frozen=True, slots=True)
class Contributions:
    """The log-likelihoods of M messages, taken apart; their features in one row.

    Parameters
    ----------
    constants : ndarray of float64, shape (M, K)
        What each message gets, whatever its features add.  Unit: nats.
    terms : ndarray of float64, shape (K, N)
        What each feature adds; 0 where it was never seen.  Unit: nats.
    seen : ndarray of bool, shape (N,)
        Whether training saw the feature, in any class.
    bounds : list of int, length M + 1
        Message *m* has the features ``bounds[m]:bounds[m + 1]``.

    Notes
    -----
    For one message, ``constant + features.sum(axis=0)`` is the log-likelihood.
    """

    constants: NDArray[np.float64]
    terms: NDArray[np.float64]
    seen: NDArray[np.bool_]
    bounds: list[int]

    @classmethod
    def of_terms(
        cls, terms: NDArray[np.float64], seen: NDArray[np.bool_], bounds: list[int]
    ) -> Contributions:
        """Return contributions without constants."""
        return cls(np.zeros((len(bounds) - 1, terms.shape[0])), terms, seen, bounds)

    @property
    def constant(self) -> NDArray[np.float64]:
        """The constant of the first message, shape (K,).  Unit: nats."""
        constant: NDArray[np.float64] = self.constants[0]
        return constant

    @property
    def features(self) -> NDArray[np.float64]:
        """What each feature adds to each class, shape (N, K).  Unit: nats."""
        return self.terms.T

    def log_likelihoods(self) -> NDArray[np.float64]:
        """Return ``log P(x | c)`` of each message, shape (M, K).  Unit: nats."""
        return self.constants + sums(self.terms, self.bounds)

    def sizes(self) -> list[int]:
        """Return how many features each message has."""
        return [end - start for start, end in pairwise(self.bounds)]

    def known(self) -> list[int]:
        """Return how many of them training has seen."""
        return [
            int(np.count_nonzero(self.seen[start:end]))
            for start, end in pairwise(self.bounds)
        ]

    def of(self, m: int) -> Contributions:
        """Return the contributions of message `m` alone."""
        its = slice(self.bounds[m], self.bounds[m + 1])
        return Contributions(
            self.constants[m : m + 1],
            self.terms[:, its],
            self.seen[its],
            [0, its.stop - its.start],
        )


class Likelihood(ABC, Generic[X]):
    """A fitted event model: the log-likelihood of a message in each class."""

    __slots__ = ()

    @abstractmethod
    def decompose(self, x: Joined, /) -> Contributions:
        """Return the log-likelihoods of M messages, taken apart by feature.

        One look-up for all of them; each message gets what it would get alone,
        bit for bit.
        """

    def __call__(self, x: X, /) -> NDArray[np.float64]:
        """Return ``log P(x | c)`` for each class, shape (K,).  Unit: nats."""
        likelihood: NDArray[np.float64] = self.batch((x,))[0]
        return likelihood

    def batch(self, xs: Sequence[X], /) -> NDArray[np.float64]:
        """Return the log-likelihoods of M messages, shape (M, K).

        Each row is what a call with that message alone returns, bit for bit.
        """
        return self.decompose(join(xs)).log_likelihoods()

    def contributions(self, x: X, /) -> Contributions:
        """Return the log-likelihood of one message, taken apart by feature."""
        return self.decompose(join((x,)))


def sums(terms: NDArray[np.float64], bounds: Sequence[int]) -> NDArray[np.float64]:
    """Return the sum of some terms over each message, shape (M, K).

    Parameters
    ----------
    terms : ndarray of float64, shape (K, N)
        What each feature adds.
    bounds : sequence of int, length M + 1
        Message *m* has the features ``bounds[m]:bounds[m + 1]``.

    Examples
    --------
    >>> sums(np.array([[1.0, 2.0, 4.0], [0.5, 0.5, 0.5]]), [0, 2, 3]).tolist()
    [[3.0, 1.0], [4.0, 0.5]]
    """
    found = np.empty((len(bounds) - 1, terms.shape[0]))
    # Not np.add.reduceat: it adds from left to right, and its error grows with
    # the number of terms; that of the pairwise sum along a contiguous axis grows
    # with the logarithm of it.
    for m, (start, end) in enumerate(pairwise(bounds)):
        np.add.reduce(terms[:, start:end], axis=1, out=found[m])
    return found


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
    >>> from app.bayes.models.multinomial import Multinomial
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

    def __call__(self, views: Mapping[str, Any], /) -> NDArray[np.float64]:
        """Return ``log P(x | c)`` for each class, shape (K,).  Unit: nats."""
        total = np.zeros(self.n_classes)
        for name, likelihood in self.likelihoods.items():
            if name in views:
                total += likelihood(views[name])
        return total

    def batch(self, messages: Sequence[Mapping[str, Any]], /) -> NDArray[np.float64]:
        """Return the log-likelihoods of M messages, shape (M, K).

        Each row is what a call with that message alone returns, bit for bit.
        """
        total = np.zeros((len(messages), self.n_classes))
        for name, likelihood in self.likelihoods.items():
            having = [m for m, views in enumerate(messages) if name in views]
            total[having] += likelihood.batch([messages[m][name] for m in having])
        return total

    def contributions(self, views: Mapping[str, Any], /) -> dict[str, Contributions]:
        """Return the contributions of each view that the message has."""
        return {
            name: likelihood.contributions(views[name])
            for name, likelihood in self.likelihoods.items()
            if name in views
        }
