"""Retention, as the upkeep of a running application does it."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from app.doors.documents.profile import ProfileOut
from app.errors import Expired, UnknownMessage
from app.services import upkeep
from app.services.clock import now
from app.storage import tables
from app.storage.database.engine import reading, writing
from app.storage.fold import audit
from tests.support.application import maintain, running
from tests.support.messages import ham, spam


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


def test_the_upkeep_drops_what_is_too_old(database_url):
    """The message stays what it was learned as, and says why it cannot change."""
    with running(database_url=database_url) as app:
        taught = app.feedback.teach("default", spam(1), label="spam", source="ann")
        app.feedback.teach("default", ham(1), label="ham", source="ann")
    digest = taught.outcome.digest
    with running(database_url=database_url, vector_days=100) as app:
        row = app.live.get("default").row
        ledger = tables.ledger
        with writing(app.engine) as connection:
            connection.execute(
                update(ledger)
                .where(ledger.c.profile_id == row.id, ledger.c.revision == 1)
                .values(time=now() - timedelta(days=101))
            )
        kept = 2
        while kept == 2:
            # Not in a minute: now, even where a step ends meanwhile and says so.
            app.maintenance._expire_at = 0.0  # noqa: SLF001
            time.sleep(0.01)
            with reading(app.engine) as connection:
                kept = connection.execute(
                    select(func.count(ledger.c.vector)).where(
                        ledger.c.profile_id == row.id
                    )
                ).scalar_one()
        again = app.feedback.teach("default", spam(1), label="spam", source="ann")
        by_id = app.feedback.teach_by_id("default", digest, label="spam", source="ann")
        with pytest.raises(Expired, match="no longer stored"):
            app.feedback.teach("default", spam(1), label="ham", source="ann")
        with pytest.raises(Expired, match="no longer stored"):
            app.feedback.teach_by_id("default", digest, label="ham", source="ann")
        with pytest.raises(Expired, match="POSTBAYES_VECTOR_DAYS"):
            app.feedback.forget("default", digest, source="ann")
        with reading(app.engine) as connection:
            found = audit(connection, row)

        assert (1, "unchanged", True) == (kept, again.outcome.kind, found.sound)
        assert ("unchanged", None) == (by_id.outcome.kind, by_id.verdict_before)
        assert 100 == ProfileOut.of(app, "default").undo_days


def test_nothing_is_dropped_where_all_is_kept_for_ever(database_url):
    """0 days are for ever, and the profile says so."""
    ledger = tables.ledger
    with running(database_url=database_url, vector_days=0) as app:
        app.scheduler.stop()
        app.feedback.teach("default", spam(1), label="spam", source="ann")
        with writing(app.engine) as connection:
            connection.execute(update(ledger).values(time=now() - timedelta(days=9999)))
        maintain(app)
        with reading(app.engine) as connection:
            kept = connection.execute(select(func.count(ledger.c.vector))).scalar_one()

        assert 1 == kept
        assert ProfileOut.of(app, "default").undo_days is None


def erased(app):
    """Look for what is to be erased until no row has features."""
    ledger = tables.ledger
    kept = 1
    while kept:
        # Not in a minute, and again after that: now.
        app.maintenance._expire_at = 0.0  # noqa: SLF001
        time.sleep(0.01)
        with reading(app.engine) as connection:
            kept = connection.execute(
                select(func.count())
                .select_from(ledger)
                .where(ledger.c.vector.is_not(None))
            ).scalar_one()


def test_the_upkeep_erases_what_is_forgotten(database_url):
    """Its words were scored, learned, moved and forgotten; its label history stays."""
    raw = b"Subject: lunch\n\nxyzzyplugh is a word of its own\n"
    with running(database_url=database_url) as app:
        app.classify("default", raw, strongest=0)
        taught = app.feedback.teach("default", raw, label="spam", source="ann")
        digest = taught.outcome.digest
        app.feedback.teach("default", raw, label="ham", source="ann")
        app.feedback.forget("default", digest, source="ann")
        erased(app)
        with pytest.raises(UnknownMessage, match="nothing is stored"):
            app.feedback.teach_by_id("default", digest, label="ham", source="ann")
        with reading(app.engine) as connection:
            row = app.live.get("default").row
            found = audit(connection, row)
            labels = connection.execute(
                select(tables.ledger.c.label).order_by(tables.ledger.c.revision)
            ).scalars()

            assert ["spam", "ham", None] == list(labels)
    path = Path(database_url.removeprefix("sqlite:///"))
    files = [each.read_bytes() for each in path.parent.glob(f"{path.name}*")]

    assert found.sound
    assert files
    assert not any(b"xyzzyplugh" in each for each in files)


def test_a_process_that_has_not_followed_loads_anew(database_url, caplog):
    """What the erased row took back is not there to be taken back."""
    with running(database_url=database_url) as app:
        app.scheduler.stop()
        taught = app.feedback.teach("default", spam(1), label="spam", source="ann")
        app.feedback.teach("default", ham(1), label="ham", source="ann")
        with running(database_url=database_url) as other:
            other.feedback.forget("default", taught.outcome.digest, source="ann")
            list(upkeep.fold(other.engine))
            expected = other.live.get("default").snapshot.tables["words"].flatten()
        app.live.refresh()
        live = app.live.get("default")

        (line,) = (x for x in caplog.records if "were erased" in x.getMessage())
        # No more is wrong than that it stood still.
        assert "WARNING" == line.levelname
        assert 3 == live.revision
        assert expected == live.snapshot.tables["words"].flatten()


@pytest.mark.parametrize("stored", [False, True])
def test_a_message_that_was_only_scored_is_forgotten_once(database_url, stored):
    """It waits in memory for half a second, and is dropped there and in the tables."""
    with running(database_url=database_url) as app:
        app.scheduler.stop()
        seen = app.classify("default", spam(1), strongest=0).observation
        if stored:
            app.recent.flush(app.engine)
            app.recent.drop(app.live.get("default").row.id, seen.digest)
        forgotten = app.feedback.forget("default", seen.digest, source="ann")
        flushed = app.recent.flush(app.engine)
        with pytest.raises(UnknownMessage, match="nothing to forget"):
            app.feedback.forget("default", seen.digest, source="ann")

    assert ("forgotten", None, 0) == (
        forgotten.outcome.kind,
        forgotten.outcome.row,
        forgotten.revision,
    )
    assert 0 == flushed


def test_what_another_process_forgets_is_dropped_from_memory_too(database_url):
    """Otherwise its id would still teach its words here."""
    with running(database_url=database_url) as app:
        app.scheduler.stop()
        seen = app.classify("default", spam(1), strongest=0).observation
        with running(database_url=database_url) as other:
            other.feedback.teach("default", spam(1), label="spam", source="ann")
            other.feedback.forget("default", seen.digest, source="ann")
        # At the second look for it; it is folded in between.
        for _ in range(3):
            app.maintenance._expire_at = 0.0  # noqa: SLF001
            maintain(app)

        with pytest.raises(UnknownMessage, match="nothing is stored"):
            app.feedback.teach_by_id("default", seen.digest, label="ham", source="ann")
