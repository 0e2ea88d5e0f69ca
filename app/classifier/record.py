"""What does the ledger keep of a score, and how is it read back?

Contract of this file: what the fusion is fitted to is what was written here,
rounded as it was written, whether it comes from memory or from the database.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.classifier.score import Verdict
    from app.classifier.specification import Specification

# What is not finite is None.
_NUMBERS: Final = frozenset((float, int))

DECIMALS: Final = 6
"""Of a nat: a thousandth of what a feature adds that is worth listing."""

# Of 6,000 made-up sets of examples, of up to 1e6 and 1e7 nats, each had weights; of
# those of up to 1e9, one in fifty had a curvature that cannot be inverted, and no
# service can be started on it.  Shipped terms are means and roots, and stay below 1e5.
_FITTED: Final = 1e6


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the terms said of a message, before any weight.

    Parameters
    ----------
    terms : ndarray of float64, shape (T, K)
        The normalised log-likelihood of each class by each term of the verdict's
        rule.  Unit: nats.
    log_prior : ndarray of float64, shape (K,)
        The log-prior at that time.  Unit: nats.
    log_odds : float
        The log-odds of the verdict.  Unit: nats.
    """

    terms: NDArray[np.float64]
    log_prior: NDArray[np.float64]
    log_odds: float


def record(verdict: Verdict, specification: Specification) -> Mapping[str, object]:
    """Return what the ledger keeps of the score before learning.

    It is what live figures and the fusion of the views need: the decision, its
    log-odds, what each classifier says by itself with the number of features that
    it rests on, and, relative to the first class, what each term of the verdict's
    rule says of each class.  What is not finite is None.

    Parameters
    ----------
    verdict : Verdict
        The verdict on a message.
    specification : Specification
        Under which it was given.
    """
    rows = np.array([verdict.log_prior, *verdict.evidence])
    rows = (rows - rows[:, :1]).round(DECIMALS)
    prior, *terms = [[finite(value) for value in row] for row in rows.tolist()]
    return {
        "decision": verdict.decision,
        "log_odds": finite(verdict.log_odds),
        "views": {
            name: {"log_odds": finite(view.log_odds), "features": view.features}
            for name, view in verdict.views.items()
        },
        "prior": prior,
        "terms": dict(zip(specification.verdict.names, terms, strict=True)),
    }


def finite(value: float) -> float | None:
    """Return a number, or None for what JSON has no number for.

    An unsmoothed model gives ``-inf`` to a message with one unseen feature.
    """
    return value if math.isfinite(value) else None


def evidence_of(
    scores: Mapping[str, Any] | None, specification: Specification
) -> Evidence | None:
    """Return what the fusion can learn from a record.

    Returns
    -------
    Evidence or None
        None where the message was not scored, was scored under other labels or
        other terms, or something in it was not finite, or too large to be fitted.
    """
    # Before `app.classifier.recorded` looked at them, an import took any document
    # for scores, and no service could be started on it.
    if not isinstance(scores, Mapping) or type(scores.get("log_odds")) not in _NUMBERS:
        return None
    terms, prior = scores.get("terms"), scores.get("prior")
    names = specification.verdict.names
    if not isinstance(terms, dict) or terms.keys() != set(names):
        return None
    rows = [prior, *(terms[name] for name in names)]
    for row in rows:
        if not isinstance(row, list) or len(row) != specification.n_classes:
            return None
        if not _NUMBERS.issuperset(map(type, row)):
            return None
    values = np.array(rows, np.float64)
    if np.abs(values).max() > _FITTED:
        return None
    return Evidence(values[1:], values[0], float(scores["log_odds"]))
