"""Predictions: the classes of a row, their probabilities, and the terms of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from app.bayes.posterior import log_posterior
from app.lab.groups import LearnedTable, Number, RowTerm, posterior

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from app.kernels import Floats
    from app.lab.table import Row


ROUNDING: Final = 1e-9
RELATIVE: Final = 1e-12
"""Relative difference of two log-joints that may be due to rounding."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction of a row.

    Parameters
    ----------
    row : Row
        The row.
    actual : str or None
        Its class, if the row has it.
    log_joint : ndarray of float64, shape (K,)
        As `app.bayes` computes it.  Unit: nats.
    factors : tuple of tuple of Fraction, or None
        Prior and likelihoods of each class, as fractions; None if they are
        not rational, or too many.
    terms : tuple of RowTerm
        The log-joint, taken apart: the prior first.
    unseen : tuple of str
        Features that are left out because training has not seen them and they are
        not declared.
    outside : tuple of str
        Words that are left out because the declared vocabulary lacks them.
    kind : {"probability", "density", "score"}
        The kind of likelihood: a density if the row has measurements, a score if
        only the posterior is modelled.
    linear : ndarray of float64, shape (K,), or None
        The linear form at the row, if the model has one and the row all columns.
    coefficient : float
        Logarithm of the multinomial coefficient, which the likelihoods omit.  Unit:
        nats.
    orders : int or None
        The coefficient; None if it is too long to read.
    """

    row: Row
    actual: str | None
    log_joint: Floats
    factors: tuple[tuple[Fraction, ...], ...] | None
    terms: tuple[RowTerm, ...]
    unseen: tuple[str, ...]
    outside: tuple[str, ...] = ()
    kind: Literal["probability", "density", "score"] = "probability"
    linear: Floats | None = None
    coefficient: float = 0.0
    orders: int | None = None

    @property
    def log_posterior(self) -> Floats:
        """``log P(class | row)``, shape (K,).  Unit: nats."""
        return log_posterior(self.log_joint)

    @property
    def joint(self) -> tuple[Fraction, ...] | None:
        """P(class) P(row | class) exactly, where that is possible."""
        return None if self.factors is None else product(self.factors)

    @property
    def posterior(self) -> tuple[Fraction, ...] | None:
        """P(class | row) exactly, where that is possible."""
        joint = self.joint
        return None if joint is None else posterior(joint)

    @property
    def best(self) -> tuple[int, ...]:
        """The classes of the largest joint: more than one if they are tied."""
        return decided(self.log_joint, lambda: self.joint)


def decided(
    log_joint: Floats, exact: Callable[[], Sequence[Fraction] | None]
) -> tuple[int, ...]:
    """Return the classes of the largest joint: more than one if they are tied.

    Parameters
    ----------
    log_joint : ndarray of float64, shape (K,)
        Unit: nats.
    exact : callable
        Returns the joint of each class as fractions, None if there are none.

    Notes
    -----
    All decisions about rows use this rule.  If two logarithms differ by no more than
    their rounding errors, the fractions decide; without fractions, the classes are
    tied.
    """
    best = float(log_joint.max())
    room = max(ROUNDING, RELATIVE * abs(best)) if best > -math.inf else 0.0
    close = np.flatnonzero(log_joint >= best - room).tolist()
    if len(close) > 1 and (joint := exact()) is not None:
        largest = max(joint[c] for c in close)
        close = [c for c in close if joint[c] == largest]
    return tuple(close)


def product(factors: Sequence[Sequence[Fraction]]) -> tuple[Fraction, ...]:
    """Return the product of the factors of each class."""
    return tuple(prod(f, start=Fraction(1)) for f in factors)


def linear_table(
    classes: Sequence[str], rows: Iterable[tuple[str, Floats]], bias: Floats
) -> LearnedTable:
    """Return the weights and biases of the log-odds of each class to the first."""
    return LearnedTable(
        f"linear form: log P(class | row) - log P({classes[0]} | row) = w . x + b",
        tuple(classes[1:]),
        tuple(
            (name, tuple(Number(float(w - weights[0])) for w in weights[1:]))
            for name, weights in (*((f"w {name}", w) for name, w in rows), ("b", bias))
        ),
    )
