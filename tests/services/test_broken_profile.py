"""One profile that cannot be read: the others are served and kept up."""

from __future__ import annotations

import math
from functools import partial

import pytest
from sqlalchemy import update

from app.errors import CorruptVector, InconsistentCounts
from app.ledger.entry import ScoredRow
from app.ledger.undo import Selection
from app.services import scheduler, upkeep
from app.services.clock import LONGEST, Failures, now
from app.storage import profiles, tables
from app.storage.database.engine import reading, writing
from app.storage.fold import folded_revision
from app.storage.ledger import append
from tests.support.application import maintain, running
from tests.support.builders import fold_all, observed, taught
from tests.support.messages import ham, spam


def broken(engine, name):
    """Make a profile whose only ledger row cannot be read."""
    with writing(engine) as connection:
        row = profiles.create(
            connection,
            name=name,
            labels=("ham", "spam"),
            spam_labels=("spam",),
            feature_set=1,
            created_at=now(),
        )
        append(connection, row, [taught(1, "spam", {"money": 1})])
        connection.execute(
            update(tables.ledger)
            .where(tables.ledger.c.profile_id == row.id)
            .values(vector=b"junk")
        )
    return row


def test_a_new_profile_that_cannot_be_loaded_stops_nobody(app, caplog):
    """The error is logged once, and requests for the profile get it."""
    app.scheduler.stop()
    row = broken(app.engine, "zoe")
    app.feedback.teach("default", ham(1), label="ham", source="test")
    for _ in range(9):
        app.live.refresh()
    maintain(app)
    with reading(app.engine) as connection:
        folded = folded_revision(connection, app.live.get("default").row.id)
    with pytest.raises(CorruptVector, match="too short"):
        app.live.get("zoe")

    assert 1 == folded
    assert 1 == caplog.text.count("'zoe' cannot be loaded: A stored vector of")
    with writing(app.engine) as connection:
        connection.execute(
            update(tables.ledger)
            .where(tables.ledger.c.profile_id == row.id)
            .values(vector=taught(1, "spam", {"money": 1}).evidence.vector)
        )
    app.live._failures.unpause(row.id)  # noqa: SLF001  in a minute at most
    app.live.refresh()

    assert 1 == app.live.get("zoe").revision


def test_asking_for_it_again_and_again_holds_no_memory(app):
    """All requests share one error object."""
    app.scheduler.stop()
    broken(app.engine, "zoe")
    app.live.refresh()
    frames = []
    for _ in range(3):
        with pytest.raises(CorruptVector) as caught:
            app.live.get("zoe")
        frames.append(len(caught.traceback))

    assert 1 == len(set(frames))


def test_a_start_serves_the_other_profiles(database_url, caplog):
    """If the site profile is broken, the start fails with the reason."""
    with running(database_url=database_url) as app:
        broken(app.engine, "zoe")
    with running(database_url=database_url) as app:
        app.feedback.teach("default", ham(1), label="ham", source="test")

        assert ["default", "zoe"] == [each.row.name for each in app.live]
        assert ["default"] == [each.row.name for each in app.live if each.live]
    with (
        pytest.raises(CorruptVector, match="too short"),
        running(database_url=database_url, profile="zoe"),
    ):
        pass
    assert "'zoe' cannot be loaded" in caplog.text


def test_a_profile_whose_place_a_broken_one_took_goes_on_scoring(app, caplog):
    """It keeps what it had learned."""
    app.scheduler.stop()
    app.feedback.teach("default", ham(1), label="ham", source="test")
    # Else it may see the moment in which there is none of that name.
    if app.notifier is not None:
        app.notifier.stop()
    row = app.live.get("default").row
    with writing(app.engine) as connection:
        connection.execute(
            update(tables.profile)
            .where(tables.profile.c.id == row.id)
            .values(name="an older one")
        )
    broken(app.engine, "default")
    app.live.refresh()

    assert "'default' cannot be loaded" in caplog.text
    assert row.id == app.live.get("default").row.id
    assert 1 == app.live.get("default").revision


