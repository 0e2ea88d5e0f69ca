"""Fusion: weights of the views, fitted to scored rows of the ledger.

Contract of this file: examples and weights depend only on the rows of the ledger up to
a revision.  Every worker and every start of the service computes the same weights, bit
for bit, in whatever batches the rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from app.bayes.models.logistic import GaussianPull, fit
from app.classifier.record import arrived_of, evidence_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.classifier.record import Evidence
    from app.classifier.specification import Specification
    from app.kernels import Bools, Floats

# Prior standard deviations of a weight and a bias from the shipped ones.  The
# difference of two biases then deviates by 0.4 (experiment 0051).
WEIGHT_DEVIATION: Final = 0.5
BIAS_DEVIATION: Final = 0.28
MISLABELLED: Final = 0.1
"""The assumed share of random labels.

In a fit that assumes no wrong labels, 5 % wrong ones at the end of 3,000 moved the
weights from 5 to between 0 and 2, and left 26 to 65 % of the ham unsure; with 0.1 it
was up to 6 %.  With right labels, the differences are within the noise (experiment
0076)."""
LEAST: Final = 0.85
"""Least ratio of a weight to the shipped one; the largest ratio is its inverse.

On twelve streams the fit gains as much within this range as with 0.6.  After 150 wrong
labels in a row it gives the weight of the other views to the corrections, which have
learned them: then 6 % of the ham is unsure as the mean of eight streams, instead of 13,
and 12 in the worst of them instead of 37 (experiment 0098); without a range, 62 %
(experiment 0087)."""
LOPSIDED: Final = 4.0
"""Largest ratio of the weights of the two sides' examples.

Taught messages are not a fair sample of arriving mail: a thousand spam with three ham
moved the bias by a nat (experiment 0086)."""
FAIR: Final = 0.75
"""Least share of messages with log-odds on the right side; below it, the shipped
weights stay.

Errors alone are not a fair sample: on a site that teaches only errors, fitted weights
would turn spam into ham.  All corpora are above 0.9 after the first hundred
messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """The part of a ledger row for the fusion.

    Parameters
    ----------
    label_before : str or None
        Previous label of the message; None if it was not learned.
    label : str or None
        New label; None if it is forgotten.
    scores : mapping or None
        The score record from before (`app.classifier.record`).
    own : bool, default False
        Whether the label is from the filter itself, not a person.
    """

    revision: int
    digest: bytes
    label_before: str | None
    label: str | None
    scores: Mapping[str, Any] | None
    own: bool = False


class Example(NamedTuple):
    """A message that was scored before it was learned, with its label.

    Parameters
    ----------
    revision : int
        The row that first learned it.
    label : int
        Side of its newest label (`app.classifier.specification.Specification.sides`).
    own : bool
        Whether that label is the filter's own.  Such an example is not used in the fit
        until a person labels it.
    """

    revision: int
    label: int
    own: bool
    evidence: Evidence


Examples = Mapping[bytes, Example]
"""Examples by the digest of the message, in the order of the rows that learned them."""


