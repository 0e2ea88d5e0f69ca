"""Logistic regression of a table: its weights and predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.bayes.models.logistic import LogisticRegression, regress
from app.bayes.prior import FittedPrior
from app.errors import MalformedTable
from app.lab.groups import LearnedTable, Number, RowTerm, Share, prior_shares
from app.lab.prediction import Prediction, linear_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.lab.design import Design
    from app.lab.table import Row


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
) -> NDArray[np.float64]:
    """Return the coordinates of a row, shape (D,)."""
    found = np.zeros(len(places))
    for name, x in views.items():
        values = design.parts[name].values_of(x)
        for number, value in zip(x.ids.tolist(), values, strict=True):
            if (name, number) in places:
                found[places[name, number]] = value
    return found
