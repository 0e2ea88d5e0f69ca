"""What is known of a word: its counts in memory, its months, its weight."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.classifier.specification import TEXT_BACKOFF, TEXT_SMOOTHING
from app.storage import fold as folding
from app.storage.engine import writing
from tests.messages import ham, spam


@pytest.fixture
def app(app):
    """A profile with nine messages, all folded."""
    for i in range(6):
        app.feedback.teach("default", spam(i), label="spam", source="test")
    for i in range(3):
        app.feedback.teach("default", ham(i), label="ham", source="test")
    with writing(app.engine) as connection:
        folding.fold(connection, app.live.get("default").row, limit=100)
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


def test_the_weight_is_the_difference_of_the_log_likelihoods(app):
    """Of 4 of 6 spam against 0 of 3 ham, each mixed with the whole."""
    table = app.live.get("default").snapshot.tables["words"]
    totals = table.totals("presence")
    spread = TEXT_SMOOTHING.alpha * table.vocabulary
    whole = (4 + TEXT_SMOOTHING.alpha) / (totals.sum() + spread)
    trust = TEXT_BACKOFF.trust(np.array([3, 6]))
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
