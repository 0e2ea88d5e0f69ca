"""Counts that decay: what follows, what is loaded and what is replayed agree."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.bayes.models.discrete import Bernoulli, Multinomial
from app.bayes.table import FeatureTable
from app.classifier.record import record
from app.classifier.rule import FusionRule, Term, VerdictRule
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import PARTS, Specification, ViewModel
from app.doors.documents.profile import DecayOut, ProfileOut
from app.evaluation.subject import Subject, Training
from app.ledger.entry import epoch_of
from app.ledger.undo import Selection
from app.services.cache import LiveProfiles
from app.services.classify import observe
from app.services.live import LiveProfile
from app.services.startup import specification as specified
from app.settings import Settings
from app.storage import fold, ledger, undo_work
from app.storage.database.engine import reading, writing
from tests.support.application import learn_batch, running
from tests.support.builders import (
    begin_undo,
    fold_all,
    new_profile,
    observed,
    taught,
    teach,
)
from tests.support.databases import on_one_database, on_sqlite
from tests.support.messages import ham, spam

WORDS = ({"free": 2}, {"free": 1, "meet": 1}, {"meet": 3}, {"lunch": 1, "pills": 1})
# Every few rows, so that a few dozen of them refit the weights several times.
SPECIFICATION = Specification(
    classifiers={
        "words": ViewModel(view="words", event_model=Multinomial()),
        "pairs": ViewModel(view="pairs", event_model=Bernoulli()),
    },
    verdict=VerdictRule(
        terms=(Term(classifier="words"), Term(classifier="pairs")),
        fusion=FusionRule(every=5, window=20),
    ),
).decaying(2.0)

teachings = st.tuples(
    st.just("teach"),
    st.integers(0, 7),
    st.sampled_from([None, "ham", "ham", "spam", "spam"]),
)
months = st.tuples(st.just("month"), st.integers(1, 30))
others = st.tuples(st.sampled_from(["fold", "follow", "turn", "start", "undo"]))
operations = st.lists(st.one_of(teachings, teachings, months, others), max_size=30)


def month(number):
    """Return a moment in a month, counted from January 2024."""
    return datetime(2024 + number // 12, 1 + number % 12, 14, tzinfo=UTC)


@pytest.fixture(autouse=True, scope="module")
def _no_row_is_of_the_future():
    """Rows are of months to come, from which ages would not count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.services.live.now", lambda: month(7_000))
        yield


def live_profile(engine, profile):
    """Return all profiles as a worker that starts now has them, and this one."""
    workers = LiveProfiles(
        engine,
        lambda row: replace(SPECIFICATION, labels=row.labels),
    )
    workers.refresh()
    return workers, workers.get(profile.name)


def replayed(engine, profile):
    """Return the snapshot that follows from the ledger, row by row."""
    with reading(engine) as connection:
        rows = ledger.rows_after(connection, profile.id, revision=0, limit=10_000)
    newest = max((row.time for row in rows), default=None)
    specification = SPECIFICATION.as_of(newest and epoch_of(newest))
    snapshot = Snapshot.empty(specification)
    for row in rows:
        weight = specification.decay.weight(row.epoch)
        snapshot.learn(
            {view: x * weight for view, x in row.delta(profile.labels).items()},
            revision=row.revision,
            lessons=[row.lesson],
        )
    return snapshot


def said(snapshot):
    """Return everything that an answer depends on, and some answers."""
    return (
        snapshot.revision,
        snapshot.specification.decay,
        snapshot.messages.tolist(),
        snapshot.fusion.weights.tolist(),
        snapshot.fusion.bias.tolist(),
        [
            score(snapshot, observed(n, words, {"size": 100 * n + 1}).views).log_odds
            for n, words in enumerate(WORDS)
        ],
    )


def counts(snapshot):
    """Return all counts of a snapshot, to be compared exactly."""
    return {
        view: table.flatten() if isinstance(table, FeatureTable) else table
        for view, table in snapshot.tables.items()
    }


