"""Checks of score records that come from elsewhere."""

from __future__ import annotations

import pytest

from app.classifier.record import require_record
from app.errors import InvalidObservation


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"decision": "unsure", "log_odds": None},
        {"decision": "spam", "log_odds": 7, "views": {"words": {}}} | {"views": {}},
        {
            "decision": "ham",
            "log_odds": -1e9,
            "views": {"words": {"log_odds": None, "features": 3}},
            "prior": [0.0, 1.5],
            "terms": {"words/root": [0.0, None]},
        },
    ],
)
def test_what_was_ever_written_is_a_record(document):
    """Older versions did not know all of it, and what is not finite is None."""
    assert require_record(document) is None


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([1], "a list where an object"),
        ("x", "'x' where an object"),
        ({"log_odds": "abc"}, "'abc' where a number of nats"),
        ({"log_odds": [1]}, "a list where a number of nats"),
        ({"log_odds": True}, "True where a number of nats"),
        ({"log_odds": float("nan")}, "nan where a number of nats"),
        ({"log_odds": float("inf")}, "inf where a number of nats"),
        ({"log_odds": 10**400}, "1000000.*… where a number of nats"),
        ({"decision": "a\0"}, "where a decision"),
        ({"decision": "\ud800"}, "where a decision"),
        ({"decision": []}, "a list where a decision"),
        ({"prior": 1}, "1 where a number of nats for each"),
        ({"prior": [0.0] * 65}, "a list where a number of nats for each"),
        ({"terms": {"words": [{}]}}, "a dict where a number of nats"),
        ({"terms": {"a\0": [0.0]}}, "where a short and printable name"),
        ({"terms": {str(n): [] for n in range(65)}}, "a dict where an object"),
        ({"views": {"w" * 65: {}}}, "where a short and printable name"),
        ({"views": {"words": {"log_odds": 1.0}}}, "a dict where what a view says"),
        ({"views": {"words": {"log_odds": 1.0, "features": -1}}}, "-1 where a number"),
        ({"views": {"words": {"log_odds": 1.0, "features": 2.0}}}, "of features"),
        ({"more": 1}, "'more' where a name that is known"),
    ],
)
def test_anything_else_is_none(document, said):
    """The error has the value, as far as it can be shown."""
    with pytest.raises(InvalidObservation, match=said):
        require_record(document)
