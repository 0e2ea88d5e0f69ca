"""How sure is a figure? Its interval over resampled messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.evaluation.metrics import roca_pct

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES: Final = 1000
"""Enough for the ends of a 95 % interval (Efron and Tibshirani, section 14.2)."""

# Resamples drawn at once: 64 of 5,000 messages are 2.6 MB of counts.
_AT_ONCE: Final = 64


def roca_interval_pct(
    log_odds: NDArray[np.float64],
    is_spam: NDArray[np.bool_],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> tuple[float, float] | None:
    r"""Return a 95 % interval of 1-ROCA %.

    Parameters
    ----------
    log_odds : ndarray of float64, shape (n,)
        Scores.  Unit: nats.
    is_spam : ndarray of bool, shape (n,)
        Gold labels.
    seed : int
        The same messages with the same seed have the same interval.
    resamples : int, default RESAMPLES
        How many samples are drawn.

    Returns
    -------
    (float, float) or None
        The 2.5th and the 97.5th percentile of 1-ROCA % over samples of as many
        ham and as many spam, drawn with replacement [1]_.  None where there is
        no ham or no spam.

    Raises
    ------
    InvalidObservation
        If the shapes differ or a score is not a number.

    Notes
    -----
    The scores are sorted once.  A sample is how often each message was drawn;
    its area under the curve is a sum over the distinct scores,
    :math:`\sum_g h_g (s_{<g} + s_g / 2)` for the ham :math:`h_g` that have the
    *g*-th score and the spam :math:`s_{<g}` below it, which costs O(n).

    References
    ----------
    .. [1] B. Efron and R. J. Tibshirani, *An Introduction to the Bootstrap*,
       1993, section 13.3 (the percentile interval).

    Examples
    --------
    >>> scores = np.array([-3.0, -2.0, 1.0, -1.0, 2.0, 3.0])
    >>> gold = np.array([False, False, False, True, True, True])
    >>> low, high = roca_interval_pct(scores, gold, seed=1)
    >>> low <= roca_pct(scores, gold) <= high
    True
    """
    if roca_pct(log_odds, is_spam) is None:
        return None
    groups = np.unique(log_odds, return_inverse=True)[1].reshape(-1)
    ham, spam = groups[~is_spam], groups[is_spam]
    distinct = int(groups.max()) + 1
    random = np.random.default_rng(seed)
    figures = []
    for start in range(0, resamples, _AT_ONCE):
        samples = min(_AT_ONCE, resamples - start)
        h = _drawn(random, ham, samples=samples, distinct=distinct)
        s = _drawn(random, spam, samples=samples, distinct=distinct)
        below = np.cumsum(s, axis=1) - s
        # Twice the pairs ranked wrongly, in integers.
        wrong = (h * (2 * below + s)).sum(axis=1)
        figures.append(100.0 * wrong / (2 * ham.size * spam.size))
    low, high = np.percentile(np.concatenate(figures), (2.5, 97.5)).tolist()
    return low, high


def _drawn(
    random: np.random.Generator,
    groups: NDArray[np.intp],
    *,
    samples: int,
    distinct: int,
) -> NDArray[np.int64]:
    """Return how often each distinct score was drawn, shape (samples, distinct)."""
    drawn = groups[random.integers(0, groups.size, size=(samples, groups.size))]
    drawn += distinct * np.arange(samples)[:, np.newaxis]
    counts = np.bincount(drawn.ravel(), minlength=samples * distinct)
    return counts.reshape(samples, distinct)
