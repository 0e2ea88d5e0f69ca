"""What was scored or taught is found by its id, many at once as well as one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from app.errors import CorruptVector, UnknownProfile
from app.services.clock import now
from app.storage.database.engine import writing
from tests.support.application import teach
from tests.support.messages import ham, spam


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


def scored(app, raw):
    """Score a message, and return its digest."""
    return app.classify("default", raw, strongest=0).observation.digest


def only_in_the_database(app):
    """Write what was scored, and let go of it, as a start of the service does."""
    app.recent.flush(app.engine)
    app.recent.forget(before=now(), profiles=())


def test_a_message_that_was_just_scored_is_at_hand(app):
    """It is found before and after it is written to the database."""
    digest = scored(app, ham(1))
    before = app.recall.at_hand("default", digest)
    app.recent.flush(app.engine)
    after = app.recall.at_hand("default", digest)

    assert digest == before.evidence.digest
    assert before.evidence == after.evidence
    assert [False, False] == [before.learned, after.learned]


def test_many_look_ups_at_once_are_answered_each(app):
    """Learned, scored and unknown ids, each in a thread of its own."""
    learned = teach(app, ham(1), "ham").outcome.digest
    seen = scored(app, spam(2))
    only_in_the_database(app)
    asked = [learned, seen, bytes(16)] * 40
    with ThreadPoolExecutor(40) as pool:
        found = [*pool.map(partial(app.recall.look_up, "default"), asked)]

    assert [True, False, False] * 40 == [known.learned for known in found]
    assert [learned, seen, None] * 40 == [
        known.evidence and known.evidence.digest for known in found
    ]
    assert [True, True, False] * 40 == [bool(known) for known in found]
    assert 0 == app.recall.waiting


def test_what_is_found_is_what_was_seen(app):
    """The features are those that were scored."""
    digest = scored(app, spam(3))
    seen = app.recent.get(app.live.get("default").row.id, digest)
    only_in_the_database(app)
    known = app.recall.look_up("default", digest)

    assert seen.views.keys() == known.evidence.views.keys()
    assert all(seen.views[name] == known.evidence.views[name] for name in seen.views)


def test_damaged_features_are_an_error_of_their_message(app):
    """Others are found, and no look-up is left under way."""
    app.scheduler.stop()
    broken = scored(app, ham(1))
    only_in_the_database(app)
    with writing(app.engine) as connection:
        connection.exec_driver_sql("UPDATE scored SET vector = digest")
    learned = teach(app, spam(1), "spam").outcome.digest

    with pytest.raises(CorruptVector):
        app.recall.look_up("default", broken)
    assert app.recall.look_up("default", learned).learned
    assert 0 == app.recall.waiting


def test_an_unknown_profile_is_told_at_once(app):
    """The database is not asked."""
    with pytest.raises(UnknownProfile, match="'nobody'"):
        app.recall.at_hand("nobody", bytes(16))
