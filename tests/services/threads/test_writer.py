"""The writer thread: it answers everybody, whatever happens."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest
from sqlalchemy import select, update

from app.classifier.record import record
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.errors import (
    CorruptVector,
    DatabaseUnavailable,
    ProfileReplaced,
    UnknownLabel,
)
from app.ledger.entry import ScoredRow
from app.ledger.teaching import Teaching
from app.services import live as live_module
from app.services import writer as module
from app.services.classify import observe
from app.services.live import LiveProfile
from app.services.writer import Writer
from app.storage import hidden, profiles, tables
from app.storage.database.engine import writing
from tests.support.command import PATIENCE
from tests.support.messages import ham, spam

NOW = datetime(2026, 11, 6, tzinfo=UTC)


def teaching(raw, label):
    """Return what somebody says about a message."""
    seen = observe(raw, Specification().views)
    return Teaching(
        digest=seen.digest,
        label=label,
        evidence=ScoredRow.of(seen, time=NOW),
        source="test",
        time=NOW,
    )


@contextmanager
def busy(engine):
    """Hold the lock that the ledger is appended under."""
    with writing(engine) as connection:
        connection.execute(select(tables.profile).with_for_update())
        yield


def created(engine, name):
    """Return the row of a profile that has learned nothing."""
    with writing(engine) as connection:
        return profiles.create(
            connection,
            name=name,
            labels=("ham", "spam"),
            spam_labels=("spam",),
            feature_set=1,
            created_at=NOW,
        )


@pytest.fixture
def live(engine):
    """A profile that has learned nothing."""
    return LiveProfile(created(engine, "default"), Snapshot.empty(Specification()))


def test_feedback_that_waits_shares_a_commit(engine, live):
    """What gathers while the thread is busy is committed together, in order."""
    writer = Writer(engine)
    writer.start()
    given = [teaching(spam(n), "spam") for n in range(20)]
    with busy(engine):
        jobs = [writer.submit(live, each) for each in given]

    outcomes = [job.result(PATIENCE).outcome for job in jobs]
    writer.stop()

    assert list(range(1, 21)) == [outcome.row.revision for outcome in outcomes]
    assert 20 == live.snapshot.revision


def test_what_shares_a_commit_is_scored_as_if_it_came_alone(engine, live):
    """Each by what was known before any of them was learned, bit for bit."""
    writer = Writer(engine)
    writer.start()
    for n in range(3):
        for raw, label in ((ham(n), "ham"), (spam(n), "spam")):
            writer.submit(live, teaching(raw, label)).result(PATIENCE)
    writer.stop()
    known = live.snapshot
    fresh = [teaching(spam(n), "spam") for n in range(10, 15)]
    alone = [score(known, each.evidence.views) for each in fresh]
    together = Writer(engine)
    jobs = [together.submit(live, each) for each in fresh]
    together.start()
    written = [job.result(PATIENCE) for job in jobs]
    together.stop()

    assert [v.log_odds for v in alone] == [w.verdict_before.log_odds for w in written]
    assert [record(v, known.specification) for v in alone] == [
        w.outcome.row.scores for w in written
    ]


def test_what_was_submitted_cannot_be_cancelled(engine, live):
    """A sender that gives up changes nothing: the row is written, and told."""
    writer = Writer(engine)
    writer.start()
    given = teaching(ham(1), "ham")
    with busy(engine):
        given_up = writer.submit(live, given)
        cancelled = given_up.cancel()
    after = writer.submit(live, teaching(ham(2), "ham")).result(PATIENCE).outcome
    writer.stop()

    assert (False, "learned") == (cancelled, given_up.result(0).outcome.kind)
    assert 2 == after.row.revision


def test_an_answer_does_not_wait_for_the_counts(engine, live):
    """They learn after it, and who asks for them waits until they have."""
    seen = []
    writer = Writer(engine)
    answer = writer.submit(live, teaching(spam(1), "spam"))
    # In the thread of the writer, which waits for nobody.
    answer.add_done_callback(lambda _: seen.append(live.revision))
    writer.start()
    answer.result(PATIENCE)
    after = live.revision
    writer.stop()

    assert ([0], 1) == (seen, after)


def test_what_is_far_behind_is_left_to_the_house_keeping(engine, live, monkeypatch):
    """A feedback does not wait for all that somebody else has imported."""
    monkeypatch.setattr(live_module, "CATCH_UP_ROWS", 3)
    elsewhere = LiveProfile(live.row, Snapshot.empty(live.specification))
    writer = Writer(engine)
    writer.start()
    for n in range(2):
        writer.submit(elsewhere, teaching(spam(n), "spam")).result(PATIENCE)
    writer.submit(live, teaching(ham(0), "ham")).result(PATIENCE)
    near = live.snapshot.revision
    for n in range(10, 15):
        writer.submit(elsewhere, teaching(spam(n), "spam")).result(PATIENCE)
    far = writer.submit(live, teaching(ham(1), "ham")).result(PATIENCE).outcome
    left = live.snapshot.revision
    writer.stop()
    live.follow(engine)

    assert (3, 3) == (near, left)
    assert ("learned", 9) == (far.kind, far.row.revision)
    assert 9 == live.snapshot.revision


def test_an_error_is_the_answer_of_those_who_wait(engine, live):
    """A teaching that the ledger refuses raises for its sender, and only then."""
    writer = Writer(engine)
    writer.start()
    with pytest.raises(UnknownLabel):
        writer.submit(live, teaching(ham(1), "junk")).result(PATIENCE)
    outcome = writer.submit(live, teaching(ham(1), "ham")).result(PATIENCE).outcome
    writer.stop()

    assert "learned" == outcome.kind


@pytest.mark.parametrize("stored", ["learned", "scored"])
def test_damaged_features_refuse_their_own_feedback_alone(engine, live, stored):
    """Others, who share its commit, are taught, before it and after it."""
    writer = Writer(engine)
    writer.start()
    damaged = teaching(spam(2), "ham")
    if stored == "learned":
        writer.submit(live, teaching(spam(2), "spam")).result(PATIENCE)
        with writing(engine) as connection:
            connection.execute(update(tables.ledger).values(vector=b"junk"))
    else:
        evidence = replace(damaged.evidence, vector=b"junk", decoded=None)
        damaged = replace(damaged, evidence=evidence)
    given = [teaching(spam(1), "spam"), damaged, teaching(ham(3), "ham")]
    with busy(engine):
        one, bad, other = [writer.submit(live, each) for each in given]

    with pytest.raises(CorruptVector, match="too short"):
        bad.result(PATIENCE)
    kinds = [each.result(PATIENCE).outcome.kind for each in (one, other)]
    writer.stop()

    assert ["learned", "learned"] == kinds


def test_a_stopped_writer_takes_nothing_and_loses_nothing(engine, live):
    """What was submitted before the stop is answered; after it, refused."""
    writer = Writer(engine)
    writer.start()
    jobs = [writer.submit(live, teaching(ham(n), "ham")) for n in range(5)]
    writer.stop()

    assert ["learned"] * 5 == [job.result(0).outcome.kind for job in jobs]
    with pytest.raises(DatabaseUnavailable, match="stopping"):
        writer.submit(live, teaching(ham(9), "ham"))


def test_a_queue_that_is_too_long_refuses_more(engine, live, monkeypatch):
    """A disk that cannot keep up is said, before memory fills."""
    monkeypatch.setattr(module, "BACKLOG", 2)
    writer = Writer(engine)
    writer.start()
    waiting = [teaching(ham(n), "ham") for n in range(20)]

    with busy(engine), pytest.raises(DatabaseUnavailable, match="waiting"):
        list(map(partial(writer.submit, live), waiting))
    writer.stop()


def replaced(engine, row, *, spam_label="spam"):
    """Put a profile that has learned nothing in the place of another."""
    with writing(engine) as connection:
        new = profiles.create(
            connection,
            name=hidden.hidden_name(row.name),
            labels=("ham", spam_label),
            spam_labels=(spam_label,),
            feature_set=row.feature_set,
            created_at=NOW,
        )
        return hidden.show(connection, new, instead_of=row, created_at=NOW, policy=None)


def test_others_are_taught_while_a_successor_is_loaded(engine, live):
    """Those who taught what was replaced together wait for the same one."""
    loaded, asked = threading.Event(), []
    row = created(engine, "other")
    other = LiveProfile(row, Snapshot.empty(Specification()))
    new = LiveProfile(replaced(engine, live.row), Snapshot.empty(Specification()))

    def successor(profile):
        asked.append(profile)
        loaded.wait(PATIENCE)
        return new

    writer = Writer(engine, successor=successor)
    waiting = [writer.submit(live, teaching(spam(n), "spam")) for n in range(3)]
    writer.start()
    meanwhile = writer.submit(other, teaching(ham(1), "ham")).result(PATIENCE)
    done_before = [job.done() for job in waiting]
    loaded.set()
    written = [job.result(PATIENCE) for job in waiting]
    writer.stop()

    assert other is meanwhile.profile
    assert [False] * 3 == done_before
    assert [new] * 3 == [each.profile for each in written]
    assert [1, 2, 3] == [each.outcome.row.revision for each in written]
    assert [live] == asked


def test_a_successor_without_a_label_takes_the_others(engine, live):
    """Who said the missing one is told, and nobody else fails with him."""
    row = replaced(engine, live.row, spam_label="junk")
    specification = Specification(labels=row.labels, spam_labels=row.spam_labels)
    new = LiveProfile(row, Snapshot.empty(specification))
    writer = Writer(engine, successor=lambda _: new)
    spam_answer, ham_answer = (
        writer.submit(live, teaching(spam(1), "spam")),
        writer.submit(live, teaching(ham(1), "ham")),
    )
    writer.start()

    with pytest.raises(UnknownLabel, match="ham, junk"):
        spam_answer.result(PATIENCE)
    assert "learned" == ham_answer.result(PATIENCE).outcome.kind
    writer.stop()


def test_who_waits_for_a_successor_is_told_that_there_is_none(engine, live):
    """Or that this one was replaced as well: nobody is handed on a second time."""
    replaced(engine, live.row)

    def away(_):
        msg = "away"
        raise DatabaseUnavailable(msg)

    for successor, error in ((away, DatabaseUnavailable), (None, ProfileReplaced)):
        writer = Writer(engine, **({"successor": successor} if successor else {}))
        writer.start()
        job = writer.submit(live, teaching(spam(1), "spam"))
        with pytest.raises(error):
            job.result(PATIENCE)
        writer.stop()

        assert 0 == live.snapshot.revision


def test_where_no_thread_can_wait_for_a_successor_others_are_taught(
    engine, live, monkeypatch
):
    """Its limit of threads or memory keeps no service from learning."""

    def lacking(_):
        raise RuntimeError("can't start new thread")

    other = LiveProfile(created(engine, "other"), Snapshot.empty(Specification()))
    replaced(engine, live.row)
    writer = Writer(engine)
    writer.start()
    monkeypatch.setattr(threading.Thread, "start", lacking)
    with pytest.raises(ProfileReplaced):
        writer.submit(live, teaching(spam(1), "spam")).result(PATIENCE)
    taught = writer.submit(other, teaching(ham(1), "ham")).result(PATIENCE)
    writer.stop()

    assert "learned" == taught.outcome.kind


def test_who_was_handed_on_keeps_nobody_else_from_it(engine, live):
    """A profile may be replaced again and again, and others have just come."""

    def alone(row):
        return LiveProfile(row, Snapshot.empty(Specification()))

    other = alone(created(engine, "other"))
    second = alone(replaced(engine, live.row))
    third = alone(replaced(engine, second.row))
    asked, go = threading.Event(), threading.Event()

    def successor(profile):
        if profile is second:
            return third
        asked.set()
        go.wait(PATIENCE)
        return second

    def until_waiting(number):
        deadline = time.monotonic() + PATIENCE
        while writer.waiting != number and time.monotonic() < deadline:
            time.sleep(0.001)

    writer = Writer(engine, successor=successor)
    writer.start()
    handed_on = writer.submit(live, teaching(spam(1), "spam"))
    asked.wait(PATIENCE)
    # Not by the lock of the database, for which the thread waits 5 s only.
    with other.held():
        writer.submit(other, teaching(ham(2), "ham"))
        until_waiting(0)
        fresh = writer.submit(second, teaching(ham(1), "ham"))
        go.set()
        until_waiting(2)

    with pytest.raises(ProfileReplaced):
        handed_on.result(PATIENCE)
    assert third is fresh.result(PATIENCE).profile
    writer.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_thread_that_has_ended(engine, live, monkeypatch):
    """Whatever ended it; the others are refused as by a service that stops."""
    waiting = []

    def fail():
        waiting.append(writer.submit(live, teaching(ham(1), "ham")))
        raise SystemExit

    writer = Writer(engine, notify=fail)
    writer.submit(live, teaching(spam(1), "spam"))
    writer.start()
    writer.join(PATIENCE)

    with pytest.raises(DatabaseUnavailable, match="is stopping"):
        waiting[0].result(PATIENCE)


def test_a_service_that_stops_meanwhile_says_so(engine, live):
    """The thread that would teach it has ended."""
    replaced(engine, live.row)
    begun, stopped = threading.Event(), threading.Event()

    def successor(profile):
        begun.set()
        stopped.wait(PATIENCE)
        return profile

    writer = Writer(engine, successor=successor)
    writer.start()
    job = writer.submit(live, teaching(spam(1), "spam"))
    begun.wait(PATIENCE)
    writer.stop()
    stopped.set()

    with pytest.raises(DatabaseUnavailable, match="is stopping"):
        job.result(PATIENCE)
