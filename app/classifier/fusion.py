"""What is each view worth at this site? Weights that follow from the ledger.

Contract of this file: the weights of a snapshot are a function of the rows of
the ledger up to its revision, and of nothing else.  Every worker, whatever
batches it read them in, and every start of the service comes to the same
weights, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from app.bayes.logistic import GaussianPull, fit
from app.classifier.examples import Examples
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from app.classifier.lesson import Lesson
    from app.classifier.specification import Specification


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
    # noise. A fit of 2,000 messages takes 1.4 ms.
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
    examples : Examples
        Those of the window that ends at `fitted_revision`.
    fitted_revision : int
        Up to which row they were fitted; 0 for the shipped ones.
    fitted_messages : int
        To how many messages; 0 where the shipped ones stand.
    waiting : tuple of Lesson
        The rows after it, in their order.
    """

    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    examples: Examples = field(repr=False)
    fitted_revision: int = 0
    fitted_messages: int = 0
    # Read when the next fit is due: to put 2,000 examples together anew at each row
    # was a tenth of what learning a short message took.
    waiting: tuple[Lesson, ...] = field(default=(), repr=False)

    @classmethod
    def shipped(cls, specification: Specification) -> Fusion:
        """Return the weights before the first message."""
        return cls(
            np.array([term.weight for term in specification.verdict.terms]),
            np.zeros(specification.n_classes),
            Examples.none(specification),
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
        """
        rule = specification.verdict.fusion
        if rule is None:
            return self
        rows = (*self.waiting, *lessons)
        due = revision - revision % rule.every
        if due <= before:
            return replace(self, waiting=rows)
        until = [row for row in rows if row.revision <= due]
        examples = self.examples.follow(until, specification, after=due - rule.window)
        return replace(
            _fitted(examples, specification, rule, due), waiting=rows[len(until) :]
        )


def _fitted(
    examples: Examples, specification: Specification, rule: FusionRule, revision: int
) -> Fusion:
    """Return the weights that are fitted to the examples, and the examples."""
    shipped = Fusion.shipped(specification)
    # Its own labels agree with it whatever it says: fitted to them, it would
    # become ever more certain of itself.
    known = examples.where(~examples.own)
    said = np.sign(known.log_odds)
    right = said == np.where(specification.spam_mask[known.labels], 1.0, -1.0)
    if not len(known) or right.mean() < rule.fair:
        return replace(shipped, fitted_revision=revision, examples=examples)
    weights = fit(
        known.terms,
        known.log_prior,
        known.labels,
        GaussianPull(
            weights=tuple(shipped.weights.tolist()),
            weight_deviation=rule.weight_deviation,
            bias_deviation=rule.bias_deviation,
        ),
    )
    return Fusion(weights.opinions, weights.bias, examples, revision, len(known))
