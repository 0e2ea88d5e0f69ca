"""Bootstrap: intervals of figures over resampled messages.

Contract of this file: samples are a function of the seed and the numbers of ham and
spam alone.  So two filters that scored the same messages with the same seed are
measured on the same samples, and the differences of their replicates are those of a
paired bootstrap.
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
# Messages drawn at once, whatever their number: some 20 MB of arrays. 64 samples
# at once of 100,000 messages took 305 MB.
_AT_ONCE: Final = 320_000


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
    return interval(roca_replicates(log_odds, is_spam, seed=seed, resamples=resamples))


def interval(replicates: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the 2.5th and the 97.5th percentile; None where there is no figure.

    Parameters
    ----------
    replicates : ndarray of float64, shape (resamples,)
        The figure of each sample, or the difference of two.
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
        NaN where there is no ham or no spam.

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
    """
    if roca_pct(log_odds, is_spam) is None:
        return np.full(resamples, np.nan)
    groups = np.unique(log_odds, return_inverse=True)[1].reshape(-1)
    ham, spam = groups[~is_spam], groups[is_spam]
    distinct = int(groups.max()) + 1
    figures = []
    for drawn_ham, drawn_spam in _samples(ham, spam, seed=seed, resamples=resamples):
        h = _counted(drawn_ham, distinct=distinct)
        s = _counted(drawn_spam, distinct=distinct)
        below = np.cumsum(s, axis=1) - s
        # Twice the pairs ranked wrongly, in integers.
        wrong = (h * (2 * below + s)).sum(axis=1)
        figures.append(100.0 * wrong / (2 * ham.size * spam.size))
    return np.concatenate(figures)


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
        NaN where there is no ham or no spam.

    Raises
    ------
    InvalidObservation
        If the shapes differ.
    """
    if Errors.of(is_spam, decided_spam).lam_pct is None:
        return np.full(resamples, np.nan)
    lost, missed = decided_spam[~is_spam], ~decided_spam[is_spam]
    figures = []
    for drawn in _samples(lost, missed, seed=seed, resamples=resamples):
        logits = []
        for errors in drawn:
            messages = errors.shape[1]
            # As the metric: half an error away from none and from all.
            kept = np.clip(errors.sum(axis=1), 0.5, messages - 0.5)
            logits.append(np.log(kept / (messages - kept)))
        figures.append(100.0 / (1.0 + np.exp(-np.mean(logits, axis=0))))
    return np.concatenate(figures)


def _samples(
    ham: NDArray[Any], spam: NDArray[Any], *, seed: int, resamples: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield samples of as many ham and as many spam, a row each, some at a time."""
    random = np.random.default_rng(seed)
    rows = max(1, _AT_ONCE // (ham.size + spam.size))
    for start in range(0, resamples, rows):
        # Sample by sample, so that the numbers do not depend on `rows`.
        drawn = [
            (
                ham[random.integers(0, ham.size, ham.size)],
                spam[random.integers(0, spam.size, spam.size)],
            )
            for _ in range(min(rows, resamples - start))
        ]
        yield np.stack([h for h, _ in drawn]), np.stack([s for _, s in drawn])


def _counted(drawn: NDArray[np.intp], *, distinct: int) -> NDArray[np.int64]:
    """Return how often each distinct score was drawn, shape (samples, distinct)."""
    samples = drawn.shape[0]
    drawn += distinct * np.arange(samples)[:, np.newaxis]
    counts = np.bincount(drawn.ravel(), minlength=samples * distinct)
    return counts.reshape(samples, distinct)
