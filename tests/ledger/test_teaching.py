"""Mail of the past is scored as if it had arrived message by message."""

from __future__ import annotations

from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.ledger.teaching import scored_in_order
from tests.support.builders import sparse, taught

PRIZE, NOON = {"prize": 1, "money": 1}, {"noon": 1, "lunch": 1}


def test_each_message_is_scored_with_all_before_it():
    """Also with those of its own batch; each of them is learned once in the end."""
    snapshot = Snapshot.empty(Specification())
    batch = [
        taught(1, "spam", PRIZE),
        taught(2, "ham", NOON),
        taught(3, "spam", PRIZE),
        taught(4, "ham", NOON),
        taught(4, "ham", NOON),
    ]

    first, second, third, fourth, _ = (
        each.scores["log_odds"] for each in scored_in_order(batch, snapshot, {})
    )

    assert 0.0 == first
    assert fourth < second
    assert third > 0 > fourth
    assert [2, 2] == snapshot.learned.tolist()
    assert score(snapshot, {"words": sparse(PRIZE)}).log_odds > third
