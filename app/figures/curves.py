"""Curves: figures over thresholds and over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from app.figures.metrics import roca_pct

if TYPE_CHECKING:
    from numpy.typing import NDArray


POINTS: Final = 60
"""Points of a curve over time: more than these are not seen."""


@dataclass(frozen=True, slots=True)
class Roc:
    """What each threshold costs.

    Parameters
    ----------
    ham_lost_pct, spam_missed_pct : ndarray of float64, shape (m,)
        For each threshold, from the strictest to the laxest.
    """

    ham_lost_pct: NDArray[np.float64]
    spam_missed_pct: NDArray[np.float64]


def roc(log_odds: NDArray[np.float64], is_spam: NDArray[np.bool_]) -> Roc | None:
    """Return the errors at every threshold; None without ham or spam.

    Parameters
    ----------
    log_odds : ndarray of float64, shape (n,)
        Scores.  Unit: nats.
    is_spam : ndarray of bool, shape (n,)
        Gold labels.

    Notes
    -----
    One point for each distinct score, as the last that is still spam, and one
    before them, where nothing is.

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
class Course:
    """A figure over time.

    Parameters
    ----------
    messages : tuple of int
        After so many messages.
    values : tuple of float or None
        The figure; None where it is not defined.
    """

    messages: tuple[int, ...]
    values: tuple[float | None, ...]


def learning_curve(log_odds: NDArray[np.float64], is_spam: NDArray[np.bool_]) -> Course:
    """Return 1-ROCA % of the messages up to each of some moments.

    Parameters
    ----------
    log_odds : ndarray of float64, shape (n,)
        Scores in the order of arrival.  Unit: nats.
    is_spam : ndarray of bool, shape (n,)
        Gold labels.

    Notes
    -----
    Moments are spaced evenly on a logarithmic scale, from the tenth message on:
    a filter learns most from its first messages.
    """
    moments = np.unique(
        np.geomspace(min(10, is_spam.size), is_spam.size, POINTS).astype(int)
    ).tolist()
    return Course(
        tuple(moments), tuple(roca_pct(log_odds[:n], is_spam[:n]) for n in moments)
    )


def error_over_time(
    wrong: NDArray[np.bool_], counted: NDArray[np.bool_], *, window: int
) -> Course:
    """Return the share of errors among the last so many messages of one side.

    Parameters
    ----------
    wrong : ndarray of bool, shape (n,)
        Which messages were decided wrongly, in the order of arrival.
    counted : ndarray of bool, shape (n,)
        Which messages are of the side in question.
    window : int
        How many messages of that side are looked back on.

    Returns
    -------
    Course
        Unit: per cent.  Among all so far until there are as many as the window holds;
        None before the first.

    Examples
    --------
    >>> wrong = np.array([True, False, False, False])
    >>> error_over_time(wrong, np.ones(4, bool), window=2)
    Course(messages=(1, 2, 3, 4), values=(100.0, 50.0, 0.0, 0.0))
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
    return Course(tuple(moments), tuple(values))
