"""Score records: the part of a verdict in the ledger.

Contract of this file: the fusion uses the rounded records, whether they come from
memory or from the database.  A record that passes the check of this file can be stored
and read back on both databases, and used in a fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np

from app.bayes.posterior import finite
from app.classifier.verdict import Decision
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from app.classifier.specification import Specification
    from app.classifier.verdict import Verdict

# A number that is not finite is None.
_NUMBERS: Final = frozenset((float, int))
DECIMALS: Final = 6
"""Decimals of a nat: a thousandth of the least contribution worth listing."""
# A fit succeeded on all 6,000 random sets of examples of up to 1e6 and 1e7 nats. Of
# those up to 1e9, one in fifty had a curvature that cannot be inverted, with which a
# service could not start.  Shipped terms are means and roots, and stay below 1e5.
_FITTED: Final = 1e6


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

    terms: NDArray[np.float64]
    log_prior: NDArray[np.float64]
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
    return found if _is_number(found) else None


MOST_NATS: Final = 1e30
"""Largest magnitude of a number.

Earlier versions recorded the result of a Gaussian too, which goes up to 1e28; the
fusion does not use such a value.
"""
MOST_NAMES: Final = 64
"""Most views, terms or labels, as for the labels of a profile."""
_MOST: Final = 2**31 - 1
_MOST_CHARS: Final = 64
_SHOWN: Final = 40


def require_record(document: object) -> None:
    """Raise unless a document can be from `app.classifier.record.record`.

    Unknown values are None, and fields that an older version did not write are missing;
    other fields are refused.

    Raises
    ------
    InvalidObservation
        With the error.

    Examples
    --------
    >>> require_record({"decision": "spam", "log_odds": 4.5, "prior": [0.0, None]})
    >>> require_record({"log_odds": "4.5"})
    Traceback (most recent call last):
    ...
    app.errors.InvalidObservation: the scores have '4.5' where a number of nats belongs
    """
    for name, value in _object(document).items():
        if name not in _REQUIRED:
            raise _strange(name, "a name that is known")
        _REQUIRED[name](value)


def _require_decision(value: object) -> None:
    """Raise unless a value is a decision."""
    if value not in get_args(Decision):
        raise _strange(value, "a decision")


def _require_terms(document: object) -> None:
    """Raise unless a document has the value of each term for each label."""
    for row in _object(document).values():
        _require_row(row)


def _require_views(document: object) -> None:
    """Raise unless a document has the results of classifiers, as in old records."""
    for scores in _object(document).values():
        if not isinstance(scores, dict) or scores.keys() != {"log_odds", "features"}:
            raise _strange(scores, "what a view says")
        _require_nats(scores["log_odds"])
        _require_number(scores["features"], of="features")


def _require_number(value: object, *, of: str = "messages") -> None:
    """Raise unless a value is a count."""
    if not _is_number(value):
        raise _strange(value, f"a number of {of}")


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _require_row(document: object) -> None:
    """Raise unless a document has one number for each label."""
    if not isinstance(document, list) or len(document) > MOST_NAMES:
        raise _strange(document, "a number of nats for each label")
    for value in document:
        _require_nats(value)


def _require_nats(value: object) -> None:
    """Raise unless a value is a number of nats or None."""
    # Comparisons with NaN are false.
    known = type(value) in {int, float} and abs(value) <= MOST_NATS  # type: ignore[arg-type]
    if value is not None and not known:
        raise _strange(value, "a number of nats")


def _object(document: object) -> dict[str, Any]:
    """Return an object with few, short and printable names."""
    if not isinstance(document, dict) or len(document) > MOST_NAMES:
        raise _strange(document, "an object of names and values")
    for name in document:
        if len(name) > _MOST_CHARS or not name.isprintable():
            raise _strange(name, "a short and printable name")
    return document


def _strange(value: object, belongs: str) -> InvalidObservation:
    """Return the error for a value of a wrong kind."""
    # repr fails on a deeply nested value.
    plain = isinstance(value, str | int | float)
    shown = repr(value) if plain else f"a {type(value).__name__}"
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "…"
    msg = f"the scores have {shown} where {belongs} belongs"
    return InvalidObservation(msg)


_REQUIRED: Final[Mapping[str, Callable[[object], None]]] = {
    "decision": _require_decision,
    "log_odds": _require_nats,
    "prior": _require_row,
    "terms": _require_terms,
    "views": _require_views,
    "arrived": _require_number,
}
