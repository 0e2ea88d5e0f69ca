"""Smoothing: log-probabilities from counts, zeros and small classes included.

Contract of this file: smoothing is a choice made when a likelihood is
estimated.  It is never part of the statistics, so one table of counts serves
every choice, and learning stays exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.errors import InvalidObservation
from app.kernels.likelihood import ADDED, REPLACED

if TYPE_CHECKING:
    from app.kernels import Floats, Ints


# Between these bounds (count + alpha) / (total + alpha * n_values) is a normal
# double for all 64-bit counts and up to 2**63 values: it neither underflows
# nor turns into inf / inf.
SMALLEST_ALPHA: Final = 1e-100
LARGEST_ALPHA: Final = 1e100


@dataclass(frozen=True, slots=True)
class Lidstone:
    r"""Add `alpha` to every count; Laplace's rule if it is 1.

    Parameters
    ----------
    alpha : float, default 1.0
        Pseudo-count.  Unit: counts.

    Raises
    ------
    InvalidObservation
        If `alpha` is not in [1e-100, 1e100].

    Notes
    -----
    The posterior mean of a multinomial parameter under a symmetric Dirichlet
    prior [1]_:

    .. math:: \hat\theta = \frac{N + \alpha}{N_\bullet + \alpha V}

    References
    ----------
    .. [1] C. D. Manning, P. Raghavan and H. Schütze, *Introduction to
       Information Retrieval*, Cambridge University Press, 2008, section 13.2.

    Examples
    --------
    >>> counts, total = np.array([0, 3]), np.array(3)
    >>> np.exp(Lidstone(1.0).log_probability(counts, total, 2)).round(3).tolist()
    [0.2, 0.8]
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        """Refuse an invalid pseudo-count."""
        if not SMALLEST_ALPHA <= self.alpha <= LARGEST_ALPHA:
            raise InvalidObservation(
                f"alpha must be between {SMALLEST_ALPHA:g} and {LARGEST_ALPHA:g}, "
                f"got {self.alpha!r}"
            )

    def log_probability(self, count: Ints, total: Ints, n_values: int | Ints) -> Floats:
        """Return ``log((count + alpha) / (total + alpha * n_values))``.

        Parameters
        ----------
        count : ndarray of int64
            How often each value was drawn.
        total : ndarray of int64
            Number of draws; broadcasts against `count`.
        n_values : int or ndarray of int64
            Number of values that a draw can have, at least 1; broadcasts
            against `count`.

        Returns
        -------
        ndarray of float64
            In the shape of the three together.  Unit: nats.
        """
        # The log of a ratio, not a difference of logs: the Bernoulli model
        # sums millions of probabilities close to 1, and two logs of large
        # numbers would each bring a rounding error of their own size.
        # Any, because numpy's stubs give up on unions of shapes.
        ratio: Any = (count + self.alpha) / (total + self.alpha * n_values)
        logs: Floats = np.log(ratio)
        return logs

    @property
    def rule(self) -> tuple[int, float]:
        """The rule, and the pseudo-count (`app.kernels.likelihood`)."""
        return ADDED, self.alpha


class _Replaced:
    """Shares of the counts, with `epsilon` in place of zero."""

    __slots__ = ()
    epsilon: float

    def log_probability(self, count: Ints, total: Ints, n_values: int | Ints) -> Floats:
        """Return ``log(count / total)``, and ``log(epsilon)`` for a count of 0."""
        counts, totals, _ = np.broadcast_arrays(count, total, n_values)
        zero = math.log(self.epsilon) if self.epsilon else -math.inf
        logs = np.full(counts.shape, zero)
        # A positive count has a positive total, so nothing is divided by zero.
        drawn = counts > 0
        np.log(np.divide(counts, totals, where=drawn, out=logs), where=drawn, out=logs)
        return logs

    @property
    def rule(self) -> tuple[int, float]:
        """The rule, and the replacement of zero."""
        return REPLACED, self.epsilon


