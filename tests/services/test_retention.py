"""Retention, as the upkeep of a running application does it."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from app.errors import Expired
from app.services.application import now
from app.storage import tables
from app.storage.database.engine import reading, writing
from app.storage.upkeep.audit import audit
from tests.support.application import running
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
        assert 100 == app.profile("default").undo_days


def test_nothing_is_dropped_where_all_is_kept_for_ever(database_url):
    """0 days are for ever, and the profile says so."""
    with running(database_url=database_url, vector_days=0) as app:
        app.maintenance._expire()  # noqa: SLF001

        assert set() == app.maintenance._dropping  # noqa: SLF001
        assert app.profile("default").undo_days is None
