"""Fitted model: its predictions, and their accuracy by cross-validation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.bayes.likelihood import Product
from app.bayes.moments import MomentSums
from app.bayes.posterior import log_posterior
from app.errors import InvalidObservation
from app.lab.columns import LearnedTable, RowTerm
from app.lab.exact import FACTORS, Share, posterior, prior_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from app.lab.design import Design
    from app.lab.table import Row

ROUNDING: Final = 1e-9
RELATIVE: Final = 1e-12
"""How close two log-joints are of which rounding may have made either the larger."""
CHUNK = 64
"""Rows that are summed at a time: their moments are large one by one."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The training state of a set of rows.

    Parameters
    ----------
    messages : ndarray of int64, shape (K,)
        Rows of each class.
    states : mapping of str to FeatureCounts or MomentSums
        Statistics of each part, over the rows in which it is known.
    """

    messages: NDArray[np.int64]
    states: Mapping[str, Any]

    def __sub__(self, other: Sums) -> Sums:
        """Return the sums with those of other rows taken back, exactly."""
        states = {name: s - other.states[name] for name, s in self.states.items()}
        return Sums(self.messages - other.messages, states)


def sums(design: Design, examples: Iterable[tuple[dict[str, Any], int]]) -> Sums:
    """Return the training state of examples."""
    k = len(design.classes)
    messages = np.zeros(k, np.int64)
    waiting: dict[str, list[Any]] = {name: [] for name in design.parts}
    for views, label in examples:
        messages[label] += 1
        for name, x in views.items():
            part, states = design.parts[name], waiting[name]
            states.append(part.event_model.observe(x, label=label, n_classes=k))
            if len(states) > CHUNK:
                states[:] = [part.total(states, n_classes=k)]
    totals = {
        name: design.parts[name].total(states, n_classes=k)
        for name, states in waiting.items()
    }
    return Sums(messages, totals)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction of a row.

    Parameters
    ----------
    row : Row
        The row.
    actual : str or None
        Its class, if the row has it.
    log_joint, log_posterior : ndarray of float64, shape (K,)
        As `app.bayes` has them.  Unit: nats.
    factors : tuple of tuple of Fraction, or None
        Prior and likelihoods of each class, as fractions; None where they are
        not rational, or too many.
    terms : tuple of RowTerm
        The log-joint, taken apart: the prior first.
    unseen : tuple of str
        Features that are left out: training has not seen them, nor are they
        declared.
    density : bool
        Whether the likelihood is a density, as measurements have one.
    """

    row: Row
    actual: str | None
    log_joint: NDArray[np.float64]
    log_posterior: NDArray[np.float64]
    factors: tuple[tuple[Fraction, ...], ...] | None
    terms: tuple[RowTerm, ...]
    unseen: tuple[str, ...]
    density: bool = False

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
    log_joint: NDArray[np.float64], exact: Callable[[], Sequence[Fraction] | None]
) -> tuple[int, ...]:
    """Return the classes of the largest joint: more than one if they are tied.

    Parameters
    ----------
    log_joint : ndarray of float64, shape (K,)
        Unit: nats.
    exact : callable
        Returns the joint of each class as fractions, None where there are none.

    Notes
    -----
    The one rule for ties, wherever a row is decided.  Two logarithms that are no
    further apart than their rounding errors say nothing: there the fractions
    decide, and where there are none the classes are tied.
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


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted model of a table.

    Parameters
    ----------
    design : Design
        The design of the table.
    sums : Sums
        The training state.
    log_prior : ndarray of float64, shape (K,)
        Unit: nats.
    likelihood : Product
        The event models of the parts.
    """

    design: Design
    sums: Sums
    log_prior: NDArray[np.float64]
    likelihood: Product

    @property
    def priors(self) -> tuple[Share, ...]:
        """The class prior, exactly."""
        return prior_shares(self.design.prior, self.sums.messages.tolist())

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was left out or changed."""
        likelihoods = self.likelihood.likelihoods
        dropped: dict[tuple[str, str], list[str]] = {}
        for name, part in self.design.parts.items():
            columns, why = part.dropped(likelihoods[name])
            dropped.setdefault((part.model, why), []).extend(columns)
        return (
            *self.design.notes,
            *(
                f"Left out by the {model} model: {', '.join(columns)} ({why})."
                for (model, why), columns in dropped.items()
                if columns
            ),
            *(
                note
                for name, part in self.design.parts.items()
                for note in part.notes(self.sums.states[name], likelihoods[name])
            ),
        )

    def log_joint(self, views: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return ``log P(c) + log P(x | c)`` for each class.  Unit: nats."""
        joint: NDArray[np.float64] = self.log_prior + self.likelihood(views)
        return joint

    def learned(self) -> list[LearnedTable]:
        """Return the learned numbers as tables."""
        return [
            table
            for name, part in self.design.parts.items()
            for table in part.learned(
                self.sums.states[name],
                self.likelihood.likelihoods[name],
                self.design.classes,
            )
        ]

    def predict(self, row: Row) -> Prediction:
        """Return the prediction of a row.

        Raises
        ------
        MalformedTable
            If a cell is not of the kind of its column.
        """
        design = self.design
        views = design.encode(row)
        joint = self.log_joint(views)
        terms = [RowTerm("prior", "", self.log_prior, seen=True)]
        unseen = []
        for name, contributions in self.likelihood.contributions(views).items():
            part = design.parts[name]
            of_part = part.terms(row, views[name], contributions)
            terms += of_part
            dropped, _ = part.dropped(self.likelihood.likelihoods[name])
            unseen += [
                f"{t.column} {t.feature}"
                for t in of_part
                if not t.seen and t.column not in dropped
            ]
            unseen += [f"{part.columns[0]} {word}" for word in part.unknown_words(row)]
        return Prediction(
            row,
            row.cells.get(design.target),
            joint,
            log_posterior(joint),
            self.factors(views),
            tuple(terms),
            tuple(unseen),
            any(design.parts[name].statistics is MomentSums for name in views),
        )

    def joint(self, views: Mapping[str, Any]) -> tuple[Fraction, ...] | None:
        """Return P(class) P(row | class) exactly, None where that is not possible."""
        factors = self.factors(views)
        return None if factors is None else product(factors)

    def factors(
        self, views: Mapping[str, Any]
    ) -> tuple[tuple[Fraction, ...], ...] | None:
        """Return the prior and each probability of a row, by class."""
        k = len(self.design.classes)
        found = [[share.value] for share in self.priors]
        for name, x in views.items():
            part = self.design.parts[name]
            factors = part.factors(self.sums.states[name], x, n_classes=k)
            if factors is None:
                return None
            for c in range(k):
                found[c] += factors[c]
        if len(found[0]) > FACTORS:
            return None
        return tuple(tuple(f) for f in found)