LAPLACE: Final = Lidstone(1.0)
"""The rule of succession: one message more for each value."""


@dataclass(frozen=True, slots=True)
class Epsilon(_Replaced):
    """Replace a probability of zero by `epsilon`, without renormalisation [1]_.

    Parameters
    ----------
    epsilon : float
        Replacement of zero.  Unit: probability.

    Raises
    ------
    InvalidObservation
        If `epsilon` is not strictly between 0 and 1.

    References
    ----------
    .. [1] L. Rashidi and L. Frermann, *COMP90049 Introduction to Machine
       Learning*, University of Melbourne, 2022, lecture 6.

    Examples
    --------
    >>> counts, total = np.array([0, 3]), np.array(3)
    >>> np.exp(Epsilon(1e-6).log_probability(counts, total, 2)).round(9).tolist()
    [1e-06, 1.0]
    """

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse values outside the open interval from 0 to 1."""
        if not 0 < self.epsilon < 1:
            msg = f"epsilon must be strictly between 0 and 1, got {self.epsilon!r}"
            raise InvalidObservation(msg)


@dataclass(frozen=True, slots=True)
class NoSmoothing(_Replaced):
    """Maximum likelihood: a value never seen in a class is impossible there.

    A class without any draw makes no value possible.

    Examples
    --------
    >>> counts, total = np.array([0, 3]), np.array(3)
    >>> NoSmoothing().log_probability(counts, total, 2).tolist()
    [-inf, 0.0]
    """

    epsilon: float = field(default=0.0, init=False, repr=False)


Smoothing = Lidstone | Epsilon | NoSmoothing
"""A rule that turns counts into log-probabilities."""


@dataclass(frozen=True, slots=True)
class Interpolation:
    r"""Mix the estimate of a class with that of all classes together.

    Parameters
    ----------
    messages : float
        Number of messages of a class at which both have the same weight.

    Raises
    ------
    InvalidObservation
        If `messages` is not positive and finite.

    Notes
    -----
    With :math:`n_c` messages in class *c*, *s* = `messages` and *w* for all
    classes together,

    .. math:: P(i \mid c) = \lambda_c \hat\theta_{ci}
        + (1 - \lambda_c) \hat\theta_{wi}, \qquad
        \lambda_c = \frac{n_c}{n_c + s} .

    This is linear interpolation with a collection model [1]_ [2]_.  A class
    without messages has the estimates of all classes together, so while only one
    class has been taught, no feature is evidence.  Nor is a single word ever proof:
    against a class of :math:`n_c` messages with almost none of the text, the
    evidence of a feature is at most about :math:`\log (1 + n_c / s)`, however many
    messages of the other class have it, because
    :math:`P(i \mid c) \ge (1 - \lambda_c) \hat\theta_{wi}`.

    References
    ----------
    .. [1] F. Jelinek and R. L. Mercer, "Interpolated estimation of Markov
       source parameters from sparse data", *Pattern Recognition in Practice*,
       North-Holland, 1980, pages 381-397.
    .. [2] C. Zhai and J. Lafferty, "A study of smoothing methods for language
       models applied to information retrieval", *ACM Transactions on
       Information Systems* 22 (2), 2004, pages 179-214, section 3.

    Examples
    --------
    >>> Interpolation(3.0).weights(np.array([0, 3, 27])).tolist()
    [0.0, 0.5, 0.9]
    """

    messages: float

    def __post_init__(self) -> None:
        """Refuse an invalid number of messages."""
        if not (math.isfinite(self.messages) and self.messages > 0):
            raise InvalidObservation(
                "the number of messages of an interpolation must be positive and "
                f"finite, got {self.messages!r}"
            )

    def weights(self, messages: Ints) -> Floats:
        """Return the weight of each class's own estimate, shape (K,)."""
        # Counts of messages are far below 2**53, so the division is exact enough.
        share: Floats = messages / (messages + self.messages)
        return share
