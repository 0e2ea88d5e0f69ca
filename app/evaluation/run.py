"""Run: the outcome of a plan and its figures on one stream, and comparisons.

Contract: within a part of a plan, no message is scored after it was learned, so no
figure includes a verdict of a filter that knows the message.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

import numpy as np

from app.classifier.explain import Summand
from app.figures import (
    Errors,
    brier,
    expected_calibration_error,
    interval,
    lam_replicates,
    macro_f1_pct,
    roca_pct,
    roca_replicates,
    spam_missed_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from app.classifier.specification import Specification
    from app.corpora.source import StreamSurvey
    from app.evaluation.subject import Corpus, Subject
    from app.kernels import Bools, Floats


class Action(NamedTuple):
    """One step of a filter."""

    kind: Literal["score", "learn"]
    message: int


Part = tuple[Action, ...]
"""All steps of one filter, from an empty start; parts can run in parallel."""


DECISIONS: Final = ("ham", "unsure", "spam")
"""Decisions in the order of their numbers."""
_COLUMNS: Final = ("message", "log_odds", "probability", "decision", "label")
SCORED: Final = np.dtype([*zip(_COLUMNS, "qddqq", strict=True)])
"""A message that was scored.

Its number in the stream, log-odds of spam in nats, probability of spam, index into
`DECISIONS`, and index of the most probable label of the filter.
"""
WORST: Final = 10
"""Mistakes of each kind that are stored with their reasons."""
REASONS: Final = 4
"""Features of each side that are listed for a mistake."""


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
    scored : ndarray of `SCORED`, shape (n,)
        The messages in the order in which they were scored.
    mistakes : tuple of Mistake
        The worst ham lost and the worst spam missed, worst first.
    """

    scored: NDArray[np.void]
    seconds: float
    learned: int
    mistakes: tuple[Mistake, ...]

    def save(self, path: Path) -> None:
        """Write the outcome to a file, whole or not at all."""
        halfway = path.with_suffix(".part")
        with halfway.open("wb") as file:
            values = asdict(self)
            np.savez(file, **values | {"mistakes": json.dumps(values["mistakes"])})
        halfway.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the outcome that `save` wrote."""
        with np.load(path) as stored:
            return cls(
                scored=stored["scored"],
                seconds=float(stored["seconds"]),
                learned=int(stored["learned"]),
                mistakes=tuple(
                    Mistake(**each | {"reasons": tuple(map(_summand, each["reasons"]))})
                    for each in json.loads(str(stored["mistakes"]))
                ),
            )


def _summand(entry: dict[str, Any]) -> Summand:
    """Return a summand that was written into a file."""
    return Summand(**entry | {"parts": tuple(entry["parts"])})


def run(
    part: Part,
    *,
    subject: Subject,
    messages: Corpus,
    labels: Sequence[str],
    is_spam: Sequence[bool] | Bools,
    months: Sequence[int] = (),
    tick: Callable[[], object],
    clock: Callable[[], float],
) -> PartOutcome:
    """Score and learn the messages of a part of a plan.

    Parameters
    ----------
    subject : Subject
        The filter, which has learned nothing.
    labels : sequence of str
        The label that each message is learned with.
    is_spam : sequence of bool
        Gold labels.
    months : sequence of int
        Month in which each message arrives, YYYYMM; empty if no filter needs it.

    Raises
    ------
    UnknownLabel
        If a label is not one of the filter's.
    """
    begun = clock()
    scored: list[tuple[int, float, float, int, int]] = []
    worst: dict[bool, list[Mistake]] = {False: [], True: []}

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
        decision = DECISIONS.index(verdict.decision)
        scored.append(
            (message, verdict.log_odds, verdict.probability, decision, verdict.label)
        )
        spam = bool(is_spam[message])
        if (verdict.decision == "spam") != spam:
            kept, sign, odds = worst[spam], -1 if spam else 1, verdict.log_odds
            if len(kept) < WORST or sign * odds > sign * kept[-1].log_odds:
                why = subject.explain(views, verdict, strongest=REASONS).summands
                kept.append(Mistake(message=message, log_odds=odds, reasons=why))
                kept.sort(key=attrgetter("log_odds"), reverse=not spam)
                del kept[WORST:]
    return PartOutcome(
        scored=np.array(scored, SCORED),
        seconds=clock() - begun,
        learned=subject.learned,
        mistakes=(*worst[False], *worst[True]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """The figures of one evaluation.

    Contract: the names of the fields are those that `evaluate --json` prints,
    and scripts depend on them.  A change of one is a breaking change.

    Parameters
    ----------
    messages, ham, spam : int
        Messages in the stream, and those of either gold label.
    learned : int
        Messages that were learned.
    unsure : int
        Messages that were decided to be neither; they count as ham.
    roca_pct : float or None
        1-ROCA %, ties count half.
    ham_lost_pct, spam_missed_pct : float or None
        Error rates of the decisions.  Unit: per cent of the ham, of the spam.
    lam_pct : float or None
        Logistic average of the two error rates.  Unit: per cent.
    spam_missed_at_0_1_pct : float or None
        Spam missed at the threshold where 0.1 % of the ham is lost.
        Unit: per cent of the spam.
    ece_pct : float or None
        Expected calibration error of the probabilities.  Unit: per cent.
    brier : float or None
        Mean square of probability minus truth, from 0 to 1.
    macro_f1_pct : float or None
        Mean F1 of the labels, higher is better.  Unit: per cent.  None if there are
        only two, for which the error rates say more.
    messages_per_second : float or None
        Messages scored and learned in a second of wall-clock time.  None
        where the clock did not move.

    Notes
    -----
    None stands where the stream does not define a figure, such as any share
    of the ham in a stream without ham; in JSON it is ``null``.
    """

    messages: int
    ham: int
    spam: int
    learned: int
    unsure: int
    roca_pct: float | None
    ham_lost_pct: float | None
    spam_missed_pct: float | None
    lam_pct: float | None
    spam_missed_at_0_1_pct: float | None
    ece_pct: float | None
    brier: float | None
    macro_f1_pct: float | None
    messages_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One configuration on one stream.

    Parameters
    ----------
    in_time : bool
        Whether messages were scored in the order of the stream.
    """

    stream: str
    configuration: str
    specification: Specification
    survey: StreamSurvey
    in_time: bool
    outcomes: tuple[PartOutcome, ...]

    @property
    def scored(self) -> NDArray[np.void]:
        """The messages of all parts, as in `PartOutcome`."""
        return np.concatenate([outcome.scored for outcome in self.outcomes])

    @property
    def log_odds(self) -> Floats:
        """Their scores.  Unit: nats."""
        return np.asarray(self.scored["log_odds"])

    @property
    def several(self) -> bool:
        """Whether the filter has more labels than ham and spam."""
        return len(self.specification.labels) > 2  # noqa: PLR2004

    @property
    def decided_spam(self) -> Bools:
        """Whether spam was decided; *unsure* leaves a message where it is seen."""
        return np.asarray(self.scored["decision"] == DECISIONS.index("spam"))

    @property
    def gold(self) -> Bools:
        """Whether each message of the stream is spam, by its gold label."""
        spam = self.specification.spam_labels
        return np.array([label in spam for label in self.survey.labels], np.bool_)

    @property
    def is_spam(self) -> Bools:
        """Whether they are spam, by their gold labels."""
        return np.asarray(self.gold[self.scored["message"]])

    @property
    def seconds(self) -> float:
        """Duration, in one process."""
        return sum(outcome.seconds for outcome in self.outcomes)

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """The worst mistakes of all parts: ham lost first, the worst first."""

        def order(mistake: Mistake) -> tuple[bool, float]:
            spam = self.survey.labels[mistake.message] in self.specification.spam_labels
            # Missed spam that looked most like ham; unsure messages are nearer to spam.
            return spam, mistake.log_odds if spam else -mistake.log_odds

        every = (mistake for outcome in self.outcomes for mistake in outcome.mistakes)
        return tuple(sorted(every, key=order))

    def report(self) -> EvaluationReport:
        """Return the figures."""
        gold, scored, log_odds = self.is_spam, self.scored, self.log_odds
        errors = Errors.of(gold, self.decided_spam)
        ece = expected_calibration_error(gold, scored["probability"])
        # In folds a message is learned again and again: no speed to speak of.
        seconds = self.seconds if self.in_time else 0.0
        return EvaluationReport(
            messages=errors.messages,
            ham=errors.ham,
            spam=errors.spam,
            # Each part is a separate filter, and in folds each of them learns.
            learned=sum(outcome.learned for outcome in self.outcomes),
            unsure=int((scored["decision"] == DECISIONS.index("unsure")).sum()),
            roca_pct=roca_pct(log_odds, gold),
            ham_lost_pct=errors.ham_lost_pct,
            spam_missed_pct=errors.spam_missed_pct,
            lam_pct=errors.lam_pct,
            spam_missed_at_0_1_pct=spam_missed_at(log_odds, gold, ham_lost_pct=0.1),
            ece_pct=None if ece is None else 100.0 * ece,
            brier=brier(gold, scored["probability"]),
            macro_f1_pct=self._macro_f1_pct() if self.several else None,
            messages_per_second=errors.messages / seconds if seconds > 0 else None,
        )

    def _macro_f1_pct(self) -> float | None:
        numbers = {label: at for at, label in enumerate(self.specification.labels)}
        gold = np.array([numbers[label] for label in self.survey.labels], np.int64)
        return macro_f1_pct(gold[self.scored["message"]], self.scored["label"])

    def json_lines(self, **more: str) -> Iterator[str]:
        """Yield a line of JSON for each message, in the order of scoring.

        Parameters
        ----------
        **more : str
            Further fields, at the start of every line.
        """
        labels = self.specification.labels
        for message, log_odds, probability, decision, label in self.scored.tolist():
            yield json_line(
                **more,
                gold=self.survey.labels[message],
                **({"label": labels[label]} if self.several else {}),
                decision=DECISIONS[decision],
                log_odds=log_odds,
                probability=probability,
            )


