"""Figures: ROC area and curve, error rates, calibration, intervals, and folds.

The figures of the TREC spam track, in per cent, lower is better for all of
them.  Spam is the positive class throughout: `is_spam` has the gold labels of *n*
messages, shape (n,), and `log_odds` their scores in nats, shape (n,), in the order of
arrival; scores may be infinite.
Intervals are bootstrap intervals: samples are a function of the seed and the numbers
of ham and spam.  So two filters that scored the same messages are measured with the
same seed on the same samples, and the differences of their replicates are a paired
bootstrap.

A calibrated filter is right about 80 of 100 messages to which it assigns 80 %.
A ranking does not depend on calibration: 1-ROCA stays the same however overconfident
the scores are.  `probability` has the probabilities of spam, shape (n,).

An undefined figure (a share of the ham without any ham) is None, never 0: a filter
that was never tried has made no errors, but it has not done well either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from app.kernels import Bools, Floats, Ints


def roca_pct(log_odds: Floats, is_spam: Bools) -> float | None:
    r"""Return 1-ROCA %, the share of (ham, spam) pairs that are ranked wrongly.

    Returns
    -------
    float or None
        100 (1 - area under the ROC curve); a tie between a ham and a spam
        counts half.  None without ham or spam.

    Notes
    -----
    The area under the curve is the Mann-Whitney statistic [1]_, so one sort
    replaces the comparison of all pairs:

    .. math:: 1 - A = \frac{1}{n_h n_s} \sum_{h} \left(
              |\{s: x_s < x_h\}| + \tfrac12 |\{s: x_s = x_h\}| \right).

    References
    ----------
    .. [1] J. A. Hanley and B. J. McNeil, "The meaning and use of the area
       under a receiver operating characteristic (ROC) curve", *Radiology*
       143 (1), 1982, 29-36.

    Examples
    --------
    >>> roca_pct(np.array([-2.0, 0.0, 0.0, 3.0]), np.array([False, True, False, True]))
    12.5
    """
    ham, spam = log_odds[~is_spam], log_odds[is_spam]
    if not ham.size or not spam.size:
        return None
    spam.sort()
    # Half of (below) + (below or equal) is below + half of the ties. Integers are
    # summed first: exact, whatever the order of the messages.
    below = int(np.searchsorted(spam, ham, side="left").sum())
    not_above = int(np.searchsorted(spam, ham, side="right").sum())
    return 100.0 * (below + not_above) / (2 * ham.size * spam.size)


def spam_missed_at(
    log_odds: Floats, is_spam: Bools, *, ham_lost_pct: float
) -> float | None:
    """Return the share of spam missed when `ham_lost_pct` of the ham is lost.

    Parameters
    ----------
    ham_lost_pct : float
        The ham that may be lost, from 0 to below 100.  Unit: per cent.

    Returns
    -------
    float or None
        Unit: per cent of the spam.  None without ham or spam.

    Notes
    -----
    The threshold is the lowest that loses at most the allowed number of ham,
    ``floor(n_ham * ham_lost_pct / 100)``; a message counts as spam if its score
    is *above* it, so a spam that ties with the first ham kept is missed.

    Examples
    --------
    >>> scores = np.array([-1.0, 2.0, 1.0, 3.0])
    >>> gold = np.array([False, False, True, True])
    >>> spam_missed_at(scores, gold, ham_lost_pct=0.1)
    50.0
    >>> spam_missed_at(scores, gold, ham_lost_pct=50.0)
    0.0
    """
    ham, spam = log_odds[~is_spam], log_odds[is_spam]
    if not ham.size or not spam.size:
        return None
    # Trap: 0.7 % of 11,000 is 76.99999999999999 in floats, one ham too few.
    allowed = min(math.floor(ham.size * ham_lost_pct / 100 + 1e-9), ham.size - 1)
    threshold = np.partition(ham, -1 - allowed)[-1 - allowed]
    return 100.0 * int((spam <= threshold).sum()) / spam.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """The number of messages that a filter decided wrongly.

    Parameters
    ----------
    ham, spam : int
        Messages with that gold label.
    ham_lost : int
        Ham that was decided to be spam, at most `ham`.
    spam_missed : int
        Spam that was not decided to be spam, at most `spam`.

    Examples
    --------
    >>> errors = Errors(ham=200, ham_lost=1, spam=100, spam_missed=4)
    >>> errors.ham_lost_pct, errors.spam_missed_pct
    (0.5, 4.0)
    >>> round(errors.lam_pct, 3)
    1.426
    """

    ham: int
    ham_lost: int
    spam: int
    spam_missed: int

    @classmethod
    def of(cls, is_spam: Bools, decided_spam: Bools) -> Errors:
        """Count the errors of decisions (n,) against gold labels (n,)."""
        return cls(
            ham=int((~is_spam).sum()),
            ham_lost=int((~is_spam & decided_spam).sum()),
            spam=int(is_spam.sum()),
            spam_missed=int((is_spam & ~decided_spam).sum()),
        )

    @property
    def messages(self) -> int:
        """Messages that were decided."""
        return self.ham + self.spam

    @property
    def ham_lost_pct(self) -> float | None:
        """Share of the ham that is lost; None without ham."""
        return 100.0 * self.ham_lost / self.ham if self.ham else None

    @property
    def spam_missed_pct(self) -> float | None:
        """Share of the spam that is missed; None without spam."""
        return 100.0 * self.spam_missed / self.spam if self.spam else None

    @property
    def lam_pct(self) -> float | None:
        r"""Logistic average of the two error rates; None without ham or spam.

        Notes
        -----
        :math:`\operatorname{logit}^{-1}((\operatorname{logit} hm +
        \operatorname{logit} sm) / 2)` of the shares of ham lost and spam
        missed [1]_.  A count of errors is moved half an error away from none
        and from all, where the logit would be infinite.

        References
        ----------
        .. [1] G. V. Cormack and T. R. Lynam, "Online supervised spam filter
           evaluation", *ACM Transactions on Information Systems* 25 (3),
           2007, article 11, section 3.
        """
        if not self.ham or not self.spam:
            return None
        mean = (
            _logit(self.ham_lost, self.ham) + _logit(self.spam_missed, self.spam)
        ) / 2
        return 100.0 / (1.0 + math.exp(-mean))


def macro_f1_pct(gold: Ints, predicted: Ints) -> float | None:
    r"""Return the mean of F1 over the labels; higher is better.

    Parameters
    ----------
    gold, predicted : ndarray of int64, shape (n,)
        The true and the assigned label of each message, as numbers.

    Returns
    -------
    float or None
        Unit: per cent.  None without messages.

    Notes
    -----
    F1 of a label is :math:`2 t / (g + s)`, with *g* messages that have the label, *s*
    to which it was assigned, and *t* of both [1]_.  A label with neither does not
    count.

    References
    ----------
    .. [1] C. D. Manning, P. Raghavan and H. Schütze, *Introduction to Information
       Retrieval*, Cambridge University Press, 2008, section 13.6.

    Examples
    --------
    >>> round(macro_f1_pct(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1])), 1)
    38.9
    """
    if not gold.size:
        return None
    sizes = np.bincount(np.append(gold, predicted))
    hits = np.bincount(gold[gold == predicted], minlength=sizes.size)
    there = sizes > 0
    return 100.0 * float((2 * hits[there] / sizes[there]).mean())


def deal(labels: Sequence[Any], *, folds: int, seed: int) -> Ints:
    """Return the fold of each example, with similar shares of the labels in each fold.

    Folds differ by at most one example, for each label and in total.

    Parameters
    ----------
    labels : sequence
        Label of each example.
    folds : int
        Number of folds.
    seed : int
        Seed of the shuffle.

    Examples
    --------
    >>> deal(["ham", "ham", "ham", "ham", "spam", "spam"], folds=2, seed=1).sum()
    np.int64(3)
    """
    # A shuffle and a stable sort by label, dealt in turn.
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    dealt = np.empty(len(labels), np.int64)
    order = sorted(shuffled.tolist(), key=labels.__getitem__)
    dealt[order] = np.arange(len(labels)) % folds
    return dealt


def _logit(errors: int, messages: int) -> float:
    """Return the log-odds of an error rate, half an error away from 0 and 1."""
    kept = min(max(float(errors), 0.5), messages - 0.5)
    return math.log(kept / (messages - kept))


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share [1]_.

    References
    ----------
    .. [1] E. B. Wilson, "Probable inference, the law of succession, and
       statistical inference", *Journal of the American Statistical
       Association* 22, 1927, 209-212.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(0, 100)]
    [0.0, 0.037]
    """
    z = 1.959964
    share = successes / trials
    middle = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    whole = 1 + z * z / trials
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