def fit(design: Design, learned: Sums | None = None) -> Fitted:
    """Return the model of a table, or of some of its rows.

    Parameters
    ----------
    design : Design
        The design of the table.
    learned : Sums or None
        The training state of some of its rows; None for all of them.

    Raises
    ------
    InvalidObservation
        If the prior is stated for another number of classes.
    """
    state = sums(design, design.examples) if learned is None else learned
    likelihoods = {
        name: part.estimate(state.states[name]) for name, part in design.parts.items()
    }
    return Fitted(
        design,
        state,
        design.prior.log_prior(state.messages),
        Product(len(design.classes), likelihoods),
    )


FEWEST: Final = 2
"""Folds at least: with one, nothing is left to learn from."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The decisions on each row by a model of the other folds.

    Parameters
    ----------
    folds : int
        Number of folds.
    seed : int
        Seed of the deal.
    confusion : ndarray of int64, shape (K, K + 1)
        Rows by class (down) and decision (across); the last column counts
        those whose best classes were tied.
    log_loss : float
        Mean of ``-log P(class | row)``; infinite where a row's own class was
        impossible.  Unit: nats.
    impossible : int
        Rows whose own class was impossible.
    """

    folds: int
    seed: int
    confusion: NDArray[np.int64]
    log_loss: float
    impossible: int

    @property
    def right(self) -> int:
        """Rows that were decided correctly."""
        return int(np.trace(self.confusion))

    @property
    def rows(self) -> int:
        """Rows that were decided, in all folds together."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """Share of the rows that were decided correctly; a tie is not."""
        return self.right / self.rows


def deal(labels: Sequence[int], *, folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of each row, so that folds are alike in their classes.

    Parameters
    ----------
    labels : sequence of int
        Class of each row.
    folds : int
        Number of folds.
    seed : int
        Seed of the shuffle within each class.

    Examples
    --------
    >>> deal([0, 0, 0, 0, 1, 1], folds=2, seed=1).reshape(-1).tolist().count(0)
    3
    """
    random = np.random.default_rng(seed)
    classes = np.array(labels)
    # One deal around the table for all classes: no fold is more than one row
    # larger than another, of any class and of all.
    order = np.concatenate(
        [random.permutation(np.flatnonzero(classes == c)) for c in np.unique(classes)]
    )
    dealt = np.empty(classes.size, np.int64)
    dealt[order] = np.arange(classes.size) % folds
    return dealt


def cross_validate(design: Design, *, folds: int, seed: int) -> Validation:
    """Score each row by a model of the rows in the other folds.

    A fold is unlearned from the sums of all, which is exact, and not learned again.

    Raises
    ------
    InvalidObservation
        If there are fewer rows than folds, or fewer than two folds.
    """
    n, k = len(design.examples), len(design.classes)
    if not FEWEST <= folds <= n:
        msg = f"folds must be from {FEWEST} to the number of rows, {n}; got {folds}"
        raise InvalidObservation(msg)
    dealt = deal([label for _, label in design.examples], folds=folds, seed=seed)
    everything = sums(design, design.examples)
    confusion = np.zeros((k, k + 1), np.int64)
    losses = np.empty(n)
    for fold in range(folds):
        members = np.flatnonzero(dealt == fold).tolist()
        held_out = sums(design, [design.examples[i] for i in members])
        model = fit(design, everything - held_out)
        for i in members:
            views, label = design.examples[i]
            joint = model.log_joint(views)
            best = decided(joint, partial(model.joint, views))
            confusion[label, best[0] if len(best) == 1 else k] += 1
            losses[i] = -log_posterior(joint)[label]
    return Validation(
        folds, seed, confusion, float(losses.mean()), int(np.isinf(losses).sum())
    )
