"""Is a document what the ledger keeps of a score? For what others wrote.

Contract of this file: what passes can be stored, read back and fitted to, on both
databases (`app.classifier.record` writes it).
"""

from __future__ import annotations

from typing import Any, Final, get_args

from app.classifier.score import Decision
from app.errors import InvalidObservation

MOST_NATS: Final = 1e30
"""Magnitude of a number, at most.

A Gaussian says 1e28 of the largest measurement and the smallest variance; the fusion
is not fitted to such a one.
"""

MOST_NAMES: Final = 64
"""Views, terms or labels, at most; as labels of a profile."""

_MOST_FEATURES: Final = 2**31 - 1
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
        if name == "decision":
            if value not in get_args(Decision):
                raise _strange(value, "a decision")
        elif name == "log_odds":
            _require_nats(value)
        elif name == "prior":
            _require_row(value)
        elif name == "terms":
            for row in _object(value).values():
                _require_row(row)
        elif name == "views":
            for said in _object(value).values():
                _require_view(said)
        else:
            raise _strange(name, "a name that is known")


def _require_view(document: object) -> None:
    """Raise if it is not what one classifier says by itself."""
    said = _object(document)
    if said.keys() != {"log_odds", "features"}:
        raise _strange(document, "what a view says")
    _require_nats(said["log_odds"])
    features = said["features"]
    if type(features) is not int or not 0 <= features <= _MOST_FEATURES:
        raise _strange(features, "a number of features")


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
    """Return the error about what is not what belongs there."""
    # Of a value that is nested deeply there is no repr.
    plain = isinstance(value, str | int | float)
    shown = repr(value) if plain else f"a {type(value).__name__}"
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "…"
    msg = f"the scores have {shown} where {belongs} belongs"
    return InvalidObservation(msg)