POINTS: Final = 60
"""Points of a curve over time: more than these are not seen."""


@dataclass(frozen=True, slots=True)
class Roc:
    """The errors at each threshold.

    Parameters
    ----------
    ham_lost_pct, spam_missed_pct : ndarray of float64, shape (m,)
        For each threshold, from the strictest to the laxest.
    """

    ham_lost_pct: Floats
    spam_missed_pct: Floats


def roc(log_odds: Floats, is_spam: Bools) -> Roc | None:
    """Return the errors at every threshold; None without ham or spam.

    Notes
    -----
    There is one point for each distinct score, as the lowest that still counts as
    spam, and one before them at which nothing does.

    Examples
    --------
    >>> curve = roc(np.array([1.0, 2.0, 3.0]), np.array([False, True, True]))
    >>> curve.ham_lost_pct.tolist(), curve.spam_missed_pct.tolist()
    ([0.0, 0.0, 0.0, 100.0], [100.0, 50.0, 0.0, 0.0])
    """
    spam = int(is_spam.sum())
    ham = is_spam.size - spam
    if not spam or not ham:
        return None
    order = np.argsort(-log_odds, kind="stable")
    ranked = log_odds[order]
    last = np.flatnonzero(np.r_[ranked[1:] != ranked[:-1], True])
    caught = np.cumsum(is_spam[order])[last]
    lost = last + 1 - caught
    return Roc(
        np.r_[0.0, 100.0 * lost / ham], np.r_[100.0, 100.0 * (spam - caught) / spam]
    )


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure over time.

    Parameters
    ----------
    messages : tuple of int
        Numbers of messages at which the figure is given.
    values : tuple of float or None
        The figure; None if it is undefined.
    """

    messages: tuple[int, ...]
    values: tuple[float | None, ...]


def learning_curve(log_odds: Floats, is_spam: Bools) -> Curve:
    """Return 1-ROCA % of all messages so far, at several moments.

    Notes
    -----
    Moments are spaced evenly on a logarithmic scale, from the tenth message on:
    a filter learns most from its first messages.
    """
    moments = np.unique(
        np.geomspace(min(10, is_spam.size), is_spam.size, POINTS).astype(int)
    ).tolist()
    return Curve(
        tuple(moments), tuple(roca_pct(log_odds[:n], is_spam[:n]) for n in moments)
    )


def error_over_time(wrong: Bools, counted: Bools, *, window: int) -> Curve:
    """Return the share of errors among the most recent messages of one side.

    Parameters
    ----------
    wrong : ndarray of bool, shape (n,)
        Whether each message was decided wrongly, in the order of arrival.
    counted : ndarray of bool, shape (n,)
        Whether each message is of the side in question.
    window : int
        Number of recent messages of that side.

    Returns
    -------
    Curve
        Unit: per cent.  Until the window is full, among all messages so far; None
        before the first.

    Examples
    --------
    >>> wrong = np.array([True, False, False, False])
    >>> error_over_time(wrong, np.ones(4, bool), window=2)
    Curve(messages=(1, 2, 3, 4), values=(100.0, 50.0, 0.0, 0.0))
    """
    errors = np.r_[0, np.cumsum(wrong & counted)]
    at = np.flatnonzero(counted)
    moments = np.unique(
        np.linspace(1, max(1, counted.size), min(POINTS * 4, counted.size)).astype(int)
    ).tolist()
    values: list[float | None] = []
    for n in moments:
        seen = int(np.searchsorted(at, n))
        among = min(seen, window)
        if not among:
            values.append(None)
            continue
        since = errors[n] - errors[at[seen - among]]
        values.append(100.0 * float(since) / among)
    return Curve(tuple(moments), tuple(values))


RESAMPLES: Final = 1000
"""Enough for the ends of a 95 % interval (Efron and Tibshirani, section 14.2)."""


def interval(replicates: Floats) -> tuple[float, float] | None:
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
    log_odds: Floats,
    is_spam: Bools,
    *,
    seed: int | Sequence[int],
    resamples: int = RESAMPLES,
) -> Floats:
    r"""Return 1-ROCA % of each sample.

    Returns
    -------
    ndarray of float64, shape (resamples,)
        NaN if there is no ham or no spam.

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