def json_line(*, log_odds: float, probability: float, **texts: str) -> str:
    r"""Return the verdict on one message as a line of JSON, with its end.

    Notes
    -----
    JSON has no infinity: infinite log-odds are ``null``, and the probability, 0 or 1,
    shows their sign.

    Examples
    --------
    >>> json_line(gold="ham", decision="ham", log_odds=-2.5, probability=0.08)
    '{"gold": "ham", "decision": "ham", "log_odds": -2.5, "probability": 0.08}\n'
    """
    finite = log_odds if math.isfinite(log_odds) else None
    return json.dumps({**texts, "log_odds": finite, "probability": probability}) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The change of a figure.

    Parameters
    ----------
    value : float or None
        New minus old, so below 0 is better; the mean over the streams.
        Unit: per cent points.
    interval : (float, float) or None
        95 % interval of the paired bootstrap.
    """

    value: float | None
    interval: tuple[float, float] | None

    def written(self, undefined: str) -> str:
        """Return the change with its interval, or a text if it is undefined."""
        if self.value is None:
            return undefined
        if self.interval is None:
            return f"{self.value:+.3f}"
        low, high = self.interval
        return f"{self.value:+.3f} ({low:+.3f} to {high:+.3f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One configuration compared with another, on the same messages.

    Parameters
    ----------
    configuration, against : str
        The new one and the old one.
    won, tied, lost : int
        Folds (or streams, without folds) in which 1-ROCA of the new configuration is
        lower, the same, higher.
    roca, lam : Difference
        Changes of 1-ROCA and of lam.
    """

    configuration: str
    against: str
    won: int
    tied: int
    lost: int
    roca: Difference
    lam: Difference


