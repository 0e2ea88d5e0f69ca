"""Outcome: the scores of one part of an evaluation."""

from __future__ import annotations

import heapq
import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from app.classifier.explain import Summand
    from app.classifier.verdict import Verdict
    from app.evaluation.plan import Part
    from app.features.observation import Payload

DECISIONS: Final = ("ham", "unsure", "spam")
"""Decisions by the number that stands for each."""
WORST: Final = 10
"""Mistakes of each kind that are kept with their reasons."""
REASONS: Final = 4
"""Features of each side that are listed for each."""


class Filter(Protocol):
    """What can be evaluated."""

    @property
    def learned(self) -> int:
        """How many messages it has learned."""
        ...

    def enter(self, month: int, /) -> None:
        """Note which month it is, YYYYMM."""
        ...

    def score(self, views: Mapping[str, Payload], /) -> Verdict:
        """Return the verdict."""
        ...

    def learn(self, views: Mapping[str, Payload], label: str, /) -> None:
        """Learn a message, if it learns what is like it."""
        ...

    def explain(
        self, views: Mapping[str, Payload], verdict: Verdict, *, strongest: int
    ) -> tuple[Summand, ...]:
        """Return the reasons of the verdict that was just given."""
        ...


class Messages(Protocol):
    """The views of messages by number."""

    def __getitem__(self, message: int, /) -> Mapping[str, Payload]:
        """Return those of one message."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A feature that spoke in a verdict.

    Parameters
    ----------
    feature : str
        ``"#"`` and its id in hex, or ``(prior)``, ``(rest)``.
    view : str or None
        Where it was.
    log_odds : float
        What it added.  Unit: nats.
    messages : mapping of str to int
        In how many learned messages of each label it was.
    features : int
        How many features stand behind it.
    """

    feature: str
    view: str | None
    log_odds: float
    messages: Mapping[str, int]
    features: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A message that was decided wrongly, and why.

    Parameters
    ----------
    message : int
        Its number in the stream, from 0.
    log_odds : float
        Unit: nats.
    reasons : tuple of Reason
        They add up to the log-odds.
    """

    message: int
    log_odds: float
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a filter said of the messages that it scored.

    Parameters
    ----------
    message : ndarray of int64, shape (n,)
        Their numbers in the stream, in the order in which they were scored.
    log_odds : ndarray of float64, shape (n,)
        Unit: nats.
    probability : ndarray of float64, shape (n,)
        Of spam.
    decision : ndarray of int8, shape (n,)
        Index into `DECISIONS`.
    seconds : float
        How long scoring and learning took.
    learned : int
        How many messages were learned.
    mistakes : tuple of Mistake
        The worst ham lost and the worst spam missed, worst first.
    """

    message: NDArray[np.int64]
    log_odds: NDArray[np.float64]
    probability: NDArray[np.float64]
    decision: NDArray[np.int8]
    seconds: float
    learned: int
    mistakes: tuple[Mistake, ...]

    def save(self, path: Path) -> None:
        """Write it into a file, whole or not at all."""
        halfway = path.with_suffix(".part")
        with halfway.open("wb") as file:
            np.savez(
                file,
                message=self.message,
                log_odds=self.log_odds,
                probability=self.probability,
                decision=self.decision,
                seconds=self.seconds,
                learned=self.learned,
                mistakes=json.dumps([asdict(mistake) for mistake in self.mistakes]),
            )
        halfway.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        with np.load(path) as kept:
            arrays = {
                name: kept[name]
                for name in ("message", "log_odds", "probability", "decision")
            }
            return cls(
                **arrays,
                seconds=float(kept["seconds"]),
                learned=int(kept["learned"]),
                mistakes=tuple(map(_mistake, json.loads(str(kept["mistakes"])))),
            )


def run(
    part: Part,
    *,
    subject: Filter,
    messages: Messages,
    told: Sequence[str],
    is_spam: Sequence[bool] | NDArray[np.bool_],
    months: Sequence[int] = (),
    tick: Callable[[], object],
    clock: Callable[[], float],
) -> Outcome:
    """Let a filter do what a part of a plan asks for.

    Parameters
    ----------
    part : sequence of Action
        What it scores and learns.
    subject : Filter
        The filter, which has learned nothing.
    messages : Messages
        The stream.
    told : sequence of str
        The label that each message is learned with.
    is_spam : sequence of bool
        What each message truly is.
    months : sequence of int
        In which month each message arrives, YYYYMM; empty where no filter asks.
    tick : callable
        Called after each action.
    clock : callable
        Seconds since any moment.

    Raises
    ------
    UnknownLabel
        If a label is not one of the filter's.
    """
    begun = clock()
    scored: list[int] = []
    verdicts: list[tuple[float, float, int]] = []
    worst: dict[bool, list[tuple[float, int, tuple[Reason, ...]]]]
    worst = {False: [], True: []}

    def reasons(verdict: Verdict, views: Mapping[str, Payload]) -> tuple[Reason, ...]:
        return tuple(
            Reason(
                feature=entry.feature,
                view=entry.view,
                log_odds=entry.log_odds,
                messages=entry.messages,
                features=entry.features,
            )
            for entry in subject.explain(views, verdict, strongest=REASONS)
        )

    for kind, message in part:
        views = messages[message]
        if months:
            subject.enter(months[message])
        if kind == "learn":
            subject.learn(views, told[message])
            tick()
            continue
        verdict = subject.score(views)
        scored.append(message)
        verdicts.append(
            (verdict.log_odds, verdict.probability, DECISIONS.index(verdict.decision))
        )
        spam = bool(is_spam[message])
        if (verdict.decision == "spam") != spam:
            badness = -verdict.log_odds if spam else verdict.log_odds
            kept = worst[spam]
            if len(kept) < WORST or badness > kept[0][0]:
                heapq.heappush(kept, (badness, -message, reasons(verdict, views)))
                if len(kept) > WORST:
                    heapq.heappop(kept)
        tick()
    return Outcome(
        message=np.array(scored, np.int64),
        log_odds=np.array([each[0] for each in verdicts], np.float64),
        probability=np.array([each[1] for each in verdicts], np.float64),
        decision=np.array([each[2] for each in verdicts], np.int8),
        seconds=clock() - begun,
        learned=subject.learned,
        mistakes=tuple(
            Mistake(
                message=-number,
                log_odds=-badness if spam else badness,
                reasons=why,
            )
            for spam, kept in worst.items()
            for badness, number, why in sorted(kept, reverse=True)
        ),
    )


def _mistake(kept: dict[str, Any]) -> Mistake:
    return Mistake(
        message=kept["message"],
        log_odds=kept["log_odds"],
        reasons=tuple(Reason(**reason) for reason in kept["reasons"]),
    )


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

    def json_line(self, **more: str) -> str:
        """Return the result as one line of JSON, without the line's end.

        Parameters
        ----------
        **more : str
            What else there is to say of the message.

        Notes
        -----
        JSON has no infinity: infinite log-odds are ``null``, and the
        probability beside them, 0 or 1, tells which.
        """
        return json.dumps(
            {
                **more,
                "gold": self.gold,
                "decision": self.decision,
                "log_odds": self.log_odds if math.isfinite(self.log_odds) else None,
                "probability": self.probability,
            }
        )
