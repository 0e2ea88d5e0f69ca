"""The use case of undo, on a running application."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from app.errors import (
    DatabaseUnavailable,
    InvalidSelection,
    Unconfirmed,
    UnknownProfile,
    UnknownSource,
)
from app.ledger.undo import Selection
from app.services import undo as service
from app.services.application import Application
from app.settings import Settings
from app.storage import ledger, profiles, retention, tables, undo_work
from app.storage.database.engine import reading, writing
from app.storage.fold import audit, load
from tests.support.application import running
from tests.support.builders import APRIL, MARCH, digest
from tests.support.databases import counting, on_sqlite
from tests.support.messages import ham, spam

HOUR = timedelta(hours=1)


def teach(app, raw, label, *, source):
    """Teach one message; return its digest."""
    taught = app.feedback.teach("default", raw, label=label, source=source)
    return taught.outcome.digest


def undo(app, **asked):
    """Undo, carry it out, and return what became of it."""
    undone = app.undo.begin("default", Selection(**asked), source="test")
    for _ in app.undo.finish(undone):
        pass
    return undone


@contextmanager
def stopped(database_url):
    """Open an application whose writer does not run."""
    app = Application(Settings(database_url=database_url))
    try:
        yield app
    finally:
        app.engine.dispose()


def snapshot(app, *, revision):
    """Wait until memory has learned a revision, and return the snapshot."""
    live = app.live.get("default")
    while live.snapshot.revision < revision:
        time.sleep(0.01)
    return live.snapshot


def state(app, *, revision):
    """Return the words that the default profile knows: bit for bit comparable."""
    return snapshot(app, revision=revision).tables["words"].flatten()


def test_the_last_revision_holds_what_another_process_carried_out(database_url):
    """Memory has it before the answer, whichever process did the work."""
    with stopped(database_url) as app, running(database_url=database_url) as other:
        for n in range(5):
            teach(other, spam(n), "spam", source="ben")
        other.scheduler.stop()
        app.live.refresh()
        begun = app.undo.begin("default", Selection(source="ben"), source="test")
        list(other.undo.finish(begun))
        said = list(app.undo.finish(begun))

        assert [10] == said
        assert [0, 0] == app.live.get("default").snapshot.messages.tolist()


def test_memory_is_as_if_it_had_never_been_taught(app):
    """The state equals that before the bad afternoon, and an audit finds nothing."""
    teach(app, ham(99), "ham", source="ann")
    teach(app, spam(99), "spam", source="ann")
    before = state(app, revision=2)
    for n in range(5):
        teach(app, ham(n), "spam", source="ben")
    undone = undo(app, source="ben")
    with reading(app.engine) as connection:
        found = audit(connection, app.live.get("default").row)

    assert ("undo:1", {("spam", None): 5}) == (undone.name, dict(undone.plan.messages))
    assert before == state(app, revision=12)
    assert (True, 12) == (found.sound, found.ledger_rows)


def test_an_undo_that_nobody_finishes_is_finished_by_the_upkeep(app):
    """The process that began it may have been killed."""
    teach(app, ham(99), "ham", source="ann")
    before = state(app, revision=1)
    for n in range(5):
        teach(app, ham(n), "spam", source="ben")
    app.undo.begin("default", Selection(source="ben"), source="test")

    assert before == state(app, revision=11)


def test_the_next_undo_finishes_the_one_before_it(database_url):
    """Without a service that would: both are there in the end."""
    with running(database_url=database_url) as app:
        teach(app, ham(99), "ham", source="ann")
        teach(app, spam(99), "spam", source="ben")
    with stopped(database_url) as app:
        first = app.undo.begin("default", Selection(source="ann"), source="test")
        second = undo(app, source="ben")

        assert ("undo:1", "undo:2") == (first.name, second.name)
        assert [0, 0] == snapshot(app, revision=4).messages.tolist()


def test_what_is_decided_is_said_of_whatever_fails_after_it(database_url, monkeypatch):
    """The error does not claim that nothing was done."""
    asked = Selection(source="ben")
    with running(database_url=database_url) as app:
        teach(app, spam(1), "spam", source="ben")
    with stopped(database_url) as app:
        begun = app.undo.begin("default", asked, source="test")
        with monkeypatch.context() as patched:
            patched.setattr(undo_work, "step", full)
            with pytest.raises(DatabaseUnavailable, match=r"^undo:1 is recorded"):
                list(app.undo.finish(begun))
            with pytest.raises(
                DatabaseUnavailable, match=r"earlier undo.*was not recorded"
            ):
                app.undo.begin("default", asked, source="test")
        again = undo(app, source="ben")

        monkeypatch.setattr(undo_work, "step", full)

        assert again.name is None
        with pytest.raises(DatabaseUnavailable, match=r"^full"):
            list(app.undo.finish(again))


def full(*_, **__):
    """Fail as a step of an undo does on a full disk."""
    msg = "full. Nothing was stored"
    raise DatabaseUnavailable(msg)


def test_feedback_goes_on_while_something_is_undone(app, monkeypatch):
    """In the end memory is what a start would load, and an audit finds nothing."""
    monkeypatch.setattr(undo_work, "STEP", 3)
    for n in range(12):
        teach(app, ham(n), "spam", source="ben")

    def others(worker):
        for n in range(12):
            teach(app, spam(100 * worker + n), "spam", source="ann")
            teach(app, ham(n), ("ham", "spam")[worker % 2], source=f"w{worker}")

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(others, worker) for worker in range(3)]
        undo(app, source="ben")
        for each in working:
            each.result()
    row = app.live.get("default").row
    with reading(app.engine) as connection:
        stored, found = load(connection, row), audit(connection, row)

    assert found.sound
    assert stored.tables["words"] == state(app, revision=stored.revision)


def test_others_may_write_between_the_steps_of_an_undo(database_url, monkeypatch):
    """It answers right after the last."""
    with running(database_url=database_url) as app:
        for n in range(7):
            teach(app, ham(n), "spam", source="ben")
    pauses = []
    monkeypatch.setattr("app.services.undo.pause", lambda: pauses.append(1))
    monkeypatch.setattr(undo_work, "STEP", 3)
    with stopped(database_url) as app:
        begun = app.undo.begin("default", Selection(source="ben"), source="test")
        revisions = list(app.undo.finish(begun))

    assert [10, 13, 14, 14] == revisions
    assert 2 == len(pauses)


def test_a_forecast_says_what_changes_and_changes_nothing(app):
    """Labels, features and error figures, as they are after the undo."""
    for n in range(8):
        teach(app, ham(n), "ham", source="ann")
        teach(app, spam(n), "spam", source="ann")
    for n in range(8, 12):
        digest = teach(app, ham(n), "spam", source="ben")
    # Taught again: it counts once.
    app.feedback.forget("default", digest, source="ben")
    teach(app, ham(11), "spam", source="ben")
    told = app.undo.forecast("default", Selection(source="ben"))
    now = app.figures("default", window=1000).errors
    undo(app, source="ben")
    snapshot(app, revision=26)

    assert (None, {("spam", None): 4}) == (told.name, dict(told.plan.messages))
    assert told.features > 10
    assert now == told.figures_before
    assert app.figures("default", window=1000).errors == told.figures_after
    assert told.figures_before != told.figures_after


@on_sqlite
def test_an_undo_and_an_erasure_cost_nothing_for_other_messages(app, database_url):
    """After some years, no step walks through the ledger, least of all with its lock."""
    teach(app, ham(0), "ham", source="ann")
    found = []
    with stopped(database_url) as other:
        engine = other.engine
        for size in (10, 1000):
            with writing(engine) as connection:
                profile = profiles.find(connection, "default")
                (row,) = ledger.get_many(connection, profile.id, [1])
                last = profile.revision + size
                rows = [
                    replace(row, revision=n, digest=digest(n), source="ann")
                    for n in range(profile.revision + 1, last + 1)
                ]
                for n in range(3):
                    one = replace(rows[n], source=f"ben {size}")
                    rows[n] = one
                    gone = replace(rows[n + 3], label_before="ham", label=None)
                    rows.append(replace(gone, revision=last + 1 + n))
                ledger.write(connection, profile.id, rows)
                connection.execute(
                    update(tables.fold).values(folded_revision=rows[-1].revision)
                )
            with counting(engine) as counted:
                with reading(engine) as connection:
                    plan = undo_work.plan(
                        connection,
                        profile,
                        Selection(source=f"ben {size}"),
                        source="test",
                        time=MARCH,
                    )
                    erasure = retention.prepare_erasure(
                        connection, profile, upto=rows[-1].revision, limit=6
                    )
                with writing(engine) as connection:
                    undo_work.begin(connection, profile, plan)
                    put_right = undo_work.step(connection, profile, limit=100)
                    retention.write(connection, profile, erasure)
            assert (3, 6) == (len(put_right), len(erasure.revisions))
            found.append(counted.instructions)
    few, many = found

    assert many < 1.1 * few


@on_sqlite
def test_a_forecast_reads_no_row_of_other_messages(app, database_url):
    """The database counts the scored messages, which may be a million."""
    teach(app, ham(0), "ham", source="ben")
    found = []
    for part in (range(1, 4), range(4, 24)):
        for n in part:
            teach(app, spam(n), "spam", source="ann")
        with stopped(database_url) as other:
            other.live.find("default")
            with counting(other.engine) as counted:
                told = other.undo.forecast("default", Selection(source="ben"))
            found.append((told.figures_before.spam, counted.rows))
    (few, rows), (many, rows_of_many) = found

    assert (3, 23) == (few, many)
    assert rows_of_many <= rows + 2  # The decisions and labels that were new.


def test_a_forecast_of_undoing_an_undo_brings_the_figures_back(app):
    """What was scored when it was first learned counts again."""
    for n in range(4):
        teach(app, spam(n), "spam", source="ann")
    before = app.figures("default", window=1000).errors
    undone = undo(app, source="ann")
    snapshot(app, revision=8)
    forecast = app.undo.forecast("default", Selection(source=undone.name))

    assert 0 == forecast.figures_before.spam
    assert before == forecast.figures_after


@on_sqlite
@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({}, "select what to undo"),
        ({"since": APRIL, "until": MARCH}, "the time ends before it begins"),
        ({"since": MARCH, "until": MARCH}, "the time ends before it begins"),
    ],
)
def test_what_cannot_be_meant_is_refused(app, asked, sentence):
    """Everything at once, and times that run backwards."""
    with pytest.raises(InvalidSelection, match=sentence):
        undo(app, **asked)
    with pytest.raises(InvalidSelection, match=sentence):
        app.undo.forecast("default", Selection(**asked))


@on_sqlite
def test_a_profile_or_source_that_never_was_is_an_error(app):
    """Nothing is noted."""
    with pytest.raises(UnknownProfile, match="no profile 'other'"):
        app.undo.begin("other", Selection(source="ann"), source="test")
    with pytest.raises(UnknownSource, match="never taught by 'ann'"):
        app.undo.forecast("default", Selection(source="ann"))


@on_sqlite
def test_an_undo_of_nothing_has_no_name(app):
    """A time in which nothing was taught."""
    teach(app, spam(99), "spam", source="ann")
    undone = undo(app, until=MARCH)

    assert (None, True) == (undone.name, undone.plan.empty)


@pytest.fixture
def taught_much(database_url):
    """An application that ann taught 21 messages."""
    with running(database_url=database_url) as app:
        for n in range(21):
            teach(app, spam(n), "spam", source="ann")
        yield app


def shown(app, **asked):
    """Return the token of a dry run."""
    return app.undo.forecast("default", Selection(**asked)).confirm


def test_an_undo_of_much_is_confirmed(taught_much):
    """A mistaken request, or one of somebody else's web page, takes nothing back."""
    app = taught_much
    with pytest.raises(Unconfirmed, match="would take back 21 messages") as refused:
        undo(app, source="ann")
    token = shown(app, source="ann")
    teach(app, spam(30), "spam", source="ann")
    done = app.undo("default", Selection(source="ann"), source="x", confirm=token)

    assert "the token is of" not in str(refused.value)
    assert {("spam", None): 21} == done.plan.messages
    assert 1 == app.live.get("default").snapshot.messages.sum()