@pytest.mark.parametrize("moved", ["ham", "forgotten", "undone"])
def test_features_that_cannot_be_read_are_not_taken_back(app, moved):
    """A second row with them could not be folded, and no service would start."""
    app.scheduler.stop()
    taught = app.feedback.teach("default", spam(1), label="spam", source="test")
    fold_all(app.engine, app.live.get("default").row)
    with writing(app.engine) as connection:
        connection.execute(update(tables.ledger).values(vector=b"junk"))
    digest = taught.outcome.digest
    move = {
        "ham": partial(app.feedback.teach, "default", spam(1), label="ham"),
        "forgotten": partial(app.feedback.forget, "default", digest),
        "undone": partial(app.undo, "default", Selection(ids=frozenset({digest}))),
    }[moved]

    with pytest.raises(CorruptVector, match="too short"):
        move(source="test")
    app.live.get("default").reload(app.engine, "test")

    assert 1 == app.live.get("default").revision


def test_what_cannot_be_folded_is_not_summed_twice_a_second(app, monkeypatch):
    """Retries would cost as much each time, so other profiles are folded."""
    app.scheduler.stop()
    app.feedback.teach("default", spam(1), label="spam", source="test")
    tried = []
    prepare = upkeep.folding.prepare

    def counted(connection, profile, *, limit):
        tried.append(profile.name)
        return prepare(connection, profile, limit=limit)

    monkeypatch.setattr(upkeep.folding, "prepare", counted)
    monkeypatch.setattr(scheduler, "IDLE_SECONDS", 0.0)
    app.maintenance._failures = Failures(lambda: 0.0)  # noqa: SLF001
    with writing(app.engine) as connection:
        connection.execute(update(tables.ledger).values(vector=b"junk"))
    for _ in range(9):
        app.maintenance._follow_at = 0.0  # noqa: SLF001  not in half a second: now
        app.maintenance()

    assert ["default"] == tried


def test_a_step_that_fails_is_logged_for_what_it_is(app, monkeypatch, caplog):
    """An undo and the expiry are no fold."""
    app.scheduler.stop()
    maintenance = app.maintenance
    maintain(app)
    maintenance._follow_at = math.inf  # noqa: SLF001  the queues stay as given

    def failing(*_):
        raise InconsistentCounts("a count is negative")

    monkeypatch.setattr(scheduler, "carry_out", failing)
    monkeypatch.setattr(maintenance, "_forget", failing)
    caplog.clear()
    for queue in (maintenance._undoing, maintenance._expiring):  # noqa: SLF001
        queue.append(app.live.get("default").row.id)
        maintenance()

    assert [
        "an undo in the profile 'default' cannot be carried out: a count is negative",
        "old data of the profile 'default' cannot be deleted: a count is negative",
    ] == caplog.messages


def test_what_fails_again_and_again_is_tried_each_minute():
    """The retry notices a repair."""
    now = [0.0]
    failures = Failures(lambda: now[0])
    waits = []
    for _ in range(9):
        failures.report("fold", "away")
        begun = now[0]
        while failures.pausing("fold"):
            now[0] += 0.5
        waits.append(now[0] - begun)
    failures.resolve("fold")

    assert [1, 2, 4, 8, 16, 32, LONGEST, LONGEST, LONGEST] == waits
    assert not failures.pausing("fold")


def test_what_was_scored_is_forgotten_in_steps(database_url, monkeypatch):
    """Deleting fifty thousand rows at once would block other writes."""
    monkeypatch.setattr(scheduler, "FORGOTTEN_ROWS", 2)
    with running(database_url=database_url, scored_rows=3) as app:
        app.scheduler.stop()
        # The thread may have stopped in the middle of its look for old data.
        maintain(app)
        row = app.live.get("default").row
        with writing(app.engine) as connection:
            put = [ScoredRow.of(observed(n, {"a": 1}), time=now()) for n in range(8)]
            scheduler.scored.put_many(connection, row.id, put)
        app.maintenance._expire_at = 0.0  # noqa: SLF001  not in a minute: now
        steps = 1
        while app.maintenance():
            steps += 1
        with reading(app.engine) as connection:
            left = connection.execute(tables.scored.select()).all()

    assert 3 == len(left)
    assert 3 <= steps
