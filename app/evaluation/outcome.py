"""Outcome: the scores of one part of an evaluation."""

from __future__ import annotations

import heapq
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from app.classifier.explain import ReasonPart, Summand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from app.evaluation.corpus import Corpus
    from app.evaluation.plan import Part
    from app.evaluation.subject import Subject

DECISIONS: Final = ("ham", "unsure", "spam")
"""Decisions by the number that stands for each."""
WORST: Final = 10
"""Mistakes of each kind that are kept with their reasons."""
REASONS: Final = 4
"""Features of each side that are listed for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A message that was decided wrongly, with the reasons.

    Parameters
    ----------
    message : int
        Its number in the stream, from 0.
    log_odds : float
        Unit: nats.
    reasons : tuple of Summand
        They add up to the log-odds; features are ids (`app.classifier.explain`).
    """

    message: int
    log_odds: float
    reasons: tuple[Summand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOutcome:
    """The verdicts of a filter on the messages that it scored.

    Parameters
    ----------
    message : ndarray of int64, shape (n,)
        Their numbers in the stream, in the order in which they were scored.
    log_odds : ndarray of float64, shape (n,)
        Unit: nats.
    probability : ndarray of float64, shape (n,)
        Probability of spam.
    decision : ndarray of int8, shape (n,)
        Index into `DECISIONS`.
    label : ndarray of int64, shape (n,)
        Index of the most probable label of the filter.
    seconds : float
        How long scoring and learning took.
    learned : int
        Messages that were learned.
    mistakes : tuple of Mistake
        The worst ham lost and the worst spam missed, worst first.
    """

    message: NDArray[np.int64]
    log_odds: NDArray[np.float64]
    probability: NDArray[np.float64]
    decision: NDArray[np.int8]
    label: NDArray[np.int64]
    seconds: float
    learned: int
    mistakes: tuple[Mistake, ...]

    def save(self, path: Path) -> None:
        """Write it into a file, whole or not at all."""
        halfway = path.with_suffix(".part")
        with halfway.open("wb") as file:
            values = asdict(self)
            np.savez(file, **values | {"mistakes": json.dumps(values["mistakes"])})
        halfway.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the outcome that `save` wrote."""
        with np.load(path) as stored:
            arrays = {
                name: stored[name]
                for name in ("message", "log_odds", "probability", "decision", "label")
            }
            return cls(
                **arrays,
                seconds=float(stored["seconds"]),
                learned=int(stored["learned"]),
                mistakes=tuple(
                    Mistake(
                        message=each["message"],
                        log_odds=each["log_odds"],
                        reasons=tuple(map(_summand, each["reasons"])),
                    )
                    for each in json.loads(str(stored["mistakes"]))
                ),
            )


def _summand(entry: dict[str, Any]) -> Summand:
    """Return a summand that was written into a file."""
    parts = tuple(ReasonPart(**each) for each in entry["parts"])
    return Summand(**entry | {"parts": parts})


def run(
    part: Part,
    *,
    subject: Subject,
    messages: Corpus,
    labels: Sequence[str],
    is_spam: Sequence[bool] | NDArray[np.bool_],
    months: Sequence[int] = (),
    tick: Callable[[], object],
    clock: Callable[[], float],
) -> PartOutcome:
    """Score and learn the messages of a part of a plan.

    Parameters
    ----------
    part : sequence of Action
        The steps of the filter.
    subject : Subject
        The filter, which has learned nothing.
    messages : Corpus
        The views of all messages of the stream.
    labels : sequence of str
        The label that each message is learned with.
    is_spam : sequence of bool
        Gold labels.
    months : sequence of int
        In which month each message arrives, YYYYMM; empty where no filter needs it.
    tick : callable
        Called for each message, once.
    clock : callable
        Seconds since any moment.

    Raises
    ------
    UnknownLabel
        If a label is not one of the filter's.
    """
    begun = clock()
    scored: list[int] = []
    verdicts: list[tuple[float, float, int, int]] = []
    worst: dict[bool, list[tuple[float, int, tuple[Summand, ...]]]]
    worst = {False: [], True: []}

    met: set[int] = set()
    for kind, message in part:
        if message not in met:
            met.add(message)
            tick()
        views = messages[message]
        if months:
            subject.enter(months[message])
        if kind == "learn":
            subject.learn(views, labels[message])
            continue
        verdict = subject.score(views)
        scored.append(message)
        decision = DECISIONS.index(verdict.decision)
        verdicts.append(
            (verdict.log_odds, verdict.probability, decision, verdict.label)
        )
        spam = bool(is_spam[message])
        if (verdict.decision == "spam") != spam:
            badness = -verdict.log_odds if spam else verdict.log_odds
            heap = worst[spam]
            if len(heap) < WORST or badness > heap[0][0]:
                reasons = subject.explain(views, verdict, strongest=REASONS).summands
                heapq.heappush(heap, (badness, -message, reasons))
                if len(heap) > WORST:
                    heapq.heappop(heap)
    return PartOutcome(
        message=np.array(scored, np.int64),
        log_odds=np.array([each[0] for each in verdicts], np.float64),
        probability=np.array([each[1] for each in verdicts], np.float64),
        decision=np.array([each[2] for each in verdicts], np.int8),
        label=np.array([each[3] for each in verdicts], np.int64),
        seconds=clock() - begun,
        learned=subject.learned,
        mistakes=tuple(
            Mistake(
                message=-number,
                log_odds=-badness if spam else badness,
                reasons=why,
            )
            for spam, heap in worst.items()
            for badness, number, why in sorted(heap, reverse=True)
        ),
    )