@on_sqlite
def test_an_undo_is_confirmed_by_its_own_token_alone(taught_much):
    """Not by one that is made up, nor by that of another selection."""
    app = taught_much
    other = shown(app, since=MARCH)
    for token in ("", "nonsense", "21-0123456789abcdef", "9" * 40, other):
        with pytest.raises(Unconfirmed, match="the token is of another undo"):
            app.undo("default", Selection(source="ann"), source="x", confirm=token)

    assert other != shown(app, source="ann")
    assert 21 == app.live.get("default").snapshot.messages.sum()


@on_sqlite
def test_a_token_is_of_the_undos_that_there_were(taught_much):
    """Another undo since may have changed what this one does."""
    app = taught_much
    token = shown(app, source="ann")
    teach(app, ham(1), "ham", source="ben")
    undo(app, source="ben")
    with pytest.raises(Unconfirmed, match="an undo was made since"):
        app.undo("default", Selection(source="ann"), source="x", confirm=token)


@on_sqlite
def test_an_undo_of_little_needs_no_token(taught_much, monkeypatch):
    """Twenty messages, or one in a hundred where that is more."""
    app = taught_much
    teach(app, ham(1), "ham", source="ben")

    assert shown(app, source="ben") is None
    monkeypatch.setattr(service, "UNCONFIRMED_SHARE", 1.0)
    assert shown(app, source="ann") is None
    assert {("spam", None): 21} == undo(app, source="ann").plan.messages
