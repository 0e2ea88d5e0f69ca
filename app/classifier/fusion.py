"""What is each view worth at this site? Weights that follow from the ledger.

Contract of this file: the weights of a snapshot are a function of the rows of
the ledger up to its revision, and of nothing else.  Every worker, whatever
batches it read them in, and every start of the service comes to the same
weights, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from app.bayes.logistic import GaussianPull, fit
from app.classifier.record import Evidence, evidence_of
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from app.classifier.specification import Specification


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What the fusion reads of a row of the ledger.

    Parameters
    ----------
    revision : int
        Its place in the ledger.
    digest : bytes
        Identity of the message.
    label_before : str or None
        What the message was learned as; None if it was not.
    label : str or None
        What it is learned as now; None if it is forgotten.
    scores : mapping or None
        What was said of it before (`app.classifier.record`).
    own : bool, default False
        Whether the filter itself said so, and not a person.
    """

    revision: int
    digest: bytes
    label_before: str | None
    label: str | None
    scores: Mapping[str, Any] | None
    own: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """A message that was scored before it was learned, and what it turned out to be.

    Parameters
    ----------
    revision : int
        The row that learned it first.
    label : int
        Class index of its newest label.
    evidence : Evidence
        What was said of it.
    own : bool, default False
        Whether its label is the filter's own: then nothing is fitted to it, until
        a person says what it is.
    """

    revision: int
    label: int
    evidence: Evidence
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRule:
    """When and from what are the weights of the verdict fitted?

    Parameters
    ----------
    every : int
        At each revision that is a multiple of it.
    window : int
        From the messages that the last so many rows learned first.
    weight_deviation, bias_deviation : float
        How far a weight and a bias may be expected from the shipped ones
        (`app.bayes.logistic.GaussianPull`).
    fair : float
        The weights stay as shipped while the side that the log-odds were on was
        the right one in a smaller share of the messages.

    Raises
    ------
    InvalidSetting
        If a number is not positive.
    """

    # Experiment 0051: from 20 to 200, and from 1,000 to 5,000, all is within the
    # noise. A fit of 2,000 messages takes 4 ms.
    every: int = 50
    window: int = 2000
    # Of the difference of two biases: 0.4 (experiment 0051).
    weight_deviation: float = 0.5
    bias_deviation: float = 0.28
    # Who teaches only what the filter got wrong teaches no fair sample: fitted to
    # it, the weights would call spam ham. All the corpora are above 0.9 after the
    # first hundred messages.
    fair: float = 0.75

    def __post_init__(self) -> None:
        """Refuse a rule that never fits."""
        if min(self.every, self.window) < 1:
            msg = (
                "the fusion is fitted every so many rows, from so many, at least 1; "
                f"got {self.every} and {self.window}"
            )
            raise InvalidSetting(msg)


@dataclass(frozen=True, slots=True)
class Fusion:
    """The weights of the verdict at one revision, and what they will be fitted to.

    Parameters
    ----------
    weights : ndarray of float64, shape (T,)
        Of the terms of the verdict's rule.
    bias : ndarray of float64, shape (K,)
        What is added for each class.  Unit: nats.
    fitted_revision : int
        Up to which row they were fitted; 0 for the shipped ones.
    fitted_messages : int
        To how many messages; 0 where the shipped ones stand.
    examples : mapping of bytes to Example
        By digest, in the order of their revisions: those of the window that ends
        at `fitted_revision`.
    waiting : tuple of Lesson
        The rows after it, in their order.
    """

    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    fitted_revision: int = 0
    fitted_messages: int = 0
    examples: Mapping[bytes, Example] = field(default_factory=dict, repr=False)
    # Read when the next fit is due: to make a mapping of 2,000 examples anew at
    # each row was a tenth of what learning a short message took.
    waiting: tuple[Lesson, ...] = field(default=(), repr=False)

    @classmethod
    def shipped(cls, specification: Specification) -> Fusion:
        """Return the weights before the first message."""
        return cls(
            np.array([term.weight for term in specification.verdict.terms]),
            np.zeros(specification.n_classes),
        )

    def follow(
        self,
        lessons: Iterable[Lesson],
        specification: Specification,
        *,
        before: int,
        revision: int,
    ) -> Fusion:
        """Return the weights after more rows.

        Parameters
        ----------
        lessons : iterable of Lesson
            The rows after `before` up to `revision`, in their order.
        specification : Specification
            What the profile is made of.
        before, revision : int
            The revision of these weights, and that of the next.

        Notes
        -----
        A row that learns a message that was not learned is an example, if it was
        scored.  A new label moves it, and forgetting it takes it out; what is said
        of it stays that of the first time, since later the filter knew it.
        """
        rule = specification.verdict.fusion
        if rule is None:
            return self
        rows = (*self.waiting, *lessons)
        due = revision - revision % rule.every
        if due <= before:
            return replace(self, waiting=rows)
        until = [row for row in rows if row.revision <= due]
        examples = _remembered(
            self.examples, until, specification, after=due - rule.window
        )
        return replace(
            _fitted(examples, specification, rule, due), waiting=rows[len(until) :]
        )


def _remembered(
    examples: Mapping[bytes, Example],
    lessons: Iterable[Lesson],
    specification: Specification,
    *,
    after: int,
) -> Mapping[bytes, Example]:
    """Return the examples after more rows, those up to row `after` left out."""
    kept = dict(examples)
    for row in lessons:
        if row.label not in specification.labels:
            kept.pop(row.digest, None)
            continue
        label = specification.labels.index(row.label)
        if row.label_before is not None:
            if row.digest in kept:
                kept[row.digest] = replace(kept[row.digest], label=label, own=row.own)
            continue
        # Not in its old place: the order is that of the revisions.
        kept.pop(row.digest, None)
        evidence = evidence_of(row.scores, specification)
        if evidence is not None:
            kept[row.digest] = Example(row.revision, label, evidence, row.own)
    old = list(takewhile(lambda digest: kept[digest].revision <= after, kept))
    for digest in old:
        del kept[digest]
    return kept


def _fitted(
    examples: Mapping[bytes, Example],
    specification: Specification,
    rule: FusionRule,
    revision: int,
) -> Fusion:
    """Return the weights that are fitted to the examples, and the examples."""
    shipped = Fusion.shipped(specification)
    # Its own labels agree with it whatever it says: fitted to them, it would
    # become ever more certain of itself.
    known = [each for each in examples.values() if not each.own]
    labels = np.array([each.label for each in known], np.int64)
    log_odds = np.array([each.evidence.log_odds for each in known])
    said = np.sign(log_odds)
    right = said == np.where(specification.spam_mask[labels], 1.0, -1.0)
    if not labels.size or right.mean() < rule.fair:
        return replace(shipped, fitted_revision=revision, examples=examples)
    weights = fit(
        np.stack([each.evidence.terms for each in known]),
        np.stack([each.evidence.log_prior for each in known]),
        labels,
        GaussianPull(
            weights=tuple(shipped.weights.tolist()),
            weight_deviation=rule.weight_deviation,
            bias_deviation=rule.bias_deviation,
        ),
    )
    return Fusion(weights.opinions, weights.bias, revision, labels.size, examples)
