"""How well does a filter do on a stream that it learns from as it goes?

Score, then learn: each message is scored by what the messages before it have
taught, and only then learned with its gold label.  That is how a filter lives
at a site whose users correct it, every message serves as a test message once,
and no message is ever scored by a filter that has seen it.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from app.errors import UnknownLabel
from app.evaluation.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Scored(Protocol):
    """What a filter says of one message."""

    @property
    def log_odds(self) -> float:
        """Log-odds of spam.  Unit: nats."""
        ...

    @property
    def probability(self) -> float:
        """Probability of spam."""
        ...

    @property
    def decision(self) -> str:
        """One of `spam`, `ham` and `unsure`."""
        ...


class Score(Protocol[T_contra]):
    """Score one observation, and learn nothing from it."""

    def __call__(self, observation: T_contra, /) -> Scored:
        """Return the verdict."""
        ...


class Learn(Protocol[T_contra]):
    """Learn one observation."""

    def __call__(self, observation: T_contra, label: str, /) -> None:
        """Add it to what the filter knows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the filter said of one message before it learned it.

    Parameters
    ----------
    gold : str
        The label that the stream gives.
    decision : str
        The filter's decision: `spam`, `ham` or `unsure`.
    log_odds : float
        Unit: nats.
    probability : float
        Probability of spam.

    Examples
    --------
    >>> Result(gold="ham", decision="ham", log_odds=-2.5, probability=0.08).json_line()
    '{"gold": "ham", "decision": "ham", "log_odds": -2.5, "probability": 0.08}'
    """

    gold: str
    decision: str
    log_odds: float
    probability: float

    def json_line(self) -> str:
        """Return the result as one line of JSON, without the line's end.

        JSON has no infinity: infinite log-odds are ``null``, and the
        probability beside them, 0 or 1, tells which.
        """
        return json.dumps(
            {
                "gold": self.gold,
                "decision": self.decision,
                "log_odds": self.log_odds if math.isfinite(self.log_odds) else None,
                "probability": self.probability,
            }
        )


def evaluate(
    stream: Iterable[tuple[str | None, T]],
    *,
    score: Score[T],
    learn: Learn[T],
    spam_labels: Collection[str] = ("spam",),
    record: Callable[[Result], object] = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Report:
    """Score, then learn, every message of a stream.

    Parameters
    ----------
    stream : iterable of (str, T)
        Gold labels and observations, in the order of their arrival.
    score, learn : callable
        The filter.
    spam_labels : collection of str, default ("spam",)
        The labels that count as spam; any other is ham.
    record : callable, optional
        Told of every result as soon as it is known, such as to write it down.
    clock : callable, optional
        Seconds since any moment.

    Returns
    -------
    Report
        The figures.  The time taken includes that of the stream, so that
        reading and parsing count as they do for a mail server.

    Raises
    ------
    UnknownLabel
        If a message has no label.
    InvalidObservation
        If the filter's log-odds are not a number, or its probability is not
        from 0 to 1.

    Notes
    -----
    A decision other than `spam` leaves a message where its reader sees it, so
    `unsure` counts as ham.
    """
    gold: list[bool] = []
    decided: list[bool] = []
    log_odds: list[float] = []
    probability: list[float] = []
    unsure = 0
    begun = clock()
    for label, observation in stream:
        if label is None:
            msg = (
                f"message {len(gold) + 1} of the stream has no label, and an "
                "evaluation needs all of them"
            )
            raise UnknownLabel(msg)
        scored = score(observation)
        learn(observation, label)
        gold.append(label in spam_labels)
        decided.append(scored.decision == "spam")
        unsure += scored.decision == "unsure"
        log_odds.append(scored.log_odds)
        probability.append(scored.probability)
        record(
            Result(
                gold=label,
                decision=scored.decision,
                log_odds=scored.log_odds,
                probability=scored.probability,
            )
        )
    return Report.of(
        is_spam=np.array(gold, np.bool_),
        decided_spam=np.array(decided, np.bool_),
        unsure=unsure,
        log_odds=np.array(log_odds, np.float64),
        probability=np.array(probability, np.float64),
        seconds=clock() - begun,
    )
