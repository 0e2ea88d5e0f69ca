"""One line of JSON for each message."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from app.evaluation.run import json_line


@given(st.floats(), st.floats(0, 1), st.text(), st.sampled_from(["spam", "unsure"]))
def test_every_result_is_one_line_of_strict_json(log_odds, probability, gold, decision):
    """Infinite log-odds are null: JSON has no infinity."""
    line = json_line(
        gold=gold, decision=decision, log_odds=log_odds, probability=probability
    )

    def refuse(constant):
        raise AssertionError(constant)

    assert line.endswith("\n")
    assert "\n" not in line[:-1]
    assert {
        "gold": gold,
        "decision": decision,
        "log_odds": log_odds if math.isfinite(log_odds) else None,
        "probability": probability,
    } == json.loads(line, parse_constant=refuse)
