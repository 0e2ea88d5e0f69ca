"""A personal profile in a service: it knows what the site knows, from its first day."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from app.services.clock import now
from app.services.profiles import create_profile
from tests.support.application import running, teach
from tests.support.databases import on_sqlite
from tests.support.messages import ham, spam


@pytest.fixture
def app(database_url):
    """A site that has learned a little, a domain and a user that have not."""
    with running(database_url=database_url) as app:
        for n in range(12):
            teach(app, ham(n), "ham")
            teach(app, spam(n), "spam")
        for name in ("ann@example.org", "example.org"):
            add(app, name)
        yield app


def add(app, name, **more):
    """Create a profile, and have the application see it."""
    made_of = {"labels": ("ham", "spam"), "spam_labels": ("spam",), **more}
    create_profile(app.engine, name, time=now(), **made_of)
    app.live.refresh()


def score(app, profile, raw):
    """Return the answer of a profile."""
    return app.classify(profile, raw, strongest=3)


@on_sqlite
def test_a_new_profile_answers_at_once_as_the_site_does(app):
    """And its recipient's mail is answered by it, so that it can be taught there."""
    asked = app.delivery.address(["ann@example.org"])
    ann, site = (score(app, name, spam(50)) for name in (asked.name, "default"))

    assert "ann@example.org" == asked.name
    assert ("spam", site.verdict.log_odds) == (
        ann.verdict.decision,
        ann.verdict.log_odds,
    )
    assert [0, 0, 24] == [sum(level.messages.values()) for level in ann.levels]
    assert () == site.levels


@on_sqlite
def test_own_lessons_count_for_all_below_and_for_nobody_above(app):
    """The domain's for its users, the user's for the user."""
    before = {
        name: score(app, name, spam(50)).verdict.log_odds
        for name in ("ann@example.org", "example.org", "default")
    }
    for n in range(6):
        teach(app, spam(100 + n), "ham", profile="example.org")
    after = {name: score(app, name, spam(50)).verdict.log_odds for name in before}

    assert before["default"] == after["default"]
    assert after["example.org"] < before["example.org"] - 0.1
    assert after["ann@example.org"] == after["example.org"]


@on_sqlite
def test_the_score_before_a_lesson_is_that_of_all_levels(app):
    """It is what the person saw, and what the weights are fitted to."""
    said = score(app, "ann@example.org", spam(50)).verdict
    taught = app.feedback.teach("ann@example.org", spam(50), label="ham", source="test")

    assert said.log_odds == taught.verdict_before.log_odds


@on_sqlite
def test_a_profile_with_labels_of_its_own_answers_when_it_knows_both_sides(app):
    """Its counts cannot be added to those of the others; until then the domain does."""
    add(app, "bob@example.org", labels=("good", "bad"), spam_labels=("bad",))

    assert "example.org" == app.delivery.address(["bob@example.org"]).name
    assert () == score(app, "bob@example.org", spam(1)).levels


def test_levels_can_be_turned_off(database_url):
    """Then the most personal profile that knows both sides answers, alone."""
    with running(database_url=database_url, levels=False) as app:
        for n in range(3):
            teach(app, spam(n), "spam")
            teach(app, ham(n), "ham")
        add(app, "ann@example.org")

        assert "default" == app.delivery.address(["ann@example.org"]).name
        alone = score(app, "ann@example.org", spam(9))
    assert ("unsure", ()) == (alone.verdict.decision, alone.levels)


def test_who_scores_at_all_levels_and_who_learns_do_not_wait_for_each_other(app):
    """The locks are taken from below, by all; the sums are right in the end."""
    names = ("ann@example.org", "example.org", "default")

    def work(n):
        teach(app, ham(200 + n), "ham", profile=names[n % 3])
        return score(app, names[(n + 1) % 3], ham(200 + n)).verdict.decision

    with ThreadPoolExecutor(8) as pool:
        decided = list(pool.map(work, range(48), timeout=120))

    assert 48 == len(decided)
    levels = score(app, "ann@example.org", ham(1)).levels
    assert [16, 16, 40] == [sum(level.messages.values()) for level in levels]