def learn(app, time, numbers):
    """Learn a ham and a spam of each number at a time."""
    mail = [each for n in numbers for each in (("ham", ham(n)), ("spam", spam(n)))]
    learn_batch(app, mail, time)


def carry_out(operation, engine, profile, worker, now):
    """Do one thing that happens to a profile."""
    match operation:
        case ("teach", message, label):
            seen = observed(message, WORDS[message % 4], {"size": 50 * message + 1})
            scores = record(
                score(worker.snapshot, seen.views), worker.snapshot.specification
            )
            asked = taught(
                message,
                label,
                WORDS[message % 4],
                {"size": 50 * message + 1},
                time=now,
                scores=scores,
            )
            teach(engine, profile, asked)
        case ("fold",):
            fold_all(engine, profile, limit=3)
        case ("follow",):
            worker.follow(engine)
        case ("turn",):
            worker.advance_month(engine)
        case ("undo",):
            with writing(engine) as connection:
                begin_undo(
                    connection,
                    profile,
                    Selection(since=now),
                    source="boss",
                    time=now,
                )
                while undo_work.step(connection, profile, limit=2):
                    pass


@on_sqlite
@on_one_database
@example(
    [
        ("teach", 0, "spam"),
        ("teach", 1, "ham"),
        ("fold",),
        ("month", 3),
        ("teach", 0, "ham"),
        ("follow",),
        ("month", 30),
        ("teach", 2, "spam"),
        ("follow",),
        ("teach", 1, None),
    ],
    [("teach", 2, "ham"), ("teach", 3, "spam")],
)
@given(operations, st.lists(teachings, min_size=1, max_size=6))
def test_what_follows_is_what_is_loaded_and_what_is_replayed(engine, history, later):
    """Whatever was taught, moved, forgotten and undone, and when months turned."""
    profile = new_profile(engine)
    workers, worker = live_profile(engine, profile)
    now = 0
    for operation in history:
        if operation[0] == "month":
            now += operation[1]
        elif operation[0] == "start":
            workers, worker = live_profile(engine, profile)
        else:
            carry_out(operation, engine, profile, worker, month(now))
    carry_out(("teach", 8, "spam"), engine, profile, worker, month(now))
    workers.refresh()
    workers.advance_month()
    # Of the same month, and so followed under the new weights, not loaded.
    for operation in later:
        carry_out(operation, engine, profile, worker, month(now))
    workers.refresh()
    _, started = live_profile(engine, profile)
    expected = replayed(engine, profile)
    with reading(engine) as connection:
        audited = fold.audit(connection, profile)

    assert not worker.month_began
    assert said(expected) == said(worker.snapshot) == said(started.snapshot)
    assert counts(expected) == counts(worker.snapshot) == counts(started.snapshot)
    assert 0 == audited.difference


