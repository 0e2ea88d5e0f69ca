"""Report: the model and its predictions as a document.

Contract of this file: the report is JSON as the standard has it.  A logarithm of
zero and an infinite loss are null, not tokens that only some parsers take.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app.lab.exact import written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.lab.columns import LearnedTable
    from app.lab.fitted import Fitted, Prediction
    from app.lab.regressed import Regressed
    from app.lab.validation import Effect, Validation


def as_json(
    model: Fitted | Regressed,
    predictions: Sequence[Prediction],
    *,
    train: Validation,
    test: Validation | None,
    folds: Validation | None,
    effects: Sequence[Effect] = (),
) -> dict[str, Any]:
    """Return a model with its predictions as one JSON object.

    Parameters
    ----------
    model : Fitted or Regressed
        The model.
    predictions : sequence of Prediction
        Its predictions, one for each question.
    train : Validation
        Its decisions on the table itself.
    test, folds : Validation or None
        Those on a test table and in cross-validation; None where nobody asked.
    effects : sequence of Effect
        What each pseudo-count makes of them.
    """
    design = model.design
    log_prior = model.log_prior.tolist()
    linear = model.linear()
    return {
        "target": design.target,
        "rows": len(design.rows),
        "columns": [
            {"column": column, "kind": str(kind), "model": design.model(column)}
            for column, kind in design.kinds.items()
        ],
        "notes": list(model.notes),
        "classes": [
            {
                "class": name,
                "rows": int(model.messages[c]),
                "prior": math.exp(log_prior[c]),
                "prior_fraction": written(model.priors[c]),
            }
            for c, name in enumerate(design.classes)
        ],
        "learned": [_learned(table) for table in model.learned()],
        "linear": None if linear is None else _learned(linear),
        "training": _validation(train, design.classes),
        "predictions": [_prediction(p, design.classes) for p in predictions],
        "test": _validation(test, design.classes),
        "cross_validation": _validation(folds, design.classes),
        "alphas": [
            {
                "alpha": effect.alpha,
                "log_joint": _finite(effect.log_joint),
                "log_loss": _optional(effect.log_loss),
                "posteriors": [list(posterior) for posterior in effect.posteriors],
            }
            for effect in effects
        ],
    }


def _learned(table: LearnedTable) -> dict[str, Any]:
    return {
        "title": table.title,
        "header": list(table.header),
        "rows": [
            {
                "name": name,
                "numbers": [asdict(number) for number in numbers],
            }
            for name, numbers in table.rows
        ],
    }


def _prediction(prediction: Prediction, classes: Sequence[str]) -> dict[str, Any]:
    joint, posterior = prediction.joint, prediction.posterior
    best = [classes[c] for c in prediction.best]
    return {
        "row": dict(prediction.row.cells),
        "actual": prediction.actual,
        "decision": best[0] if len(best) == 1 else None,
        "tied": best if len(best) > 1 else [],
        "classes": [
            {
                "class": name,
                "log_joint": _finite(prediction.log_joint[c]),
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
                "nats": [_finite(nats) for nats in term.nats.tolist()],
            }
            for term in prediction.terms
        ],
        "unseen": list(prediction.unseen),
        "outside_vocabulary": list(prediction.outside),
        "likelihood": prediction.kind,
        "log_coefficient": prediction.coefficient,
        "linear": None
        if prediction.linear is None
        else (prediction.linear - prediction.linear[0]).tolist(),
    }


def _validation(
    validation: Validation | None, classes: Sequence[str]
) -> dict[str, Any] | None:
    if validation is None:
        return None
    return {
        "folds": validation.folds,
        "seed": validation.seed,
        "rows": validation.rows,
        "right": validation.right,
        "accuracy": validation.accuracy,
        "error_rate": validation.error_rate,
        "log_likelihood": _finite(validation.log_likelihood),
        "log_joint": _optional(validation.log_joint),
        "log_loss": _finite(validation.log_loss),
        "impossible": validation.impossible,
        "confusion": [
            {
                "class": name,
                "decided": dict(zip(classes, line[:-1], strict=True)),
                "tied": line[-1],
            }
            for name, line in zip(classes, validation.confusion.tolist(), strict=True)
        ],
    }


def _optional(number: float | None) -> float | None:
    return None if number is None else _finite(number)


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
