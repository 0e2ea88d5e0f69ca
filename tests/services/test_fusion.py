"""The weights of the views in a service: learned, followed, and there again."""

from __future__ import annotations

import pytest

from app.bayes.table import FeatureTable
from app.doors.documents.profile import ProfileOut
from app.services import learn as learning
from app.services.clock import now
from tests.support.application import learn_batch, running
from tests.support.messages import ham, spam


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


def learn(app, numbers):
    """Learn a ham and a spam of each number, in one commit."""
    mail = [each for n in numbers for each in (("ham", ham(n)), ("spam", spam(n)))]
    learn_batch(app, mail, now(), store_words=False)


def fusion_of(app):
    """Return the fusion of the site."""
    return app.live.get("default").snapshot.fusion


def fusion(app):
    """Return the weights, and what they were fitted to."""
    found = fusion_of(app)
    return (
        found.weights.tolist(),
        found.bias.tolist(),
        found.fitted_revision,
        found.fitted_messages,
    )


def test_another_process_and_a_start_come_to_the_same_weights(database_url):
    """They follow from the ledger, in whatever steps it was read."""
    with (
        running(database_url=database_url) as app,
        running(database_url=database_url) as other,
    ):
        for first in range(0, 60, 4):
            learn(app, range(first, first + 4))
        app.feedback.teach("default", ham(1), label="spam", source="test")
        other.live.refresh()
        here, there = fusion(app), fusion(other)
        with running(database_url=database_url) as started:
            after_a_start = fusion(started)

    assert (100, 100) == here[2:]
    assert here == there == after_a_start


def test_what_a_service_is_taught_tells_what_comes(app):
    """Of what was scored first: one of four by its id, and one by sending it again."""
    ids = [
        app.classify("default", spam(n), strongest=0).observation.digest
        for n in range(4)
    ]
    app.feedback.teach_by_id("default", ids[0], label="spam", source="test")
    by_id = fusion_of(app).arrivals.by_side
    app.feedback.teach("default", spam(1), label="spam", source="test")
    by_message = fusion_of(app).arrivals.by_side
    app.feedback.teach("default", ham(9), label="ham", source="test")

    assert [1.5, 2.5] == by_id.tolist()
    assert [1.0, 3.0] == by_message.tolist()
    # That was never scored, as an archive that is taught.
    assert [1.0, 3.0] == fusion_of(app).arrivals.by_side.tolist()


def test_reports_of_spam_alone_take_no_ham(app):
    """Eight messages of two hundred that came."""
    ids = [
        app.classify("default", kind(n), strongest=0).observation.digest
        for n in range(100)
        for kind in (spam, ham)
    ]
    for digest in ids[0:16:2]:
        app.feedback.teach_by_id("default", digest, label="spam", source="test")

    assert "unsure" == app.classify("default", ham(500), strongest=0).verdict.decision


def test_a_profile_says_what_its_views_are_worth(app):
    """Weights by view, bias by label, and what they were fitted to."""
    for first in range(0, 32, 4):
        learn(app, range(first, first + 4))

    state = ProfileOut.of(app, "default").fusion

    assert [
        "words/mean20",
        "headers/mean20",
        "pairs/mean20",
        "corrections/bounded20-5.4",
        "header_corrections/bounded20-5.4",
        "grams/bounded-mean20-0.09",
    ] == list(state.weights)
    assert ["ham", "spam"] == list(state.bias)
    assert (50, 50) == (state.fitted_revision, state.fitted_messages)


def test_the_cost_of_a_lost_ham_is_where_a_decision_begins(database_url):
    """Odds of 99 to 1 for spam, and of 99 to 1 for ham."""
    with running(database_url=database_url, ham_cost=99.0) as app:
        state = ProfileOut.of(app, "default")

    assert 0.99 == round(state.spam_threshold.probability, 9)
    assert 0.01 == round(state.ham_threshold.probability, 9)


def known(app):
    """Return all that the site has in memory, to be compared exactly."""
    snapshot = app.live.get("default").snapshot
    tables = {
        view: table.flatten() if isinstance(table, FeatureTable) else table
        for view, table in snapshot.tables.items()
    }
    return snapshot.revision, tables, fusion(app)


@pytest.mark.parametrize("meanwhile", [[], [9], [90]])
def test_a_batch_is_known_in_memory_as_the_ledger_has_it(
    database_url, monkeypatch, meanwhile
):
    """Also where somebody else teaches between its scores and its transaction."""
    real = learning.scored_in_order

    def scored(*of):
        """Score a batch, and teach a message of it, or another one."""
        found = real(*of)
        for number in meanwhile:
            app.feedback.teach("default", ham(number), label="spam", source="ann")
        return found

    with running(database_url=database_url) as app:
        learn(app, range(8))
        monkeypatch.setattr(learning, "scored_in_order", scored)
        learn(app, range(8, 12))
        monkeypatch.undo()
        learn(app, range(12, 14))
        here = known(app)
    with running(database_url=database_url) as started:
        there = known(started)

    assert there == here
