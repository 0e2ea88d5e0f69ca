"""How likely is each class before anything is read?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from app.bayes.smoothing import Lidstone, NoSmoothing
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Prior(Protocol):
    """A rule for the class prior."""

    def log_prior(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``log P(c)`` for each class.

        Parameters
        ----------
        messages : ndarray of int64, shape (K,)
            Training messages per class.

        Returns
        -------
        ndarray of float64, shape (K,)
            Unit: nats; ``-inf`` for a probability of zero.
        """
        ...


@dataclass(frozen=True, slots=True)
class FittedPrior:
    """The plain share of each class; uniform before the first message.

    A class with no message yet has probability zero once another has one:
    `SmoothedPrior` gives it a chance.

    Examples
    --------
    >>> np.exp(FittedPrior().log_prior(np.array([3, 1]))).tolist()
    [0.75, 0.25]
    """

    def log_prior(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``log(n_c / n)``, shape (K,)."""
        total = messages.sum()
        if total == 0:
            return UniformPrior().log_prior(messages)
        return NoSmoothing().log_probability(messages, total, messages.size)


@dataclass(frozen=True, slots=True)
class SmoothedPrior:
    """The share of each class, after `alpha` imagined messages in each.

    Parameters
    ----------
    alpha : float, default 1.0
        Pseudo-count.  Unit: messages.

    Raises
    ------
    InvalidObservation
        If `alpha` is not in [1e-100, 1e100].

    Examples
    --------
    >>> np.exp(SmoothedPrior(1.0).log_prior(np.array([2, 0]))).tolist()
    [0.75, 0.25]
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a pseudo-count that is none."""
        Lidstone(self.alpha)

    def log_prior(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``log((n_c + alpha) / (n + alpha K))``, shape (K,)."""
        return Lidstone(self.alpha).log_probability(
            messages, messages.sum(), messages.size
        )


@dataclass(frozen=True, slots=True)
class UniformPrior:
    """All classes alike, whatever was learned.

    Examples
    --------
    >>> np.exp(UniformPrior().log_prior(np.array([3, 1]))).tolist()
    [0.5, 0.5]
    """

    def log_prior(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``-log K`` for each class, shape (K,)."""
        return np.full(messages.size, -math.log(messages.size))


@dataclass(frozen=True, slots=True)
class FixedPrior:
    """Probabilities that the operator states.

    Parameters
    ----------
    probabilities : tuple of float
        One per class; not negative, and their sum is 1.

    Raises
    ------
    InvalidObservation
        If they are no probabilities.

    Examples
    --------
    >>> np.exp(FixedPrior((0.25, 0.75)).log_prior(np.array([3, 1]))).tolist()
    [0.25, 0.75]
    """

    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what is no distribution."""
        total = math.fsum(self.probabilities)
        # 1e-9: what thirds and sevenths written with ten digits may be off.
        if not (
            all(p >= 0 for p in self.probabilities)
            and math.isclose(total, 1.0, abs_tol=1e-9)
        ):
            msg = (
                "prior probabilities must not be negative and must sum to 1, "
                f"got {self.probabilities!r}"
            )
            raise InvalidObservation(msg)

    def log_prior(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the logs of the stated probabilities, shape (K,).

        Raises
        ------
        InvalidObservation
            If there are more or fewer classes than probabilities.
        """
        if messages.size != len(self.probabilities):
            msg = (
                f"the prior has {len(self.probabilities)} probabilities, "
                f"but there are {messages.size} classes"
            )
            raise InvalidObservation(msg)
        logs = np.full(messages.size, -np.inf)
        stated = np.array(self.probabilities)
        np.log(stated, where=stated > 0, out=logs)
        return logs
