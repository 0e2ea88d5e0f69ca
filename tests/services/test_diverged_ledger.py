"""The ledger has another past than memory: after a failover, or a restored backup."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import delete, select, update

from app.classifier.snapshot import Snapshot
from app.services.live import LiveProfile
from app.storage import fold, tables
from app.storage.database.engine import reading, writing
from app.storage.ledger import append
from tests.support.builders import taught
from tests.support.databases import on_postgresql
from tests.support.messages import ham, spam


@pytest.fixture
def live(app):
    """The profile of a process that was taught three messages, and looks no more."""
    app.scheduler.stop()
    # It would hold a connection of the pool that `fail_over` leaves.
    if app.notifier is not None:
        app.notifier.stop()
    for n in range(3):
        app.feedback.teach("default", ham(n), label="ham", source="test")
    return app.live.get("default")


def fail_over(app, live, taught_since):
    """Have a server that lost the newest row, and was taught others by somebody."""
    with writing(app.engine) as connection:
        ledger = tables.ledger
        connection.execute(delete(ledger).where(ledger.c.revision == 3))
        connection.execute(update(tables.profile).values(revision=2))
    with writing(app.engine) as connection:
        others = [taught(n, "spam", {f"w{n}": 1}) for n in range(taught_since)]
        append(connection, live.row, others)
    # As from the server before, no connection is left.
    app.engine.dispose()


def is_as_stored(app, live):
    """Whether memory is what the database says, bit for bit."""
    with reading(app.engine) as connection:
        stored = fold.load(connection, live.row)
    known = live.snapshot.tables["words"]
    return (stored.revision, stored.tables["words"].flatten()) == (
        live.revision,
        known.flatten(),
    )


@pytest.mark.parametrize("taught_since", [0, 2, 9])
def test_a_ledger_that_another_wrote_on_is_loaded_anew(app, live, taught_since, caplog):
    """The other ledger may be longer or shorter than memory knows it."""
    fail_over(app, live, taught_since)
    app.live.refresh()

    assert "the ledger went back" in caplog.text
    assert is_as_stored(app, live)


@on_postgresql
def test_a_ledger_of_the_same_length_is_looked_at_once_there_are_connections(
    app, live, caplog
):
    """It would be asked for otherwise twice a second."""
    fail_over(app, live, 1)
    app.live.refresh()

    assert "the ledger went back" in caplog.text
    assert is_as_stored(app, live)


@on_postgresql
@pytest.mark.parametrize("taught_since", [0, 1, 2])
def test_who_is_taught_first_after_a_failover_loads_anew(app, live, taught_since):
    """The row fits behind those that memory has, but its ledger has others."""
    fail_over(app, live, taught_since)
    app.feedback.teach("default", spam(1), label="spam", source="test")

    assert 3 + taught_since == live.revision
    assert is_as_stored(app, live)


def test_rows_that_others_wrote_are_not_loaded_anew(app, live, caplog):
    """Nor is anything because connections were opened."""
    for n in range(2):
        with writing(app.engine) as connection:
            append(connection, live.row, [taught(n, "spam", {"money": 1})])
        app.engine.dispose()
        app.live.refresh()
        app.feedback.teach("default", spam(n), label="spam", source="test")

    assert 7 == live.revision
    assert is_as_stored(app, live)
    assert "reloading" not in caplog.text


def test_memory_that_contradicts_a_sound_ledger_is_loaded_anew(app, live, caplog):
    """Whatever has led to that: a worker does not stand still for good."""
    empty = Snapshot.of(live.specification, {}, revision=live.revision)
    live.take_over(LiveProfile(live.row, empty))
    with writing(app.engine) as connection:
        first = connection.execute(select(tables.ledger.c.digest)).scalars().first()
        append(connection, live.row, [replace(taught(0, None), digest=first)])
    app.live.refresh()

    assert "cannot follow" in caplog.text
    assert is_as_stored(app, live)
