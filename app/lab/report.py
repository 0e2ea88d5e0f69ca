"""Report: the model, its validation and its predictions as a document.

The logarithm of zero and an infinite loss stay infinite in the document; the command
line writes them as null, not as tokens that only some parsers accept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.bayes.posterior import log_posterior
from app.errors import InvalidObservation, MalformedTable
from app.figures import deal
from app.lab.design import design as design_of
from app.lab.fitted import Fitted, Regressed, fit, regressed, sums
from app.lab.groups import Share, probability, with_decimals, written
from app.lab.measured import Measured
from app.lab.prediction import decided

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.bayes.smoothing import Lidstone
    from app.kernels import Bools, Floats, Ints
    from app.lab.design import Design
    from app.lab.groups import Choices, LearnedTable
    from app.lab.prediction import Prediction
    from app.lab.table import Row, Table

FEWEST: Final = 2
"""Smallest number of folds; with one, nothing would be left to learn from."""
Tabulated = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""Header and rows of a table."""
MEASURES: Final = ("precision", "recall", "F1")
"""What `Validation.by_class` has of each class."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The decisions on rows whose class is known.

    Parameters
    ----------
    name : str
        Where the rows are from: "table".
    confusion : ndarray of int64, shape (K, K + 1)
        Rows by class (down) and decision (across); the last column counts
        those whose best classes were tied.
    log_likelihood : float
        Sum of ``log P(class | row)``; minus infinity if the true class of a row was
        impossible.  Unit: nats.
    log_joint : float or None
        Sum of ``log P(class, row)``, the log-likelihood of a generative model; None
        for logistic regression, which has no model of the row.  Unit: nats.
    impossible : int
        Rows whose true class was impossible.
    folds, seed : int or None
        Number of folds, and seed of the deal; None for a test table.
    """

    name: str
    confusion: Ints
    log_likelihood: float
    log_joint: float | None
    impossible: int
    folds: int | None = None
    seed: int | None = None

    @property
    def right(self) -> int:
        """Rows that were decided correctly."""
        return int(np.trace(self.confusion))

    @property
    def rows(self) -> int:
        """Rows that were decided."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """Share of the rows that were decided correctly; a tie counts as wrong."""
        return self.right / self.rows

    @property
    def error_rate(self) -> float:
        """Share of the other rows, ties included."""
        return 1 - self.accuracy

    @property
    def log_loss(self) -> float:
        """Mean of ``-log P(class | row)``.  Unit: nats."""
        # Not -x, which is -0.0 if every row is certain.
        return abs(self.log_likelihood) / self.rows

    @property
    def by_class(self) -> list[list[Share]]:
        """The `MEASURES` of each class; without rows or decisions, 0/0 and the like.

        Of the rows decided for a class, those that are right; of the rows of the class,
        those that are right; and the harmonic mean of both [1]_.

        References
        ----------
        .. [1] C. D. Manning, P. Raghavan and H. Schütze, *Introduction to Information
           Retrieval*, Cambridge University Press, 2008, sections 8.3 and 13.6.
        """
        right, rows = np.diagonal(self.confusion), self.confusion.sum(axis=1)
        decided = self.confusion[:, :-1].sum(axis=0)
        parts = [[right, decided], [right, rows], [2 * right, decided + rows]]
        return [
            [Share(*map(Fraction, pair)) for pair in of_class]
            for of_class in np.transpose(parts, (2, 0, 1)).tolist()
        ]

    @property
    def macro(self) -> list[float]:
        """The mean of each of the `MEASURES` over the classes with rows or decisions.

        0/0 counts as 0, as in scikit-learn.
        """
        there = [shares for shares in self.by_class if shares[-1].denominator]
        return [
            float(mean(share.value for share in of)) for of in zip(*there, strict=True)
        ]


def learned(design: Design) -> Fitted | Regressed:
    """Return the model of a table.

    Raises
    ------
    InvalidObservation
        If the prior has another number of classes, or logistic regression has no
        maximum.
    """
    return regressed(design, design.examples) if design.logistic else fit(design)


def training(model: Fitted | Regressed) -> Validation:
    """Return the decisions of a model on the rows that it learned."""
    design = model.design
    return _decisions("table", ((model, *each) for each in design.examples), design)


def tested(model: Fitted | Regressed, rows: Sequence[Row], *, name: str) -> Validation:
    """Return the decisions on the rows of a test table, which has a name.

    Raises
    ------
    MalformedTable
        If a row has no class or an unknown one, or a cell is of another kind.
    """
    design, examples = model.design, []
    for row in rows:
        label = row.cells.get(design.target)
        if label not in design.classes:
            has = "no class" if label is None else f"the class {label!r}"
            raise MalformedTable(
                f"{row.where} of the test table has {has}; the classes are "
                f"{', '.join(design.classes)}"
            )
        examples.append((model.encode(row), design.classes.index(label)))
    return _decisions(name, ((model, *example) for example in examples), design)


def cross_validate(design: Design, *, folds: int, seed: int) -> Validation:
    """Score each row by a model of the rows in the other folds.

    Each fold is subtracted from the sums of all rows, which is exact; a regression has
    no sums, and is fitted for each fold.

    Raises
    ------
    InvalidObservation
        If there are fewer rows than folds, or fewer than two folds, or if a
        regression has no maximum without the rows of a fold.
    """
    n = len(design.examples)
    if not FEWEST <= folds <= n:
        msg = f"folds must be from {FEWEST} to the number of rows, {n}; got {folds}"
        raise InvalidObservation(msg)
    dealt = deal([label for _, label in design.examples], folds=folds, seed=seed)
    everything = None if design.logistic else sums(design, design.examples)

    def decisions() -> Iterable[tuple[Fitted | Regressed, dict[str, Any], int]]:
        for fold in range(folds):
            members = [design.examples[i] for i in np.flatnonzero(dealt == fold)]
            model: Fitted | Regressed
            if everything is not None:
                model = fit(design, everything - sums(design, members))
            else:
                try:
                    model = _regressed_without(design, dealt == fold)
                except (InvalidObservation, MalformedTable) as error:
                    msg = f"without the rows of fold {fold + 1} of {folds}: {error}"
                    raise InvalidObservation(msg) from error
            for views, label in members:
                yield model, views, label

    name = f"{folds} stratified folds, seed {seed}"
    return replace(_decisions(name, decisions(), design), folds=folds, seed=seed)


def _regressed_without(design: Design, left_out: Bools) -> Regressed:
    """Return the regression of the other rows, which can encode those left out."""
    model = regressed(design, [design.examples[i] for i in np.flatnonzero(~left_out)])
    for i in np.flatnonzero(left_out):
        model.encode(design.rows[i])
    return model


@dataclass(frozen=True, slots=True)
class Effect:
    """The figures for one pseudo-count.

    Parameters
    ----------
    alpha : float
        The pseudo-count.
    log_joint : float
        Log-likelihood of the table.  Unit: nats.
    log_loss : float or None
        Of cross-validation; None if not requested.  Unit: nats.
    log_posteriors : tuple of ndarray of float64, shape (K,)
        ``log P(class | row)`` of each row that is predicted.  Unit: nats.
    """

    alpha: float
    log_joint: float
    log_loss: float | None
    log_posteriors: tuple[Floats, ...]

    @property
    def posteriors(self) -> tuple[tuple[float, ...], ...]:
        """``P(class | row)`` of each row that is predicted."""
        return tuple(tuple(np.exp(logs).tolist()) for logs in self.log_posteriors)


def compare(
    table: Table,
    choices: Choices,
    smoothings: Sequence[Lidstone],
    rows: Sequence[Row],
    *,
    folds: int | None,
    seed: int,
) -> list[Effect]:
    """Return the figures for each pseudo-count.

    Raises
    ------
    InvalidObservation
        If the model has no pseudo-counts.
    """
    effects = []
    for smoothing in smoothings:
        plan = design_of(table, replace(choices, smoothing=smoothing))
        if all(isinstance(part, Measured) for part in plan.parts.values()):
            msg = "no column is counted, so there is no pseudo-count to compare"
            raise InvalidObservation(msg)
        model = learned(plan)
        train = training(model)
        if train.log_joint is None:
            msg = "logistic regression has no pseudo-counts; leave out --alphas"
            raise InvalidObservation(msg)
        loss = None
        if folds is not None:
            loss = cross_validate(plan, folds=folds, seed=seed).log_loss
        logs = tuple(model.predict(row).log_posterior for row in rows)
        effects.append(Effect(smoothing.alpha, train.log_joint, loss, logs))
    return effects


def nats(number: float) -> str:
    """Return a number with four digits; a rounded zero has no sign."""
    return f"{round(number, 4) + 0.0:.4f}"


def learned_rows(table: LearnedTable) -> list[tuple[str, ...]]:
    """Return the rows of a table of learned numbers, as text."""
    return [
        (
            name,
            *(
                with_decimals(each.fraction, each.value)
                + (f" [{each.note}]" if each.note else "")
                for each in numbers
            ),
        )
        for name, numbers in table.rows
    ]


def prior_table(model: Fitted | Regressed) -> Tabulated:
    """Return header and rows of the class prior, with the rows of each class.

    Logistic regression has no prior, only the share of each class.
    """
    priors = zip(
        model.design.classes,
        model.messages.tolist(),
        model.priors,
        model.log_prior.tolist(),
        strict=True,
    )
    heading = "prior" if isinstance(model, Fitted) else "share"
    return (model.design.target, "rows", heading), [
        (name, f"{n}", with_decimals(written(share), math.exp(log)))
        for name, n, share, log in priors
    ]


def confusion_table(validation: Validation, classes: Sequence[str]) -> Tabulated:
    """Return header and rows of the decisions: classes down, decisions across."""
    lines = zip(classes, validation.confusion.tolist(), strict=True)
    return ("", *classes, "tied"), [(c, *(f"{n:,}" for n in line)) for c, line in lines]


def measures_table(validation: Validation, classes: Sequence[str]) -> Tabulated:
    """Return header and rows of the measures of each class, and of their mean."""
    of_classes = [
        (
            name,
            *(
                with_decimals(str(each), float(each.value)) if each.denominator else "-"
                for each in shares
            ),
        )
        for name, shares in zip(classes, validation.by_class, strict=True)
    ]
    mean_of = (with_decimals(None, value) for value in validation.macro)
    return ("", *MEASURES), [*of_classes, ("(mean)", *mean_of)]


def effects_table(effects: Sequence[Effect], classes: Sequence[str]) -> Tabulated:
    """Return header and rows of the figures for each pseudo-count."""
    if not effects:
        return (), []
    asked = range(len(effects[0].log_posteriors))
    of_folds = effects[0].log_loss is not None
    header = ("alpha", "log-likelihood", *(["log-loss of the folds"] * of_folds))
    rows = [
        (
            f"{e.alpha:g}",
            nats(e.log_joint),
            *([nats(e.log_loss)] if e.log_loss is not None else []),
            *(
                probability(None, logs, c)
                for logs in e.log_posteriors
                for c in range(len(classes))
            ),
        )
        for e in effects
    ]
    return (*header, *(f"{i + 1}: P({c} | row)" for i in asked for c in classes)), rows


def _decisions(
    name: str,
    examples: Iterable[tuple[Fitted | Regressed, Mapping[str, Any], int]],
    design: Design,
) -> Validation:
    """Return the figures of rows, each with the model that decides on it."""
    k = len(design.classes)
    confusion = np.zeros((k, k + 1), np.int64)
    own, joints = [], []
    for model, views, label in examples:
        joint = model.log_joint(views)
        best = decided(joint, partial(model.joint, views))
        confusion[label, best[0] if len(best) == 1 else k] += 1
        own.append(float(log_posterior(joint)[label]))
        if isinstance(model, Fitted):
            joints.append(float(joint[label]) + model.log_coefficient(views))
    return Validation(
        name,
        confusion,
        math.fsum(own),
        None if design.logistic else math.fsum(joints),
        sum(nats == -math.inf for nats in own),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A model of a table, and what was asked about it.

    Parameters
    ----------
    model : Fitted or Regressed
        The model.
    predictions : sequence of Prediction
        Its predictions, one for each question.
    training : Validation
        Its decisions on the table itself.
    test, folds : Validation or None
        Those on a test table and in cross-validation; None if not requested.
    effects : sequence of Effect
        The figures for each pseudo-count.
    """

    model: Fitted | Regressed
    predictions: Sequence[Prediction]
    training: Validation
    test: Validation | None = None
    folds: Validation | None = None
    effects: Sequence[Effect] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the table."""
        return self.model.design.classes

    @property
    def validations(self) -> list[Validation]:
        """All decisions: those on the table first."""
        return [v for v in (self.training, self.test, self.folds) if v is not None]

    def document(self) -> dict[str, Any]:
        """Return it as one JSON object; infinite numbers become null in it."""
        model, design, classes = self.model, self.model.design, self.classes
        log_prior = model.log_prior.tolist()
        linear = model.linear()
        return {
            "target": design.target,
            "rows": len(design.rows),
            "columns": [
                {"column": column, "kind": kind, "model": design.model(column)}
                for column, kind in design.kinds.items()
            ],
            "notes": model.notes,
            "classes": [
                {
                    "class": name,
                    "rows": int(model.messages[c]),
                    "prior": math.exp(log_prior[c]),
                    "prior_fraction": written(model.priors[c]),
                }
                for c, name in enumerate(classes)
            ],
            "learned": [_learned(table) for table in model.learned()],
            "linear": linear and _learned(linear),
            "training": _validation(self.training, classes),
            "predictions": [_prediction(each, classes) for each in self.predictions],
            "test": self.test and _validation(self.test, classes),
            "cross_validation": self.folds and _validation(self.folds, classes),
            "alphas": [
                {name: getattr(effect, name) for name in _EFFECT}
                for effect in self.effects
            ],
        }


def _learned(table: LearnedTable) -> dict[str, Any]:
    rows = [{"name": name, "numbers": numbers} for name, numbers in table.rows]
    return {"title": table.title, "header": table.header, "rows": rows}


def _prediction(prediction: Prediction, classes: Sequence[str]) -> dict[str, Any]:
    joint, posterior = prediction.joint, prediction.posterior
    best = [classes[c] for c in prediction.best]
    linear = prediction.linear
    return {
        "row": prediction.row.cells,
        "actual": prediction.actual,
        "decision": best[0] if len(best) == 1 else None,
        "tied": best if len(best) > 1 else [],
        "classes": [
            {
                "class": name,
                "log_joint": float(prediction.log_joint[c]),
                "joint_fraction": written(joint[c] if joint else None),
                "posterior": math.exp(prediction.log_posterior[c]),
                "posterior_fraction": written(posterior[c] if posterior else None),
            }
            for c, name in enumerate(classes)
        ],
        "contributions": [
            {
                "column": term.column,
                "feature": term.feature,
                "seen": term.seen,
                "nats": term.nats.tolist(),
            }
            for term in prediction.terms
        ],
        "unseen": prediction.unseen,
        "outside_vocabulary": prediction.outside,
        "likelihood": prediction.kind,
        "log_coefficient": prediction.coefficient,
        "linear": None if linear is None else (linear - linear[0]).tolist(),
    }


_EFFECT: Final = ("alpha", "log_joint", "log_loss", "posteriors")
_FIGURES: Final = (
    *("folds", "seed", "rows", "right", "accuracy", "error_rate"),
    *("log_likelihood", "log_joint", "log_loss", "impossible"),
)
_KEYS: Final = [measure.lower() for measure in MEASURES]


def _validation(validation: Validation, classes: Sequence[str]) -> dict[str, Any]:
    confusion = validation.confusion.tolist()
    return {
        **{name: getattr(validation, name) for name in _FIGURES},
        "macro": dict(zip(_KEYS, validation.macro, strict=True)),
        "confusion": [
            {
                "class": name,
                "decided": dict(zip(classes, line, strict=False)),
                "tied": tied,
                **{
                    key: float(share.value) if share.denominator else None
                    for key, share in zip(_KEYS, shares, strict=True)
                },
            }
            for name, (*line, tied), shares in zip(
                classes, confusion, validation.by_class, strict=True
            )
        ],
    }
