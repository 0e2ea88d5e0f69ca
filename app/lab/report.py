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
    from app.lab.fitted import Fitted, Prediction, Validation


def as_json(
    fitted: Fitted, predictions: Sequence[Prediction], validation: Validation | None
) -> dict[str, Any]:
    """Return a model with its predictions as one JSON object.

    Parameters
    ----------
    fitted : Fitted
        The model.
    predictions : sequence of Prediction
        Its predictions, one for each question.
    validation : Validation or None
        Its accuracy; None where nobody asked.
    """
    design = fitted.design
    log_prior = fitted.log_prior.tolist()
    return {
        "target": design.target,
        "rows": len(design.rows),
        "columns": [
            {"column": column, "kind": str(kind), "model": design.model(column)}
            for column, kind in design.kinds.items()
        ],
        "notes": list(fitted.notes),
        "classes": [
            {
                "class": name,
                "rows": int(fitted.sums.messages[c]),
                "prior": math.exp(log_prior[c]),
                "prior_fraction": written(fitted.priors[c]),
            }
            for c, name in enumerate(design.classes)
        ],
        "learned": [_learned(table) for table in fitted.learned()],
        "predictions": [_prediction(p, design.classes) for p in predictions],
        "cross_validation": _validation(validation, design.classes),
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


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
