"""How many features of a class are in one of its messages, in two, in three?

The frequency spectrum of its vocabulary [1]_, by document frequency: what the
Bernoulli model has to know of all the features that a message does not have.

.. [1] R. H. Baayen, *Word Frequency Distributions*, Kluwer, 2001, chapter 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from app.bayes.rows import first_of_each

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEFT_AND_REACHED: Final = np.array([-1, 1])
"""What a feature that moves adds to its old frequency, and to its new one."""


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The frequency spectrum of one class.

    Parameters
    ----------
    frequencies : ndarray of int64, shape (n,)
        The distinct document frequencies, strictly increasing and at least 1: the
        features that the class has never seen are the rest of the vocabulary.
    features : ndarray of int64, shape (n,)
        Number of features that are in exactly so many messages, at least 1.

    Examples
    --------
    >>> spectrum = Spectrum.of(np.array([2, 0, 1, 2]))
    >>> spectrum.frequencies.tolist(), spectrum.features.tolist()
    ([1, 2], [1, 2])
    >>> spectrum.moved(np.array([2, 0]), np.array([1, 1])) == Spectrum.of(
    ...     np.array([3, 1, 1, 2])
    ... )
    True
    """

    frequencies: NDArray[np.int64]
    features: NDArray[np.int64]

    @classmethod
    def of(cls, documents: NDArray[np.int64]) -> Self:
        """Return the spectrum of the document frequency of each feature, shape (V,)."""
        frequencies, features = np.unique(documents[documents > 0], return_counts=True)
        return cls(frequencies, features.astype(np.int64, copy=False))

    @property
    def size(self) -> int:
        """Number of distinct document frequencies."""
        return int(self.frequencies.size)

    @property
    def largest(self) -> int:
        """The largest document frequency, 0 where there is no feature."""
        return int(self.frequencies[-1]) if self.frequencies.size else 0

    def moved(self, old: NDArray[np.int64], change: NDArray[np.int64]) -> Spectrum:
        """Return the spectrum after the frequencies of some features changed.

        Parameters
        ----------
        old : ndarray of int64, shape (n,)
            Their document frequencies before.
        change : ndarray of int64, shape (n,)
            What is added to each; no sum is negative.
        """
        moving = change.nonzero()[0]
        if not moving.size:
            return self
        before = old.take(moving)
        frequencies = np.concatenate(
            (self.frequencies, before, before + change.take(moving))
        )
        amounts = np.concatenate((self.features, _LEFT_AND_REACHED.repeat(moving.size)))
        # Stable, because it finds the order that is there: 1 µs instead of 4 for 350.
        order = frequencies.argsort(kind="stable")
        frequencies = frequencies.take(order)
        first = first_of_each(frequencies).nonzero()[0]
        frequencies = frequencies.take(first)
        features = np.add.reduceat(amounts.take(order), first)
        if not frequencies[0]:
            features[0] = 0
        kept = features.nonzero()[0]
        return Spectrum(frequencies.take(kept), features.take(kept))

    def __eq__(self, other: object) -> bool:
        """Compare exactly, frequency by frequency."""
        if not isinstance(other, Spectrum):
            return NotImplemented
        return np.array_equal(self.frequencies, other.frequencies) and np.array_equal(
            self.features, other.features
        )

    # Equal spectra are equal values, but arrays are mutable: no hash.
    __hash__ = None  # type: ignore[assignment]
