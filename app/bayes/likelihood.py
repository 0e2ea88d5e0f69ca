"""What do all event models answer, whatever they count?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

X_contra = TypeVar("X_contra", contravariant=True)
"""What a message is to an event model: sparse counts, measurements, ..."""


@dataclass(frozen=True, slots=True)
class Contributions:
    """A log-likelihood, taken apart.

    Parameters
    ----------
    constant : ndarray of float64, shape (K,)
        What every message gets, whatever it holds.  Unit: nats.
    features : ndarray of float64, shape (n, K)
        What each feature of the message adds; 0 where it was never seen.
        Unit: nats.
    seen : ndarray of bool, shape (n,)
        Whether training saw the feature, in any class.

    Notes
    -----
    ``constant + features.sum(axis=0)`` is the log-likelihood.
    """

    constant: NDArray[np.float64]
    features: NDArray[np.float64]
    seen: NDArray[np.bool_]


class Likelihood(Protocol[X_contra]):
    """A fitted event model: the log-likelihood of a message in each class."""

    def __call__(self, x: X_contra, /) -> NDArray[np.float64]:
        """Return ``log P(x | c)`` for each class, shape (K,).  Unit: nats."""
        ...

    def batch(self, xs: Sequence[X_contra], /) -> NDArray[np.float64]:
        """Return the log-likelihoods of M messages, shape (M, K).

        Each row is what a call with that message alone returns, bit for bit.
        """
        ...

    def contributions(self, x: X_contra, /) -> Contributions:
        """Return the log-likelihood taken apart by feature."""
        ...