def roca_interval(
    log_odds: Floats, is_spam: Bools, *, seed: int | Sequence[int]
) -> tuple[float, float] | None:
    """Return the interval of 1-ROCA %.

    Returns
    -------
    (float, float) or None
        None if there is no ham or no spam, and if no pair is ranked wrongly: then no
        sample has such a pair, which says nothing about further messages.
    """
    if not roca_pct(log_odds, is_spam):
        return None
    return interval(roca_replicates(log_odds, is_spam, seed=seed))


def in_brackets(ends: Sequence[float] | None, digits: int = 3) -> str:
    """Return an interval to stand behind its figure; "" if there is none.

    Examples
    --------
    >>> in_brackets((0.25, 1.0), 2), in_brackets(None)
    (' (0.25 to 1.00)', '')
    """
    if ends is None:
        return ""
    low, high = ends
    return f" ({low:.{digits}f} to {high:.{digits}f})"


def lam_replicates(
    decided_spam: Bools,
    is_spam: Bools,
    *,
    seed: int | Sequence[int],
    resamples: int = RESAMPLES,
) -> Floats:
    """Return lam % of each sample (`Errors.lam_pct`).

    Parameters
    ----------
    decided_spam : ndarray of bool, shape (n,)
        Decisions.

    Returns
    -------
    ndarray of float64, shape (resamples,)
        NaN if there is no ham or no spam.
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
    ham: NDArray[Any], spam: NDArray[Any], *, seed: int | Sequence[int], resamples: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield samples with the same numbers of ham and spam."""
    random = np.random.default_rng(seed)
    for _ in range(resamples):
        yield (
            ham[random.integers(0, ham.size, ham.size)],
            spam[random.integers(0, spam.size, spam.size)],
        )


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
    is_spam: Bools, probability: Floats, *, bins: int = BINS
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


def expected_calibration_error(is_spam: Bools, probability: Floats) -> float | None:
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


def brier(is_spam: Bools, probability: Floats) -> float | None:
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
