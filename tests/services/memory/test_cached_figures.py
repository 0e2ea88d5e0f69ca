"""The figures of a profile are right whether its counts are in memory or not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.services.profiles import learned
from app.storage.database.engine import writing
from app.storage.ledger import append
from tests.support.application import add_profiles, maintain, running
from tests.support.builders import taught


def state(live, name):
    """Return what is shown of a profile, and whether its counts are in memory."""
    cached = live.find(name)
    return cached.live is not None, cached.revision, learned(cached)


@pytest.mark.parametrize("half_life", [None, 2.0])
def test_they_are_the_same_before_and_after_it_is_loaded(database_url, half_life):
    """Of old and new months, moved and forgotten messages, folded or not."""
    settings = {"database_url": database_url, "half_life_months": half_life}
    with running(**settings) as app:
        app.scheduler.stop()
        add_profiles(app, "ann")
        row = app.live.find("ann").row

        def teach(*lessons):
            with writing(app.engine) as connection:
                append(connection, row, list(lessons))
            app.live.refresh()

        old, new = (datetime(2026, month, 3, tzinfo=UTC) for month in (3, 10))
        teach(
            *(taught(n, "ham", {"a": 1}, time=old) for n in range(6)),
            *(taught(n, "spam", {"b": 1}, time=new) for n in range(6, 9)),
        )
        unfolded = state(app.live, "ann")
        maintain(app)
        folded = state(app.live, "ann")
        teach(taught(0, "spam", time=new), taught(1, None, time=new))
        moved = state(app.live, "ann")
        app.live.get("ann")
        there = state(app.live, "ann")

    assert (False, *unfolded[1:]) == unfolded == folded
    assert (False, *there[1:]) == moved
    assert there[0]
    assert 11 == there[1]
    if half_life is None:
        assert {"ham": 4, "spam": 4} == there[2]
