"""What is known of a word: its counts in memory, its months, its weight."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from app.classifier.specification import TEXT_INTERPOLATION, TEXT_SMOOTHING
from app.storage.database.engine import writing
from tests.support.application import learn_batch, running
from tests.support.builders import fold
from tests.support.messages import ham, spam

JANUARY = datetime(2026, 1, 9, tzinfo=UTC)
JULY = datetime(2026, 7, 9, tzinfo=UTC)


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


@pytest.fixture
def app(app):
    """A profile with nine messages, all folded."""
    for i in range(6):
        app.feedback.teach("default", spam(i), label="spam", source="test")
    for i in range(3):
        app.feedback.teach("default", ham(i), label="ham", source="test")
    with writing(app.engine) as connection:
        fold(connection, app.live.get("default").row, limit=100)
    return app


def test_counts_are_those_of_the_messages(app):
    """Two of three spam texts hold `free`, twice each; no ham does."""
    state = app.words("default", "free")

    assert {"ham": 3, "spam": 6} == state.messages
    assert {"ham": 0, "spam": 4} == state.views["words"].messages


def test_months_add_up_to_the_counts(app):
    """What is folded of a word is what memory has of it."""
    state = app.words("default", "free").views["words"]

    for label in ("ham", "spam"):
        here = [count for count in state.epochs if count.label == label]
        assert state.messages[label] == sum(count.messages for count in here)
        assert {"ham": 3, "spam": 6}[label] == sum(count.learned for count in here)


def test_what_a_view_has_learned_is_told_of_it_alone(database_url):
    """Not of the profile: a view that was added later has learned less."""
    with running(database_url=database_url, text_views=("words",)) as app:
        for i in range(3):
            app.feedback.teach("default", ham(i), label="ham", source="test")
    with running(database_url=database_url, text_views=("words", "pairs")) as app:
        app.feedback.teach("default", spam(0), label="spam", source="test")
        app.feedback.teach("default", ham(5), label="ham", source="test")
        views = {
            view: each.learned
            for word in ("free", "free prize")
            for view, each in app.words("default", word).views.items()
        }

    assert {
        "words": {"ham": 4, "spam": 1},
        "pairs": {"ham": 1, "spam": 1},
    } == views


def test_the_weight_is_the_difference_of_the_log_likelihoods(app):
    """Of 4 of 6 spam against 0 of 3 ham, each mixed with the whole."""
    table = app.live.get("default").snapshot.tables["words"]
    totals = table.totals("presence")
    whole = 4 / totals.sum()
    spread = TEXT_SMOOTHING.alpha / whole
    trust = TEXT_INTERPOLATION.weights(np.array([3, 6]))
    own = (np.array([0, 4]) + TEXT_SMOOTHING.alpha) / (totals + spread)
    ham, spam = trust * own + (1 - trust) * whole

    assert app.words("default", "free").views["words"].log_odds == pytest.approx(
        math.log(spam / ham), abs=1e-12
    )


def test_a_pair_is_found_by_its_two_words(app):
    """`free shipping` stands in one of the three spam texts."""
    views = app.words("default", "free shipping").views

    assert ["pairs"] == list(views)
    assert {"ham": 0, "spam": 2} == views["pairs"].messages


def test_a_header_word_has_its_tag(app):
    """The tag tells the header."""
    views = app.words("default", "subject:pills").views

    assert {"ham": 0, "spam": 2} == views["headers"].messages


def test_an_unseen_word_is_in_no_view(app):
    """Nothing is made up for a word that was never learned."""
    assert {} == app.words("default", "zyzzyva").views


def test_what_a_word_was_worth_follows_its_months(database_url):
    """A spam word that only ham has half a year later, under a half-life of 3 months."""
    with running(database_url=database_url, half_life_months=3.0) as app:
        for when, as_spam, as_ham in (
            (JANUARY, [spam(n) for n in range(12)], [ham(n) for n in range(16)]),
            (JULY, [ham(n) for n in range(16, 24)], [spam(n) for n in range(12, 18)]),
        ):
            learn_batch(app, [("spam", raw) for raw in as_spam], when)
            learner = learn_batch(app, [("ham", raw) for raw in as_ham], when)
        [*learner.fold()]
        app.live.advance_month()
        state = app.words("default", "free")
    months = state.views["words"].months

    # 8 of 12 spam and none of 16 ham; then a quarter of them, and all of 6 and of
    # 8 that were taught the other way round.  Half a message is added to each.
    assert [202601, 202607] == [month.epoch for month in months]
    assert [0.25, 1.0] == [month.weight for month in months]
    assert [
        pytest.approx(math.log((8.5 / 13) / (0.5 / 17))),
        pytest.approx(math.log((2.5 / 12) / (4.5 / 11))),
    ] == [month.log_odds for month in months]
    assert 3.0 == state.half_life
    assert {"ham": 10, "spam": 11} == state.messages
    assert {"ham": 4, "spam": 2} == state.views["words"].messages


def test_a_word_that_counts_as_nothing_keeps_its_months(database_url):
    """After eleven half-lives only the tables know of it."""
    with running(database_url=database_url, half_life_months=0.25) as app:
        for when, kind in ((JANUARY, spam), (JULY, ham)):
            learner = learn_batch(app, [("spam", kind(n)) for n in range(3)], when)
        [*learner.fold()]
        app.live.advance_month()
        word = app.words("default", "free").views["words"]
        unseen = app.words("default", "zyzzyva").views

    assert {"ham": 0, "spam": 0} == word.messages
    assert 0.0 == word.log_odds
    assert [(202601, 2), (202607, 0)] == [
        (count.epoch, count.messages) for count in word.epochs
    ]
    assert {} == unseen


def test_without_a_half_life_every_month_counts_whole(app):
    """And the last of them says what all messages say."""
    state = app.words("default", "free")
    [month] = state.views["words"].months

    assert state.half_life is None
    assert 1.0 == month.weight
    assert pytest.approx(math.log((4.5 / 7) / (0.5 / 4))) == month.log_odds
