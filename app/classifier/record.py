"""Score records: the part of a verdict that the ledger keeps.

Contract of this file: the fusion is fitted to records as they were written, rounded,
whether they come from memory or from the database.  A record that passes the check of
this file can be stored and read back on both databases, and be fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np

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
"""Decimals of a nat: a thousandth of the least contribution that is worth listing."""
# All 6,000 made-up sets of examples of up to 1e6 and 1e7 nats had weights; one in fifty
# of those of up to 1e9 had a curvature that cannot be inverted, and no service can be
# started on it.  Shipped terms are means and roots, and stay below 1e5.
_FITTED: Final = 1e6


@dataclass(frozen=True, slots=True)
class Evidence:
    """The values of the terms for a message, before any weight.

    Parameters
    ----------
    terms : ndarray of float64, shape (T, K)
        The normalised log-likelihood of each class by each term of the verdict's
        rule.  Unit: nats.
    log_prior : ndarray of float64, shape (K,)
        The log-prior at that time.  Unit: nats.
    log_odds : float
        The log-odds of the verdict.  Unit: nats.
    arrived : int or None
        How many messages came since the last one that says so; None where this one
        was not scored when it came.
    """

    terms: NDArray[np.float64]
    log_prior: NDArray[np.float64]
    log_odds: float
    arrived: int | None


def record(
    verdict: Verdict, specification: Specification, *, arrived: int | None = None
) -> Mapping[str, object]:
    """Return the record of a score for the ledger.

    It is what live figures and the fusion of the views need: the decision, its
    log-odds and, relative to the first class, what the prior and each term of the
    verdict's rule say of each class.  What is not finite is None.

    Parameters
    ----------
    verdict : Verdict
        The verdict on a message.
    specification : Specification
        Under which it was given.
    arrived : int or None
        How many messages were scored as they came since the last record that says so,
        if this one was; None if it was not.
    """
    rows = np.array([verdict.log_prior, *verdict.evidence])
    rows = (rows - rows[:, :1]).round(DECIMALS)
    prior, *terms = [[finite(value) for value in row] for row in rows.tolist()]
    return {
        "decision": verdict.decision,
        "log_odds": finite(verdict.log_odds),
        "prior": prior,
        "terms": dict(zip(specification.verdict.names, terms, strict=True)),
    } | ({} if arrived is None else {"arrived": arrived})


def finite(value: float) -> float | None:
    """Return a number, or None for one that JSON does not have.

    An unsmoothed model gives ``-inf`` to a message with one unseen feature.
    """
    return value if math.isfinite(value) else None


def evidence_of(
    scores: Mapping[str, Any] | None, specification: Specification
) -> Evidence | None:
    """Return the evidence in a record, for the fusion.

    Returns
    -------
    Evidence or None
        None where the message was not scored, was scored under other labels or
        other terms, or something in it was not finite, or too large to be fitted.
        A term of a view that is made of others said nothing where it is missing.
    """
    # Rows of older imports hold any document as scores, and a service must start
    # on them.
    if not isinstance(scores, Mapping) or type(scores.get("log_odds")) not in _NUMBERS:
        return None
    terms, prior = scores.get("terms"), scores.get("prior")
    names = specification.verdict.names
    if isinstance(terms, dict) and terms.keys() != set(names):
        # Before there were views that are made of others, they said nothing.
        made = [
            term.name
            for term in specification.verdict.terms
            if specification.classifiers[term.classifier].made_of
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
    """Return the number of messages that came, if the record has it."""
    found = scores.get("arrived") if isinstance(scores, Mapping) else None
    return found if _is_number(found) else None


MOST_NATS: Final = 1e30
"""Magnitude of a number, at most.

A Gaussian says 1e28 of the largest measurement and the smallest variance; the fusion
is not fitted to such a one.
"""
MOST_NAMES: Final = 64
"""Views, terms or labels, at most; as labels of a profile."""
_MOST: Final = 2**31 - 1
_MOST_CHARS: Final = 64
_SHOWN: Final = 40


def require_record(document: object) -> None:
    """Raise if a document is not one that `app.classifier.record.record` writes.

    What is not known is None there, and what an older version did not know is
    missing; there is nothing else.

    Raises
    ------
    InvalidObservation
        With what is wrong.

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
    """Raise if it is not a decision."""
    if value not in get_args(Decision):
        raise _strange(value, "a decision")


def _require_terms(document: object) -> None:
    """Raise if it is not the value of each term for each label."""
    for row in _object(document).values():
        _require_row(row)


def _require_views(document: object) -> None:
    """Raise if it is not the result of each classifier, as older records have it."""
    for said in _object(document).values():
        if not isinstance(said, dict) or said.keys() != {"log_odds", "features"}:
            raise _strange(said, "what a view says")
        _require_nats(said["log_odds"])
        _require_number(said["features"], of="features")


def _require_number(value: object, *, of: str = "messages") -> None:
    """Raise if it is not a number of things."""
    if not _is_number(value):
        raise _strange(value, f"a number of {of}")


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _require_row(document: object) -> None:
    """Raise if it is not one number for each label."""
    if not isinstance(document, list) or len(document) > MOST_NAMES:
        raise _strange(document, "a number of nats for each label")
    for value in document:
        _require_nats(value)


def _require_nats(value: object) -> None:
    """Raise if it is neither a number of nats nor None."""
    # Not a number is not below anything.
    known = type(value) in {int, float} and abs(value) <= MOST_NATS  # type: ignore[arg-type]
    if value is not None and not known:
        raise _strange(value, "a number of nats")


def _object(document: object) -> dict[str, Any]:
    """Return an object whose names are few, short and printable."""
    if not isinstance(document, dict) or len(document) > MOST_NAMES:
        raise _strange(document, "an object of names and values")
    for name in document:
        if len(name) > _MOST_CHARS or not name.isprintable():
            raise _strange(name, "a short and printable name")
    return document


def _strange(value: object, belongs: str) -> InvalidObservation:
    """Return the error about a value of another kind."""
    # A deeply nested value has no repr.
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