def examples_after(
    examples: Examples,
    lessons: Iterable[Lesson],
    specification: Specification,
    *,
    oldest: int,
) -> Examples:
    """Return the examples after more rows, without those of rows before `oldest`.

    Parameters
    ----------
    lessons : iterable of Lesson
        The rows, in their order.

    Notes
    -----
    A row that learns a new message is an example if it was scored.  A new label
    relabels the example, and forgetting removes it.  Its scores stay those of the
    first time, because later the filter knew the message.
    """
    found = {x: one for x, one in examples.items() if one.revision >= oldest}
    for row in lessons:
        label = specification.side_of.get(row.label or "")
        if label is None or row.label_before is None:
            # A message learned again goes to the end.
            found.pop(row.digest, None)
        if label is None:
            continue
        if row.label_before is None:
            evidence = evidence_of(row.scores, specification.sides)
            if evidence is not None and row.revision >= oldest:
                found[row.digest] = Example(row.revision, label, row.own, evidence)
        elif row.digest in found:
            found[row.digest] = found[row.digest]._replace(label=label, own=row.own)
    return found


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Numbers of messages that arrived, taught or not.

    Parameters
    ----------
    ham, spam : int
        Messages scored on arrival and then taught.
    all : int
        All messages scored on arrival, as far as recorded with the taught ones.
    moved : mapping of bytes to (bool, int) or None
        Messages taught since the examples: whether each is spam, and how many arrived
        before it; None if it is not learned, or was not scored on arrival.
    """

    ham: int = 0
    spam: int = 0
    all: int = 0
    moved: Mapping[bytes, tuple[bool, int] | None] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of(cls, examples: Examples, specification: Specification) -> Self:
        """Return the arrivals of some examples."""
        numbers = [
            (one.label, one.evidence.arrived)
            for one in examples.values()
            if one.evidence.arrived is not None
        ]
        labels, arrived = np.array(numbers, np.int64).reshape(-1, 2).T
        spam = int(specification.sides.spam_mask[labels].sum())
        return cls(len(numbers) - spam, spam, int(arrived.sum()))

    @property
    def by_side(self) -> Floats:
        """Messages of ham and of spam; untaught ones count half on each side."""
        half = max(0, self.all - self.ham - self.spam) / 2
        return np.array([self.ham + half, self.spam + half])

    def follow(
        self,
        examples: Examples,
        lessons: Iterable[Lesson],
        specification: Specification,
    ) -> Arrivals:
        """Add the arrivals of later rows."""
        ham, spam, whole = self.ham, self.spam, self.all
        moved = dict(self.moved)
        for row in lessons:
            arrived = arrived_of(row.scores)
            if row.label_before is not None:
                before = (
                    moved[row.digest]
                    if row.digest in moved
                    else _came(row.digest, examples, specification)
                )
                arrived = None
                if before is not None:
                    was_spam, arrived = before
                    ham, spam = ham - (not was_spam), spam - was_spam
                    whole -= arrived
            if arrived is None or row.label not in specification.labels:
                moved[row.digest] = None
                continue
            is_spam = row.label in specification.spam_labels
            ham, spam, whole = ham + (not is_spam), spam + is_spam, whole + arrived
            moved[row.digest] = is_spam, arrived
        return Arrivals(ham, spam, whole, moved)


def _came(
    digest: bytes, examples: Examples, specification: Specification
) -> tuple[bool, int] | None:
    """Return whether an arrived example is spam, and how many arrived before it."""
    example = examples.get(digest)
    if example is None or example.evidence.arrived is None:
        return None
    is_spam = bool(specification.sides.spam_mask[example.label])
    return is_spam, example.evidence.arrived


@dataclass(frozen=True, slots=True)
class Fusion:
    """The weights of the verdict at one revision, and the examples for the next fit.

    Parameters
    ----------
    weights : ndarray of float64, shape (T,)
        Weights of the terms of the verdict's rule.
    bias : ndarray of float64, shape (2,)
        Bias of each side.  Unit: nats.
    examples : Examples
        The examples of the window that ends at `fitted_revision`.
    fitted_revision : int
        Last row of the fit; 0 for the shipped weights.
    fitted_messages : int
        Number of messages in the fit; 0 for the shipped weights.
    waiting : tuple of Lesson
        The rows after `fitted_revision`, in order.
    """

    weights: Floats
    bias: Floats
    examples: Examples = field(repr=False)
    arrivals: Arrivals
    fitted_revision: int = 0
    fitted_messages: int = 0
    # Processed when the next fit is due, because each change copies the examples.
    waiting: tuple[Lesson, ...] = field(default=(), repr=False)

    @classmethod
    def shipped(cls, specification: Specification) -> Fusion:
        """Return the weights before the first message."""
        return cls(
            np.array([term.weight for term in specification.verdict.terms]),
            np.zeros(specification.sides.n_classes),
            {},
            Arrivals(),
        )

    def follow(
        self,
        lessons: Sequence[Lesson],
        specification: Specification,
        *,
        before: int,
        revision: int,
    ) -> Fusion:
        """Return the weights after more rows.

        Parameters
        ----------
        lessons : sequence of Lesson
            The rows after `before` up to `revision`, in their order.
        before, revision : int
            The revisions of these weights and of the result.
        """
        rule = specification.verdict.fusion
        rows = (*self.waiting, *lessons)
        due = revision - revision % rule.every
        if due <= before:
            arrivals = self.arrivals.follow(self.examples, lessons, specification)
            return replace(self, waiting=rows, arrivals=arrivals)
        until = [row for row in rows if row.revision <= due]
        examples = examples_after(
            self.examples, until, specification, oldest=due - rule.window + 1
        )
        fitted = _fitted(examples, specification, due)
        left = rows[len(until) :]
        arrivals = fitted.arrivals.follow(examples, left, specification)
        return replace(fitted, waiting=left, arrivals=arrivals)


def _fitted(examples: Examples, specification: Specification, revision: int) -> Fusion:
    """Return the weights fitted to the examples, with the examples."""
    shipped = replace(
        Fusion.shipped(specification),
        examples=examples,
        arrivals=Arrivals.of(examples, specification),
        fitted_revision=revision,
    )
    # The filter's own labels always agree with it: a fit to them would make it more and
    # more confident.
    known = [one for one in examples.values() if not one.own]
    labels = np.array([one.label for one in known], np.int64)
    spam = specification.sides.spam_mask[labels]
    signs = np.sign([one.evidence.log_odds for one in known])
    right = signs == np.where(spam, 1.0, -1.0)
    if not known or right.mean() < FAIR:
        return shipped
    fitted = fit(
        np.array([one.evidence.terms for one in known]),
        np.array([one.evidence.log_prior for one in known]),
        labels,
        GaussianPull(
            weights=tuple(shipped.weights.tolist()),
            weight_deviation=WEIGHT_DEVIATION,
            bias_deviation=BIAS_DEVIATION,
        ),
        mislabelled=MISLABELLED,
        counts=example_weights(spam),
    )
    return replace(
        shipped,
        weights=_within(fitted.opinions, shipped.weights),
        bias=fitted.bias,
        fitted_messages=len(known),
    )


def example_weights(spam: Bools) -> Floats:
    """Return the weight of each example, depending on its side, shape (N,)."""
    sides = np.array([np.count_nonzero(~spam), np.count_nonzero(spam)])
    most = LOPSIDED * sides.min()
    found: Floats = np.minimum(1.0, most / np.maximum(sides, 1))
    return found[spam.astype(np.intp)]


def _within(weights: Floats, shipped: Floats) -> Floats:
    """Return weights limited to a range around the shipped ones.

    A fit within the ranges gains nothing (experiment 0114).
    """
    ends = np.sort([shipped * LEAST, shipped / LEAST], axis=0)
    found: Floats = weights.clip(*ends)
    return found
