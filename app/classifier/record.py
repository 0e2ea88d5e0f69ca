"""Score records: the part of a verdict in the ledger.

Contract of this file: the fusion uses the rounded records, whether they come from
memory or from the database.  Those of an import are checked before
(`app.exchange.format.ScoreRecord`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.bayes.posterior import finite

if TYPE_CHECKING:
    from app.classifier.specification import Specification
    from app.classifier.verdict import Verdict
    from app.kernels import Floats

# A number that is not finite is None.
_NUMBERS: Final = frozenset((float, int))
DECIMALS: Final = 6
"""Decimals of a nat: a thousandth of the least contribution worth listing."""
# A fit succeeded on all 6,000 random sets of examples of up to 1e6 and 1e7 nats. Of
# those up to 1e9, one in fifty had a curvature that cannot be inverted, with which a
# service could not start.  Shipped terms are means and roots, and stay below 1e5.
_FITTED: Final = 1e6
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """The values of the terms for a message, before any weight.

    Parameters
    ----------
    terms : ndarray of float64, shape (T, 2)
        The normalised log-likelihood of each side by each term of the verdict's
        rule.  Unit: nats.
    log_prior : ndarray of float64, shape (2,)
        The log-prior at that time.  Unit: nats.
    log_odds : float
        The log-odds of the verdict.  Unit: nats.
    arrived : int or None
        Number of messages that arrived since the last record with this number; None if
        this message was not scored on arrival.
    """

    terms: Floats
    log_prior: Floats
    log_odds: float
    arrived: int | None


def record(
    verdict: Verdict, specification: Specification, *, arrived: int | None = None
) -> Mapping[str, object]:
    """Return the record of a score for the ledger.

    It has the data for live figures and the fusion: the decision, its log-odds, and for
    each side the values of the prior and of each term of the verdict's rule, relative
    to the first side.  Numbers that are not finite are None.

    Parameters
    ----------
    arrived : int or None
        Number of messages scored on arrival since the last record with this number;
        None if this message was not scored on arrival.
    """
    rows = np.array([verdict.log_prior, *verdict.evidence])
    rows = (rows - rows[:, :1]).round(DECIMALS)
    prior, *terms = rows.tolist()
    if not np.isfinite(rows).all():
        prior, *terms = [[finite(value) for value in row] for row in rows.tolist()]
    return {
        "decision": verdict.decision,
        "log_odds": finite(verdict.log_odds),
        "prior": prior,
        "terms": dict(zip(specification.verdict.names, terms, strict=True)),
    } | ({} if arrived is None else {"arrived": arrived})


def evidence_of(
    scores: Mapping[str, Any] | None, specification: Specification
) -> Evidence | None:
    """Return the evidence in a record, for the fusion.

    Returns
    -------
    Evidence or None
        None if the message was not scored, was scored with other labels or terms, or
        has a value that is not finite or too large for a fit.  A missing term of a view
        that learns only errors counts as 0.
    """
    # Rows of older imports may have any document as scores, and a service must still
    # start.
    if not isinstance(scores, Mapping) or type(scores.get("log_odds")) not in _NUMBERS:
        return None
    terms, prior = scores.get("terms"), scores.get("prior")
    names = specification.verdict.names
    if isinstance(terms, dict) and terms.keys() != set(names):
        # Older records may lack these views, whose terms were then 0.
        made = [
            term.name
            for term in specification.verdict.terms
            if specification.classifiers[term.classifier].learns_errors
        ]
        terms = dict.fromkeys(made, [0.0] * specification.n_classes) | terms
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
    return Evidence(
        values[1:], values[0], float(scores["log_odds"]), arrived_of(scores)
    )


def arrived_of(scores: Mapping[str, Any] | None) -> int | None:
    """Return the number of arrived messages, if the record has it."""
    found = scores.get("arrived") if isinstance(scores, Mapping) else None
    return found if type(found) is int and 0 <= found <= _MOST else None
