"""Learning without anybody's word: marked, bounded, and taken back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.errors import InvalidSetting
from app.ledger.undo import Selection
from app.services.application import Application
from app.services.classify import Classify
from app.services.writer import AutoLearn
from app.settings import Settings
from app.storage import ledger
from app.storage.database.engine import reading
from tests.support.application import running
from tests.support.messages import ham, spam

TAUGHT = 40


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


def teach(app, raw, label, source="ann"):
    """Teach one message."""
    return app.feedback.teach("default", raw, label=label, source=source)


@pytest.fixture
def app(database_url):
    """A service that learns its own verdicts, and has been taught a little."""
    with running(
        database_url=database_url, autolearn_from=3.0, autolearn_per_day=3
    ) as app:
        for n in range(TAUGHT // 2):
            teach(app, ham(n), "ham")
            teach(app, spam(n), "spam")
        yield app


def classify(app, raw):
    """Classify a message, and wait until what follows is on disk."""
    classified = app.classify("default", raw, strongest=0)
    settle(app)
    return classified


def settle(app):
    """Wait until nothing is on its way to the ledger."""
    # The writer takes what is waiting in order: this waits for all before it.
    answer = app.feedback.teach("default", ham(0), label="ham", source="ann")
    assert answer.outcome.kind == "unchanged"


def counted(app):
    """Return how many messages the live figures are made of."""
    errors = app.figures("default", window=100).errors
    return errors.ham + errors.spam


def undo_own(app):
    """Take back what the filter taught itself."""
    begun = app.undo.begin("default", Selection(source="auto"), source="ann")
    assert list(app.undo.finish(begun))


def rows(app):
    """Return the rows of the ledger after those that were taught at first."""
    live = app.live.get("default")
    with reading(app.engine) as connection:
        return ledger.rows_after(connection, live.row.id, revision=TAUGHT, limit=1000)


def said(app):
    """Return who said what in those rows."""
    return [(row.source, row.label_before, row.label) for row in rows(app)]


def test_a_confident_verdict_is_learned_and_marked(app):
    """The row keeps the earlier score, and memory learns it too."""
    verdict = classify(app, spam(50)).verdict

    assert [("auto", None, "spam")] == said(app)
    assert verdict.log_odds == rows(app)[0].scores["log_odds"]
    terms = rows(app)[0].scores["terms"]
    assert set(app.service.deciding) == {name.split("/")[0] for name in terms}
    assert TAUGHT + 1 == app.live.get("default").snapshot.revision


def test_nothing_is_before_both_sides_are_known(database_url):
    """Twenty messages of each side must be learned first."""
    with running(database_url=database_url, autolearn_from=3.0) as app:
        for n in range(25):
            teach(app, spam(n), "spam")
        for n in range(19):
            teach(app, ham(n), "ham")
        classify(app, spam(50))

        assert 44 == app.live.get("default").snapshot.revision

        teach(app, ham(19), "ham")
        classify(app, spam(50))

        assert 46 == app.live.get("default").snapshot.revision


def test_an_unsure_verdict_is_not(app):
    """A message that was taught before is not learned either."""
    assert "unsure" == classify(app, b"Subject: zebra\n\nquagga\n").verdict.decision
    classify(app, spam(1))

    assert [] == said(app)


def test_what_a_person_has_forgotten_is_not_learned_again(app):
    """The label of a person always stands."""
    taught = teach(app, spam(60), "spam")
    app.feedback.forget("default", taught.outcome.row.digest, source="ann")
    classify(app, spam(60))

    assert ["ann", "ann"] == [row.source for row in rows(app)]


def test_a_day_has_its_bound_whatever_the_process(app):
    """The ledger has the number, so a restart does not reset it."""
    for n in range(50, 55):
        classify(app, spam(n))

    assert 3 == len(said(app))

    again = Application(app.settings)
    again.start()
    try:
        classify(again, spam(56))
    finally:
        again.stop()

    assert 3 == len(said(app))


def test_the_next_day_it_goes_on(app):
    """The day is one in UTC."""
    clock = [datetime(2026, 11, 20, 23, 59, tzinfo=UTC)]
    settings = app.settings.model_copy(update={"autolearn_per_day": 1})
    learn = AutoLearn(app.writer, lambda: clock[0], settings)
    app.classify = Classify(app.live, app.recent, app.tally, learn)
    for n, later in enumerate((0, 0, 2)):
        clock[0] += timedelta(minutes=later)
        classify(app, spam(70 + n))

    assert [20, 21] == [row.time.day for row in rows(app)]


def test_a_person_moves_it_and_it_then_counts_in_the_figures(app):
    """It counts with the score from before any learning."""
    first = classify(app, spam(50)).verdict
    assert TAUGHT == counted(app)

    teach(app, spam(50), "ham")
    figures = app.figures("default", window=100)

    assert ("ann", "spam", "ham") == said(app)[-1]
    assert TAUGHT + 1 == counted(app)
    assert (first.decision == "spam") == bool(figures.errors.ham_lost)


def test_what_a_person_confirms_is_theirs(app):
    """It stays when automatic learning is undone."""
    classify(app, spam(50))
    classify(app, spam(51))
    confirmed = teach(app, spam(50), "spam")
    assert "learned" == confirmed.outcome.kind
    assert "unchanged" == teach(app, spam(50), "spam").outcome.kind
    assert TAUGHT + 1 == counted(app)

    undo_own(app)
    latest = {row.digest: row.label for row in rows(app)}

    assert sorted(("spam", "")) == sorted(label or "" for label in latest.values())
    assert "spam" == latest[confirmed.outcome.digest]


def test_all_of_it_can_be_taken_back_exactly(app):
    """The counts are those of people, and nothing is learned again."""
    before = app.live.get("default").snapshot.messages.tolist()
    for n in (50, 51):
        classify(app, spam(n))
    assert before != app.live.get("default").snapshot.messages.tolist()

    undo_own(app)
    classify(app, spam(50))
    app.live.refresh()

    assert before == app.live.get("default").snapshot.messages.tolist()


def test_a_service_that_stops_answers_all_the_same(app):
    """Scoring neither waits nor fails."""
    app.writer.stop()

    assert "spam" == app.classify("default", spam(80), strongest=0).verdict.decision


def test_the_weights_of_a_start_and_of_memory_are_the_same(app):
    """The query that reads the rows knows whose they are."""
    for n in range(100, 120):
        teach(app, ham(n), "ham")
        teach(app, spam(n), "spam")
    classify(app, spam(200))
    # The weights are fitted at the 50th row, and the own one is among these.
    for n in range(300, 320):
        teach(app, ham(n), "ham")
    here = app.live.get("default").snapshot.fusion
    with running(database_url=app.settings.database_url) as started:
        there = started.live.get("default").snapshot.fusion
    own = {digest: one.own for digest, one in here.examples.items()}

    assert 1 == sum(own.values())
    assert list(own.items()) == [(x, one.own) for x, one in there.examples.items()]
    assert here.waiting == there.waiting
    assert here.weights.tolist() == there.weights.tolist()


@pytest.mark.parametrize("nats", [1.0, float("inf"), float("nan")])
def test_a_verdict_that_is_not_sure_cannot_be_trusted(tmp_path, nats):
    """A threshold must be a number, and not below that of spam."""
    settings = Settings(database_url=f"sqlite:///{tmp_path}/a", autolearn_from=nats)

    with pytest.raises(InvalidSetting, match="POSTBAYES_AUTOLEARN_FROM"):
        Application(settings)
