"""Run: the figures of one configuration on one stream."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.evaluation.outcome import DECISIONS, Result
from app.figures.calibration import brier, expected_calibration_error
from app.figures.metrics import Errors, roca_pct, spam_missed_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from app.classifier.specification import Specification
    from app.corpora.source import StreamSurvey
    from app.evaluation.outcome import Mistake, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The figures of one evaluation.

    Contract: the names of the fields are those that `evaluate --json` prints,
    and scripts depend on them.  A change of one is a breaking change.

    Parameters
    ----------
    messages, ham, spam : int
        Messages in the stream, and how many have each gold label.
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
    messages_per_second: float | None

    @classmethod
    def of(
        cls,
        *,
        is_spam: NDArray[np.bool_],
        decided_spam: NDArray[np.bool_],
        learned: int,
        unsure: int,
        log_odds: NDArray[np.float64],
        probability: NDArray[np.float64],
        seconds: float,
    ) -> Report:
        """Compute the figures of scored messages.

        Parameters
        ----------
        is_spam : ndarray of bool, shape (n,)
            Gold labels.
        decided_spam : ndarray of bool, shape (n,)
            Decisions; False for ham and for unsure.
        learned : int
            How many messages were learned.
        unsure : int
            How many decisions were `unsure`.
        log_odds : ndarray of float64, shape (n,)
            Scores.  Unit: nats.
        probability : ndarray of float64, shape (n,)
            Probabilities of spam.
        seconds : float
            How long it took.

        Raises
        ------
        InvalidObservation
            If the shapes differ, a score is not a number or a probability not
            from 0 to 1.
        """
        errors = Errors.of(is_spam, decided_spam)
        messages = errors.ham + errors.spam
        ece = expected_calibration_error(is_spam, probability)
        return cls(
            messages=messages,
            ham=errors.ham,
            spam=errors.spam,
            learned=learned,
            unsure=unsure,
            roca_pct=roca_pct(log_odds, is_spam),
            ham_lost_pct=errors.ham_lost_pct,
            spam_missed_pct=errors.spam_missed_pct,
            lam_pct=errors.lam_pct,
            spam_missed_at_0_1_pct=spam_missed_at(log_odds, is_spam, ham_lost_pct=0.1),
            ece_pct=None if ece is None else 100.0 * ece,
            brier=brier(is_spam, probability),
            messages_per_second=messages / seconds if seconds > 0 else None,
        )

    def as_json(self) -> dict[str, int | float | None]:
        """Return the figures by name, ready for `json.dumps`."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One configuration on one stream.

    Parameters
    ----------
    stream, configuration : str
        Their names.
    specification : Specification
        What the configuration is.
    survey : StreamSurvey
        What the stream holds.
    in_time : bool
        Whether messages were scored in the order of the stream.
    outcomes : tuple of Outcome
        What came of each part.
    """

    stream: str
    configuration: str
    specification: Specification
    survey: StreamSurvey
    in_time: bool
    outcomes: tuple[Outcome, ...]

    @property
    def message(self) -> NDArray[np.int64]:
        """The messages, in the order in which they were scored."""
        return np.concatenate([outcome.message for outcome in self.outcomes])

    @property
    def log_odds(self) -> NDArray[np.float64]:
        """Their scores.  Unit: nats."""
        return np.concatenate([outcome.log_odds for outcome in self.outcomes])

    @property
    def probability(self) -> NDArray[np.float64]:
        """Their probabilities of spam."""
        return np.concatenate([outcome.probability for outcome in self.outcomes])

    @property
    def decision(self) -> NDArray[np.int8]:
        """What was decided, as indices into `DECISIONS`."""
        return np.concatenate([outcome.decision for outcome in self.outcomes])

    @property
    def decided_spam(self) -> NDArray[np.bool_]:
        """Whether spam was decided; *unsure* leaves a message where it is seen."""
        return np.asarray(self.decision == DECISIONS.index("spam"))

    @property
    def is_spam(self) -> NDArray[np.bool_]:
        """What they are."""
        spam = self.specification.spam_labels
        gold = np.array([label in spam for label in self.survey.labels], np.bool_)
        return np.asarray(gold[self.message])

    @property
    def seconds(self) -> float:
        """How long it took, in one process."""
        return sum(outcome.seconds for outcome in self.outcomes)

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """The worst mistakes of all parts: ham lost first, the worst first."""
        spam = self.specification.spam_labels
        return tuple(
            sorted(
                (mistake for outcome in self.outcomes for mistake in outcome.mistakes),
                key=lambda each: (
                    self.survey.labels[each.message] in spam,
                    -abs(each.log_odds),
                ),
            )
        )

    def report(self) -> Report:
        """Return the figures."""
        return Report.of(
            is_spam=self.is_spam,
            decided_spam=self.decided_spam,
            # Each part is a filter of its own, and in folds each of them learns.
            learned=sum(outcome.learned for outcome in self.outcomes),
            unsure=int((self.decision == DECISIONS.index("unsure")).sum()),
            log_odds=self.log_odds,
            probability=self.probability,
            # In folds a message is learned again and again: no speed to speak of.
            seconds=self.seconds if self.in_time else 0.0,
        )

    def results(self) -> Iterator[Result]:
        """Yield what was said of each message, in the order of scoring."""
        for message, log_odds, probability, decision in zip(
            self.message.tolist(),
            self.log_odds.tolist(),
            self.probability.tolist(),
            self.decision.tolist(),
            strict=True,
        ):
            yield Result(
                gold=self.survey.labels[message],
                decision=DECISIONS[decision],
                log_odds=log_odds,
                probability=probability,
            )