def test_every_worker_counts_ages_from_the_newest_row(database_url):
    """Two that followed and one that was started anew answer alike."""
    asked = {"database_url": database_url, "half_life_months": 2.0}
    with running(**asked) as app, running(**asked) as other:
        learn(app, month(0), range(4))
        other.live.refresh()
        learn(app, month(6), range(4, 6))
        other.live.refresh()
        for each in (app, other):
            each.live.advance_month()
        here, there = (each.live.get("default").snapshot for each in (app, other))
        with running(**asked) as started:
            anew = started.live.get("default").snapshot

    assert 202407 == here.specification.decay.epoch
    # Four that count as an eighth, and two whole ones, of each label.
    assert [4 * PARTS // 8 + 2 * PARTS] * 2 == here.messages.tolist()
    assert counts(here) == counts(there) == counts(anew)


def test_a_month_turns_without_taking_back_what_was_taught_meanwhile(database_url):
    """The new weights wait until they know as much as the old ones."""
    asked = {"database_url": database_url, "half_life_months": 2.0}
    with running(**asked) as app:
        learn(app, month(0), range(4))
        stale = app.live.get("default")
        begun = Snapshot.empty(stale.specification)
        turned = LiveProfile(stale.row, begun)
        learn(app, month(6), range(4, 6))

        # It knows less than the worker whose place it would take.
        assert not stale.take_over(turned)
        assert 12 == stale.snapshot.revision


@on_sqlite
def test_without_a_half_life_no_month_ever_turns(database_url):
    """A message counts as one, whenever it was learned."""
    with running(database_url=database_url) as app:
        learn(app, month(0), range(4))
        learn(app, month(30), range(4, 6))
        live = app.live.get("default")

    assert app.decay_scheduler is None
    assert not live.month_began
    assert live.snapshot.specification.decay is None
    assert [6, 6] == live.snapshot.messages.tolist()


def test_an_older_row_does_not_turn_the_month_back(engine):
    """An import may bring the ledger of an older site."""
    profile = new_profile(engine)
    workers, worker = live_profile(engine, profile)
    for number in (30, 3):
        teach(engine, profile, taught(number, "ham", {"a": 1}, time=month(number)))
        workers.refresh()
        workers.advance_month()
    _, started = live_profile(engine, profile)

    assert 202607 == worker.snapshot.specification.decay.epoch
    assert said(worker.snapshot) == said(started.snapshot)


@on_sqlite
def test_a_profile_tells_what_its_mail_weighs(database_url):
    """Whole messages, by the month that ages are counted from."""
    with running(database_url=database_url, half_life_months=6.0) as app:
        learn(app, month(0), range(4))
        learn(app, month(6), range(4, 6))
        app.live.advance_month()
        state = ProfileOut.of(app, "default")

    assert {"ham": 4, "spam": 4} == state.messages
    assert DecayOut(half_life=6.0, epoch=202407) == state.decay


@on_sqlite
def test_an_evaluation_decays_as_the_service_does(database_url):
    """The same mail in the same months has the same scores, bit for bit."""
    specification = specified(Settings(half_life_months=2.0))
    subject = Subject(specification)
    stream = [
        (when, label, observe(kind(n), specification.views), kind(n))
        for n, when in enumerate([0] * 20 + [1] * 10 + [7] * 10)
        for label, kind in (("ham", ham), ("spam", spam))
    ]
    expected, found = [], []
    with running(database_url=database_url, half_life_months=2.0) as app:
        live = app.live.get("default")
        for when, label, seen, raw in stream:
            time = month(when)
            found.append(score(live.snapshot, seen.views).log_odds)
            learn_batch(app, [(label, raw)], time, store_words=False)
            if live.month_began:
                live.advance_month(app.engine)
            subject.enter(epoch_of(time))
            # As what is read from a file: it was not scored when it came.
            expected.append(score(subject.snapshot, seen.views).log_odds)
            subject.learn(seen.views, label)

    assert expected == found
    assert len({round(each, 9) for each in found}) > 20


def test_what_the_filter_taught_itself_is_moved_in_its_own_month():
    """As if a person had said at once what it is."""
    # Corrections are learned by the verdict at the time, and not when a label moves.
    views = ("words", "headers", "pairs")
    specification = specified(Settings(half_life_months=2.0, text_views=views))
    own, told = Subject(specification, Training(own_from=0.0)), Subject(specification)
    mistaken, probe = (
        observe(raw, specification.views).views for raw in (spam(50), spam(60))
    )

    def learn_both(month, label, raw):
        for subject in (own, told):
            subject.enter(month)
            subject.learn(observe(raw, specification.views).views, label)

    for n in range(20):
        learn_both(202601, "ham", ham(n))
        learn_both(202601, "spam", spam(n))
    decided = own.score(mistaken).decision
    told.learn(mistaken, "ham")
    learn_both(202603, "ham", ham(30))
    learn_both(202605, "ham", ham(31))
    before = own.score(probe).log_odds
    own.learn(mistaken, "ham")

    assert "spam" == decided
    assert before != told.score(probe).log_odds
    assert told.score(probe).log_odds == own.score(probe).log_odds