def compare(new: Sequence[Run], old: Sequence[Run], *, seed: int) -> Comparison:
    """Compare two configurations over the same streams.

    Parameters
    ----------
    new, old : sequence of Run
        The runs of each, stream by stream.

    Notes
    -----
    The bootstrap is paired: a resample takes the same messages for both, so
    messages that are hard for both cancel out [1]_.  With several streams each resample
    takes messages of all of them, independently, and the differences are averaged.

    References
    ----------
    .. [1] B. Efron and R. J. Tibshirani, *An Introduction to the Bootstrap*,
       Chapman and Hall, 1993, chapters 8 and 13.
    """
    pairs = list(zip(new, old, strict=True))
    signs = [
        (there > here) - (there < here)
        for a, b in pairs
        for here, there in zip(_of_parts(a), _of_parts(b), strict=True)
        if here is not None and there is not None
    ]

    def difference(
        figure: Callable[[Run], float | None],
        replicates: Callable[[Run, Sequence[int]], Floats],
    ) -> Difference:
        # In folds the parts of both score the same messages in one order.
        # Trap: with one seed, streams of one size are resampled at the same places,
        # and the early messages are hard in all of them.  In a test with four streams
        # that made the interval 1.2 to 1.3 times as wide.
        resampled = [
            replicates(a, (seed, stream)) - replicates(b, (seed, stream))
            for stream, (a, b) in enumerate(pairs)
        ]
        values = [(figure(a), figure(b)) for a, b in pairs]
        changes = [a - b for a, b in values if a is not None and b is not None]
        return Difference(
            value=sum(changes) / len(pairs) if len(changes) == len(pairs) else None,
            interval=interval(np.mean(resampled, axis=0)),
        )

    return Comparison(
        configuration=new[0].configuration,
        against=old[0].configuration,
        won=signs.count(1),
        tied=signs.count(0),
        lost=signs.count(-1),
        roca=difference(
            lambda run: run.report().roca_pct,
            lambda run, of: roca_replicates(run.log_odds, run.is_spam, seed=of),
        ),
        lam=difference(
            lambda run: run.report().lam_pct,
            lambda run, of: lam_replicates(run.decided_spam, run.is_spam, seed=of),
        ),
    )


def _of_parts(run: Run) -> list[float | None]:
    """Return 1-ROCA % of each part of a run."""
    gold, parts = run.gold, [outcome.scored for outcome in run.outcomes]
    return [roca_pct(part["log_odds"], gold[part["message"]]) for part in parts]
