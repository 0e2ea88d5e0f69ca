"""Fitted models of a table: naive Bayes, and logistic regression.

Both have what was learned and the linear form as tables, and predict rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.bayes.models import Product
from app.bayes.models.logistic import LogisticRegression, regress
from app.bayes.moments import MomentSums
from app.bayes.prior import FittedPrior
from app.errors import InvalidObservation, MalformedTable
from app.lab.groups import FACTORS, LearnedTable, Number, RowTerm, Share, prior_shares
from app.lab.prediction import Prediction, linear_table, product

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from app.bayes.linear import LinearForm
    from app.kernels import Floats, Ints
    from app.lab.design import Design
    from app.lab.groups import ColumnGroup
    from app.lab.table import Row


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

    messages: Ints
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
                states[:] = [part.statistics.sum(states, n_classes=k)]
    totals = {
        name: design.parts[name].statistics.sum(states, n_classes=k)
        for name, states in waiting.items()
    }
    return Sums(messages, totals)


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
    log_prior: Floats
    likelihood: Product

    @property
    def messages(self) -> Ints:
        """Rows of each class, shape (K,)."""
        return self.sums.messages

    @property
    def priors(self) -> tuple[Share, ...]:
        """The class prior, exactly."""
        return prior_shares(self.design.choices.prior, self.sums.messages.tolist())

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was left out or changed."""
        dropped: dict[tuple[str, str], list[str]] = {}
        of_parts: list[str] = []
        for _, part, state, likelihood in self._parts:
            columns, why = part.dropped(likelihood)
            dropped.setdefault((part.model, why), []).extend(columns)
            of_parts += part.notes(state, likelihood)
        left_out = (
            f"Left out by the {model} model: {', '.join(columns)} ({why})."
            for (model, why), columns in dropped.items()
            if columns
        )
        return (*self.design.notes, *left_out, *of_parts)

    @property
    def _parts(self) -> Iterator[tuple[str, ColumnGroup, Any, Any]]:
        """The name of each part, the part, its training state and its likelihood."""
        for name, part in self.design.parts.items():
            state = self.sums.states[name]
            yield name, part, state, self.likelihood.likelihoods[name]

    def encode(self, row: Row) -> dict[str, Any]:
        """Return the views of a row."""
        return self.design.encode(row)

    def log_joint(self, views: Mapping[str, Any]) -> Floats:
        """Return ``log P(c) + log P(x | c)`` for each class.  Unit: nats."""
        return np.asarray(self.log_prior + self.likelihood(views))

    def learned(self) -> list[LearnedTable]:
        """Return the learned numbers as tables."""
        return [
            table
            for _, part, state, likelihood in self._parts
            for table in part.learned(state, likelihood, self.design.classes)
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
        unseen = [f"{c} {row.cells[c]}" for c in design.empty if c in row.cells]
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
            (outside if part.closed else unseen).extend(part.unknown_words(row))
        dense = any(
            design.parts[name].statistics is MomentSums and self._teaches(name)
            for name in views
        )
        whole = row.cells.keys() >= design.kinds.keys()
        coefficient = self.log_coefficient(views)
        return Prediction(
            row,
            row.cells.get(design.target),
            joint,
            self.factors(views),
            tuple(terms),
            tuple(unseen),
            tuple(outside),
            kind="density" if dense else "probability",
            linear=self._linear_at(views) if whole else None,
            coefficient=coefficient,
            orders=self._orders(views) if coefficient < READABLE_ORDERS else None,
        )

    def _teaches(self, name: str) -> bool:
        """Return whether a part has a column that was not dropped."""
        part = self.design.parts[name]
        dropped, _ = part.dropped(self.likelihood.likelihoods[name])
        return len(dropped) < len(part.columns)

    def forms(self) -> dict[str, LinearForm] | None:
        """Return the linear form of each part, None if one has none."""
        if not np.isfinite(self.log_prior).all():
            return None
        try:
            return {
                name: part.form(state, likelihood)
                for name, part, state, likelihood in self._parts
                if self._teaches(name)
            }
        except InvalidObservation:
            return None

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

    def _linear_at(self, views: Mapping[str, Any]) -> Floats | None:
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
        found = [[share.value for share in self.priors]]
        for name, x in views.items():
            if not self._teaches(name):
                continue
            factors = self.design.parts[name].factors(self.sums.states[name], x)
            if factors is None:
                return None
            found += factors
        return tuple(zip(*found, strict=True)) if len(found) <= FACTORS else None


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
        design.choices.prior.log_prior(state.messages),
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
    messages: Ints
    places: Mapping[tuple[str, int], int]
    values: Mapping[str, set[int]]
    model: LogisticRegression

    @property
    def log_prior(self) -> Floats:
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
        title = "log-likelihood of the most probable weights"
        if self.design.choices.deviation is None:
            title = "maximum of the log-likelihood, sum of log P(class | row)"
        rows = (
            ("log-likelihood", (Number(self.model.log_likelihood),)),
            ("largest entry of the gradient", (Number(self.model.gradient),)),
        )
        return [LearnedTable(title, ("nats",), rows)]

    def linear(self) -> LearnedTable:
        """Return the weights and the biases."""
        rows = [
            (self.design.parts[name].coordinates[number], self.model.weights[place])
            for (name, number), place in self.places.items()
        ]
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

    def log_joint(self, views: Mapping[str, Any]) -> Floats:
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
        # What is the baseline of its column has a weight of 0.
        nothing = np.zeros(len(design.classes))
        for name, x in views.items():
            part = design.parts[name]
            (outside if part.closed else unseen).extend(part.unknown_words(row))
            for number, value in zip(x.ids.tolist(), part.values_of(x), strict=True):
                place = self.places.get((name, number))
                nats = nothing if place is None else value * self.model.weights[place]
                terms.append(RowTerm(*part.feature(number, row), nats, seen=True))
        return Prediction(
            row,
            row.cells.get(design.target),
            scores,
            None,
            tuple(terms),
            tuple(unseen),
            tuple(outside),
            kind="score",
            linear=scores,
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
    features = [
        (name, number)
        for name, part in design.parts.items()
        for number in part.coordinates
        if number not in part.baseline
    ]
    places = {feature: place for place, feature in enumerate(features)}
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
        rows.reshape(len(examples), len(places)),
        labels,
        k,
        deviation=design.choices.deviation,
    )
    values = {
        name: {number for views, _ in examples for number in views[name].ids.tolist()}
        for name, part in design.parts.items()
        if part.baseline
    }
    return Regressed(design, np.bincount(labels, minlength=k), places, values, model)


def _coordinates(
    design: Design, places: Mapping[tuple[str, int], int], views: Mapping[str, Any]
) -> Floats:
    """Return the coordinates of a row, shape (D,)."""
    found = np.zeros(len(places))
    for name, x in views.items():
        values = design.parts[name].values_of(x)
        for number, value in zip(x.ids.tolist(), values, strict=True):
            if (name, number) in places:
                found[places[name, number]] = value
    return found
