"""Checks of score records that come from elsewhere."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.exchange.format import ScoreRecord


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"decision": "unsure", "log_odds": None},
        {"decision": "spam", "log_odds": 7, "views": {}},
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
    found = ScoreRecord.model_validate(document)

    assert document == found.model_dump(exclude_unset=True)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([1], "ScoreRecord"),
        ("x", "ScoreRecord"),
        ({"log_odds": "abc"}, "a valid number"),
        ({"log_odds": [1]}, "a valid number"),
        ({"log_odds": True}, "a valid number"),
        ({"log_odds": float("nan")}, "a finite number"),
        ({"log_odds": float("inf")}, "a finite number"),
        ({"log_odds": 10**400}, "log_odds"),
        ({"log_odds": 1e31}, "less than or equal to 1"),
        ({"decision": "a\0"}, "'unsure'"),
        ({"decision": "\ud800"}, "decision"),
        ({"decision": []}, "'unsure'"),
        ({"prior": 1}, "a valid list"),
        ({"prior": [0.0] * 65}, "at most 64 items"),
        ({"terms": {"words": [{}]}}, "a valid number"),
        ({"terms": {"a\0": [0.0]}}, "should match pattern"),
        ({"terms": {str(n): [] for n in range(65)}}, "65 names"),
        ({"views": {"w" * 65: {}}}, "at most 64 characters"),
        ({"views": {"words": {"log_odds": 1.0}}}, "features"),
        ({"views": {"words": {"log_odds": 1.0, "features": -1}}}, "than or equal to 0"),
        ({"views": {"words": {"log_odds": 1.0, "features": 2.0}}}, "a valid integer"),
        ({"more": 1}, "not permitted"),
    ],
)
def test_anything_else_is_none(document, said):
    """The error names the place."""
    with pytest.raises(ValidationError, match=said):
        ScoreRecord.model_validate(document)
