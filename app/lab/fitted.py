"""Fitted models, logistic regression among them: their parameters and predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from app.bayes.likelihood import Product
from app.bayes.models.logistic import LogisticRegression, regress
from app.bayes.moments import MomentSums
from app.bayes.posterior import log_posterior
from app.bayes.prior import FittedPrior
from app.errors import MalformedTable
from app.lab.groups import (
    FACTORS,
    LearnedTable,
    Number,
    RowTerm,
    Share,
    posterior,
    prior_shares,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from app.bayes.linear import LinearForm
    from app.lab.design import Design
    from app.lab.table import Row


ROUNDING: Final = 1e-9
RELATIVE: Final = 1e-12
"""Relative difference of two log-joints that may be due to rounding."""
READABLE_ORDERS: Final = 70.0
"""Logarithm of the largest multinomial coefficient with all its digits.  Unit: nats."""
CHUNK = 64
"""Rows that are summed at once; the moments of single rows take much memory."""


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
        As `app.bayes` computes them.  Unit: nats.
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
    log_joint: NDArray[np.float64]
    log_posterior: NDArray[np.float64]
    factors: tuple[tuple[Fraction, ...], ...] | None
    terms: tuple[RowTerm, ...]
    unseen: tuple[str, ...]
    outside: tuple[str, ...] = ()
    kind: Literal["probability", "density", "score"] = "probability"
    linear: NDArray[np.float64] | None = None
    coefficient: float = 0.0
    orders: int | None = None

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
    def messages(self) -> NDArray[np.int64]:
        """Rows of each class, shape (K,)."""
        return self.sums.messages

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

    def encode(self, row: Row) -> dict[str, Any]:
        """Return the views of a row."""
        return self.design.encode(row)

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
        views = self.encode(row)
        joint = self.log_joint(views)
        terms = [RowTerm("prior", "", self.log_prior, seen=True)]
        unseen: list[str] = []
        outside: list[str] = []
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
            words = [f"{part.columns[0]} {word}" for word in part.unknown_words(row)]
            (outside if part.closed else unseen).extend(words)
        coefficient = self.log_coefficient(views)
        return Prediction(
            row,
            row.cells.get(design.target),
            joint,
            log_posterior(joint),
            self.factors(views),
            tuple(terms),
            tuple(unseen),
            tuple(outside),
            (
                "density"
                if any(
                    design.parts[name].statistics is MomentSums and self._teaches(name)
                    for name in views
                )
                else "probability"
            ),
            self._linear_at(views) if row.cells.keys() >= design.kinds.keys() else None,
            coefficient,
            self._orders(views) if coefficient < READABLE_ORDERS else None,
        )

    def _teaches(self, name: str) -> bool:
        """Return whether a part has a column that was not dropped."""
        part = self.design.parts[name]
        dropped, _ = part.dropped(self.likelihood.likelihoods[name])
        return len(dropped) < len(part.columns)

    def forms(self) -> dict[str, LinearForm] | None:
        """Return the linear form of each part, None if one has none."""
        found = {}
        for name, part in self.design.parts.items():
            if not self._teaches(name):
                continue
            form = part.form(self.sums.states[name], self.likelihood.likelihoods[name])
            if form is None or not np.isfinite(form.weights).all():
                return None
            found[name] = form
        return found if np.isfinite(self.log_prior).all() else None

    def linear(self) -> LearnedTable | None:
        """Return the weights and the bias; None if the model is not linear."""
        forms = self.forms()
        if forms is None:
            return None
        bias, rows = self.log_prior.copy(), []
        for name, form in forms.items():
            names = self.design.parts[name].coordinates
            bias += form.bias
            rows += [
                (names[i], weights)
                for i, weights in zip(form.ids.tolist(), form.weights, strict=True)
            ]
        return linear_table(self.design.classes, rows, bias)

    def _linear_at(self, views: Mapping[str, Any]) -> NDArray[np.float64] | None:
        forms = self.forms()
        if forms is None:
            return None
        scores = self.log_prior.copy()
        for name, form in forms.items():
            x = views[name]
            scores += form.scores(x.ids, self.design.parts[name].values_of(x))
        return scores

    def _counts(self, views: Mapping[str, Any]) -> list[list[int]]:
        """Return how often each word of a row occurs, for each multinomial part."""
        return [
            x.counts[self.likelihood.likelihoods[name].contributions(x).seen].tolist()
            for name, x in views.items()
            if self.design.parts[name].model == "multinomial"
        ]

    def log_coefficient(self, views: Mapping[str, Any]) -> float:
        """Return the logarithm of the multinomial coefficient."""
        return math.fsum(
            math.lgamma(1 + sum(times)) - math.fsum(math.lgamma(1 + n) for n in times)
            for times in self._counts(views)
        )

    def _orders(self, views: Mapping[str, Any]) -> int:
        """Return the multinomial coefficient."""
        return prod(
            math.comb(so_far, n)
            for times in self._counts(views)
            for so_far, n in zip(accumulate(times), times, strict=True)
        )

    def joint(self, views: Mapping[str, Any]) -> tuple[Fraction, ...] | None:
        """Return P(class) P(row | class) exactly, None if that is not possible."""
        factors = self.factors(views)
        return None if factors is None else product(factors)

    def factors(
        self, views: Mapping[str, Any]
    ) -> tuple[tuple[Fraction, ...], ...] | None:
        """Return the prior and each probability of a row, by class."""
        k = len(self.design.classes)
        found = [[share.value] for share in self.priors]
        for name, x in views.items():
            if not self._teaches(name):
                continue
            part = self.design.parts[name]
            factors = part.factors(self.sums.states[name], x, n_classes=k)
            if factors is None:
                return None
            for c in range(k):
                found[c] += factors[c]
        if len(found[0]) > FACTORS:
            return None
        return tuple(tuple(f) for f in found)


def linear_table(
    classes: Sequence[str],
    rows: Iterable[tuple[str, NDArray[np.float64]]],
    bias: NDArray[np.float64],
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
        If the prior has another number of classes.
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


COORDINATES_LIMIT: Final = 400
"""Largest number of weights; a step of the fit takes time with its cube."""


@dataclass(frozen=True, slots=True)
class Regressed:
    """Logistic regression of a table.

    Parameters
    ----------
    design : Design
        The design of the table.
    messages : ndarray of int64, shape (K,)
        Rows of each class.
    places : mapping of (str, int) to int
        The coordinate of a feature of a part.
    values : mapping of str to set of int
        The features of each part of categories that the rows have.
    model : LogisticRegression
        Weights and biases over the coordinates.
    """

    design: Design
    messages: NDArray[np.int64]
    places: Mapping[tuple[str, int], int]
    values: Mapping[str, set[int]]
    model: LogisticRegression

    @property
    def log_prior(self) -> NDArray[np.float64]:
        """The share of each class.  Unit: nats."""
        return FittedPrior().log_prior(self.messages)

    @property
    def priors(self) -> tuple[Share, ...]:
        """The share of each class, exactly."""
        return prior_shares(FittedPrior(), self.messages.tolist())

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was left out, and about weights that are not unique."""
        if self.model.unique:
            return self.design.notes
        return (
            *self.design.notes,
            "A column follows from others, so other weights are equally good; the "
            "shortest for columns of variance 1 are shown.",
        )

    def learned(self) -> list[LearnedTable]:
        """Return the log-likelihood at the maximum, and the largest derivative."""
        return [
            LearnedTable(
                "maximum of the log-likelihood, sum of log P(class | row)"
                if self.design.deviation is None
                else "log-likelihood of the most probable weights",
                ("nats",),
                (
                    ("log-likelihood", (Number(self.model.log_likelihood),)),
                    ("largest entry of the gradient", (Number(self.model.gradient),)),
                ),
            )
        ]

    def linear(self) -> LearnedTable:
        """Return the weights and the biases."""
        names = {
            place: self.design.parts[name].coordinates[number]
            for (name, number), place in self.places.items()
        }
        rows = [(names[i], weights) for i, weights in enumerate(self.model.weights)]
        return linear_table(self.design.classes, rows, self.model.bias)

    def encode(self, row: Row) -> dict[str, Any]:
        """Return the views of a row, which has to be whole.

        Raises
        ------
        MalformedTable
            If a cell is empty, not of the kind of its column, or a value that no row
            had.
        """
        for column in self.design.kinds:
            if column not in row.cells:
                raise MalformedTable(
                    f"{row.where} has no value in column {column!r}, and logistic "
                    "regression needs complete rows"
                )
        views = self.design.encode(row)
        for name, values in self.values.items():
            for number in set(views[name].ids.tolist()) - values:
                column, cell = self.design.parts[name].feature(number, row)
                # Without a weight it would be scored as the first value of its column.
                raise MalformedTable(
                    f"{row.where} has {cell!r} in column {column!r}, a value that no "
                    "teaching row has, so logistic regression has no weight for it; "
                    "leave out the row, or the column with --columns"
                )
        return views

    def log_joint(self, views: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return ``w . x + b`` of each class.  Unit: nats."""
        return self.model.scores(_coordinates(self.design, self.places, views))

    def joint(self, views: Mapping[str, Any]) -> None:
        """Return None: the weights are not fractions."""

    def predict(self, row: Row) -> Prediction:
        """Return the prediction of a row.

        Raises
        ------
        MalformedTable
            If the row cannot be encoded.
        """
        design = self.design
        views = self.encode(row)
        scores = self.log_joint(views)
        terms = [RowTerm("bias", "", self.model.bias, seen=True)]
        unseen: list[str] = []
        outside: list[str] = []
        for name, x in views.items():
            part = design.parts[name]
            words = [f"{part.columns[0]} {word}" for word in part.unknown_words(row)]
            (outside if part.closed else unseen).extend(words)
            pairs = zip(x.ids.tolist(), part.values_of(x).tolist(), strict=True)
            for number, value in pairs:
                # What is the baseline of its column has a weight of 0.
                nats = np.zeros(len(design.classes))
                if (name, number) in self.places:
                    nats = value * self.model.weights[self.places[name, number]]
                terms.append(RowTerm(*part.feature(number, row), nats, seen=True))
        return Prediction(
            row,
            row.cells.get(design.target),
            scores,
            log_posterior(scores),
            None,
            tuple(terms),
            tuple(unseen),
            tuple(outside),
            "score",
            scores,
        )


def regressed(
    design: Design, examples: Sequence[tuple[dict[str, Any], int]]
) -> Regressed:
    """Return the logistic regression of a table, or of some of its rows.

    Raises
    ------
    InvalidObservation
        If the likelihood has no maximum, or a class no row.
    MalformedTable
        If there are too many coordinates.
    """
    places = {
        (name, number): place
        for place, (name, number) in enumerate(
            (name, number)
            for name, part in design.parts.items()
            for number in part.coordinates
            if number not in part.baseline
        )
    }
    k = len(design.classes)
    weights = len(places) * (k - 1)
    if weights > COORDINATES_LIMIT:
        raise MalformedTable(
            f"the columns need {weights} weights, for values, words and classes, and "
            f"the limit of logistic regression is {COORDINATES_LIMIT}; choose "
            "columns, or a vocabulary"
        )
    rows = np.array([_coordinates(design, places, views) for views, _ in examples])
    labels = np.array([label for _, label in examples], np.int64)
    model = regress(
        rows.reshape(len(examples), len(places)), labels, k, deviation=design.deviation
    )
    values = {
        name: {number for views, _ in examples for number in views[name].ids.tolist()}
        for name, part in design.parts.items()
        if part.baseline
    }
    return Regressed(design, np.bincount(labels, minlength=k), places, values, model)


def _coordinates(
    design: Design, places: Mapping[tuple[str, int], int], views: Mapping[str, Any]
) -> NDArray[np.float64]:
    """Return the coordinates of a row, shape (D,)."""
    found = np.zeros(len(places))
    for name, x in views.items():
        values = design.parts[name].values_of(x).tolist()
        for number, value in zip(x.ids.tolist(), values, strict=True):
            if (name, number) in places:
                found[places[name, number]] = value
    return found
