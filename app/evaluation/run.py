"""What came of one configuration on one stream?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.evaluation.outcome import DECISIONS
from app.evaluation.report import Report
from app.evaluation.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from app.classifier.specification import Specification
    from app.evaluation.outcome import Mistake, Outcome
    from app.evaluation.source import Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One configuration on one stream.

    Parameters
    ----------
    stream, configuration : str
        Their names.
    specification : Specification
        What the configuration is.
    survey : Survey
        What the stream holds.
    in_time : bool
        Whether messages were scored in the order of the stream.
    outcomes : tuple of Outcome
        What came of each part.
    """

    stream: str
    configuration: str
    specification: Specification
    survey: Survey
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
