"""Calibration: reliability, its summary, and the Brier score.

A calibrated filter is right about 80 of 100 messages to which it assigns 80 %.
A ranking does not depend on calibration: 1-ROCA stays the same however overconfident
the scores are (`app.figures.metrics`).  Throughout, `is_spam` has the gold labels of
*n* messages, shape (n,), and `probability` their probabilities of spam, shape (n,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Precedent: Guo et al. (2017) and most later papers use 15.
BINS: Final = 15
"""Default number of groups of messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """A group of messages with neighbouring probabilities.

    Parameters
    ----------
    messages, spam : int
        Number of messages, and of spam among them.
    low, high : float
        Smallest and largest of their probabilities.
    mean : float
        Mean of their probabilities: the predicted share of spam.
    """

    messages: int
    spam: int
    low: float
    high: float
    mean: float

    @property
    def share(self) -> float:
        """The actual share of spam."""
        return self.spam / self.messages


def reliability(
    is_spam: NDArray[np.bool_], probability: NDArray[np.float64], *, bins: int = BINS
) -> tuple[Bin, ...]:
    """Return the predicted and the actual shares of spam, in bins of equal size.

    Parameters
    ----------
    bins : int, default 15
        How many bins at most.

    Returns
    -------
    tuple of Bin
        In rising order of probability; empty without messages.  Messages with
        equal probabilities are in one bin, chosen by the middle of their ranks,
        so there are fewer bins if many probabilities are equal.

    Notes
    -----
    Bins of equal mass, not of equal width: nearly all mail gets less than 1 % or
    more than 99 %, so eight of ten bins of equal width would hold a few dozen
    messages each [1]_.

    References
    ----------
    .. [1] K. Nguyen and B. O'Connor, "Posterior calibration and exploratory
       analysis for natural language processing models", *EMNLP*, 2015,
       section 3.

    Examples
    --------
    >>> p = np.array([0.0, 0.2, 0.8, 0.8])
    >>> [
    ...     (each.messages, round(each.mean, 2), each.share)
    ...     for each in reliability(np.array([False, False, True, False]), p, bins=2)
    ... ]
    [(2, 0.1, 0.0), (2, 0.8, 0.5)]
    """
    ordered = np.sort(probability)
    # Twice the middle rank of equal probabilities.  With their lowest rank, a large
    # group would share the bin of the few messages below it.
    middle = np.searchsorted(ordered, probability, "left")
    middle += np.searchsorted(ordered, probability, "right") - 1
    owner = middle * bins // max(1, 2 * probability.size)
    held = [owner == number for number in range(bins)]
    groups = [(is_spam[members], probability[members]) for members in held]
    return tuple(
        Bin(
            messages=stated.size,
            spam=int(gold.sum()),
            low=float(stated.min()),
            high=float(stated.max()),
            # The mean of equal floats may be rounded to a value just beside them.
            mean=float(np.clip(stated.mean(), stated.min(), stated.max())),
        )
        for gold, stated in groups
        if stated.size
    )


def expected_calibration_error(
    is_spam: NDArray[np.bool_], probability: NDArray[np.float64]
) -> float | None:
    r"""Return the average distance between the predicted and the actual shares.

    Returns
    -------
    float or None
        From 0 to 1; None without messages.

    Notes
    -----
    .. math:: \sum_b \frac{n_b}{n} \,
              \Bigl| \bar p_b - \frac{s_b}{n_b} \Bigr|

    with :math:`\bar p_b` the mean probability of bin *b*, :math:`n_b` its
    messages and :math:`s_b` its spam [1]_, over the bins of `reliability`.  It
    is biased upwards, because chance moves every bin: a perfectly calibrated
    filter gets 0.004 on six thousand messages with log-odds around -6 and 5,
    each with a standard deviation of 2.5 (mean of 200 simulations).

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of
       modern neural networks", *ICML*, 2017, section 2, equation 3.

    Examples
    --------
    >>> is_spam = np.array([False, False, True, True])
    >>> expected_calibration_error(is_spam, np.array([0.25, 0.25, 0.75, 0.75]))
    0.25
    """
    groups = reliability(is_spam, probability)
    if not groups:
        return None
    away = sum(each.messages * abs(each.mean - each.share) for each in groups)
    return away / is_spam.size


def brier(is_spam: NDArray[np.bool_], probability: NDArray[np.float64]) -> float | None:
    """Return the mean square of the difference between probability and truth.

    Returns
    -------
    float or None
        From 0 to 1; 0.25 for a filter that always answers one half; None without
        messages.  The score is proper: its expectation is best for a filter that
        states its true belief [1]_.

    References
    ----------
    .. [1] G. W. Brier, "Verification of forecasts expressed in terms of
       probability", *Monthly Weather Review* 78 (1), 1950, 1-3.

    Examples
    --------
    >>> brier(np.array([True, False]), np.array([0.5, 0.0]))
    0.125
    """
    if not probability.size:
        return None
    return float(np.square(probability - is_spam).mean())
