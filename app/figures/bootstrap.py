"""Bootstrap: intervals of figures over resampled messages.

Contract of this file: samples are a function of the seed and the numbers of ham and
spam.  So two filters that scored the same messages are measured with the same seed on
the same samples, and the differences of their replicates are a paired bootstrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.figures.metrics import Errors, roca_pct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


RESAMPLES: Final = 1000
"""Enough for the ends of a 95 % interval (Efron and Tibshirani, section 14.2)."""


def interval(replicates: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the 2.5th and the 97.5th percentile; None if the figure is undefined.

    Parameters
    ----------
    replicates : ndarray of float64, shape (resamples,)
        The figure of each sample, or the difference of two.

    Returns
    -------
    (float, float) or None
        The 95 % percentile interval [1]_.

    References
    ----------
    .. [1] B. Efron and R. J. Tibshirani, *An Introduction to the Bootstrap*,
       1993, section 13.3.

    Examples
    --------
    >>> scores = np.array([-3.0, -2.0, 1.0, -1.0, 2.0, 3.0])
    >>> gold = np.array([False, False, False, True, True, True])
    >>> low, high = interval(roca_replicates(scores, gold, seed=1))
    >>> low <= roca_pct(scores, gold) <= high
    True
    """
    if not replicates.size or np.isnan(replicates).any():
        return None
    low, high = np.percentile(replicates, (2.5, 97.5)).tolist()
    return low, high


def roca_replicates(
    log_odds: NDArray[np.float64],
    is_spam: NDArray[np.bool_],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> NDArray[np.float64]:
    r"""Return 1-ROCA % of each sample.

    Parameters
    ----------
    log_odds : ndarray of float64, shape (n,)
        Scores.  Unit: nats.
    is_spam : ndarray of bool, shape (n,)
        Gold labels.
    seed : int
        Seed of the samples.
    resamples : int, default RESAMPLES
        How many samples are drawn.

    Returns
    -------
    ndarray of float64, shape (resamples,)
        NaN if there is no ham or no spam.

    Raises
    ------
    InvalidObservation
        If the shapes differ or a score is not a number.

    Notes
    -----
    The scores are sorted once.  A sample is the number of times that each message
    was drawn; its wrongly ranked pairs are a sum over the distinct scores,
    :math:`\sum_g h_g (s_{<g} + s_g / 2)`, with :math:`h_g` ham and :math:`s_g` spam
    at the *g*-th score and :math:`s_{<g}` spam below it, which costs O(n).
    """
    if roca_pct(log_odds, is_spam) is None:
        return np.full(resamples, np.nan)
    groups = np.unique(log_odds, return_inverse=True)[1].reshape(-1)
    ham, spam = groups[~is_spam], groups[is_spam]
    distinct = int(groups.max()) + 1
    wrong = []
    for drawn in _samples(ham, spam, seed=seed, resamples=resamples):
        h, s = (np.bincount(side, minlength=distinct) for side in drawn)
        below = np.cumsum(s) - s
        # Twice the pairs ranked wrongly, in integers.
        wrong.append(h @ (2 * below + s))
    return 100.0 * np.array(wrong) / (2 * ham.size * spam.size)


def lam_replicates(
    decided_spam: NDArray[np.bool_],
    is_spam: NDArray[np.bool_],
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> NDArray[np.float64]:
    """Return lam % of each sample (`app.figures.metrics.Errors.lam_pct`).

    Parameters
    ----------
    decided_spam : ndarray of bool, shape (n,)
        Decisions.
    is_spam : ndarray of bool, shape (n,)
        Gold labels.
    seed : int
        Seed of the samples.
    resamples : int, default RESAMPLES
        How many samples are drawn.

    Returns
    -------
    ndarray of float64, shape (resamples,)
        NaN if there is no ham or no spam.

    Raises
    ------
    InvalidObservation
        If the shapes differ.
    """
    if Errors.of(is_spam, decided_spam).lam_pct is None:
        return np.full(resamples, np.nan)
    lost, missed = decided_spam[~is_spam], ~decided_spam[is_spam]
    samples = _samples(lost, missed, seed=seed, resamples=resamples)
    errors = np.array([[h.sum(), s.sum()] for h, s in samples])
    messages = np.array([lost.size, missed.size])
    # Like the metric: half an error away from none and from all.
    kept = np.clip(errors, 0.5, messages - 0.5)
    logits = np.log(kept / (messages - kept))
    return np.asarray(100.0 / (1.0 + np.exp(-logits.mean(axis=1))))


def _samples(
    ham: NDArray[Any], spam: NDArray[Any], *, seed: int, resamples: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield samples with the same numbers of ham and spam."""
    random = np.random.default_rng(seed)
    for _ in range(resamples):
        yield (
            ham[random.integers(0, ham.size, ham.size)],
            spam[random.integers(0, spam.size, spam.size)],
        )
