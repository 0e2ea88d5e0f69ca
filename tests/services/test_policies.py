"""The policy of a profile in a service: stored, followed, and applied."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy import update

from app.doors.documents.profile import ProfileOut
from app.errors import Inconsistent, InvalidPolicy, UnknownProfile
from app.storage import profiles, tables
from app.storage.database.engine import reading, writing
from tests.support.application import running
from tests.support.messages import HAM, SPAM, spam


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


def teach(app):
    """Teach a few messages of both sides."""
    for label, some in (("ham", HAM), ("spam", SPAM)):
        for raw in some:
            app.feedback.teach("default", raw, label=label, source="test")


def answer(app, raw=None):
    """Return decision and action on a message that is clearly spam."""
    found = app.classify("default", raw or spam(9), strongest=0)
    return found.verdict.decision, found.action


def test_a_change_counts_from_the_next_message_on(app):
    """No start of the service, and nothing is learned anew."""
    teach(app)
    snapshot = app.live.get("default").snapshot
    before = answer(app)
    log_odds = app.classify("default", spam(9), strongest=0).verdict.log_odds
    app.change_policy("default", {"reject_from": log_odds - 0.01})
    rejected = answer(app)
    app.change_policy("default", {"ham_cost": 1e9, "reject_from": None})
    unsure = answer(app)
    app.change_policy("default", {"ham_cost": None})

    assert ("spam", "add header") == before == answer(app)
    assert ("spam", "reject") == rejected
    assert ("unsure", "none") == unsure
    assert snapshot is app.live.get("default").snapshot


def test_other_processes_follow_and_a_start_begins_with_it(database_url):
    """They look twice a second, as for what was learned."""
    with (
        running(database_url=database_url) as app,
        running(database_url=database_url) as other,
    ):
        app.change_policy("default", {"quarantine_from": 7.0})
        other.live.refresh()
        there = ProfileOut.of(other, "default")
        with running(database_url=database_url) as started:
            after_a_start = ProfileOut.of(started, "default")

    assert 7.0 == there.quarantine_from.log_odds
    assert {"quarantine_from": 7.0} == there.policy == after_a_start.policy


def test_scoring_asks_no_database_for_the_policy(app):
    """A change is taken up by whoever follows; a verdict reads memory alone."""
    teach(app)
    app.change_policy("default", {"reject_from": 2.5})
    app.stop()

    assert ("spam", "reject") == answer(app)


def test_each_profile_has_its_own(app):
    """What one decides says nothing of another."""
    with writing(app.engine) as connection:
        profiles.create(
            connection,
            name="ann@example.org",
            labels=("ham", "spam"),
            spam_labels=("spam",),
            feature_set=1,
            created_at=app.live.get("default").row.created_at,
        )
    app.change_policy("ann@example.org", {"reject_from": 12.0})

    assert 12.0 == ProfileOut.of(app, "ann@example.org").reject_from.log_odds
    assert ProfileOut.of(app, "default").reject_from is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"reject_from": 1.0}, "below the spam threshold of 2.197"),
        (
            {"ham_cost": 1000.0},
            "reject_from is 5 nats, below the spam threshold of 6.9",
        ),
        ({"quarantine_from": 6.0}, "reject_from is 5 nats, below quarantine_from of 6"),
    ],
)
def test_a_change_that_contradicts_what_is_said_changes_nothing(app, changes, says):
    """It is looked at together with what was said before."""
    app.change_policy("default", {"reject_from": 5.0})
    with pytest.raises(InvalidPolicy, match=says):
        app.change_policy("default", changes)

    assert {"reject_from": 5.0} == ProfileOut.of(app, "default").policy


def test_a_profile_that_is_not_there_has_no_policy(app):
    """The sentence names it."""
    with pytest.raises(UnknownProfile, match="no profile 'nowhere'"):
        app.change_policy("nowhere", {"ham_cost": 9.0})


def test_settings_that_change_later_reject_no_more(database_url, caplog):
    """A policy that contradicts them gives way upwards, and the log says so."""
    with running(database_url=database_url) as app:
        app.change_policy("default", {"reject_from": 5.0})
    with running(database_url=database_url, ham_cost=1000.0) as app:
        state = ProfileOut.of(app, "default")

    assert pytest.approx(6.9078, abs=1e-4) == state.reject_from.log_odds
    assert "reject_from is 5 nats, below the spam threshold of 6.908" in caplog.text


def spoil(app, policy):
    """Write something into the policy that nobody could have said."""
    with writing(app.engine) as connection:
        connection.execute(update(tables.profile).values(policy=policy))


@pytest.mark.parametrize("policy", [{"reject_at": 1}, [1], {"ham_cost": 0}, "x"])
def test_a_policy_that_was_spoilt_marks_and_lets_pass(database_url, policy, caplog):
    """Neither a guess nor a crash: mail is marked, and the log says the way out."""
    with running(database_url=database_url, reject_from=2.5) as app:
        teach(app)
        before = answer(app)
        spoil(app, policy)
        with caplog.at_level(logging.ERROR):
            app.live.refresh()
            app.live.refresh()

        assert ("spam", "reject") == before
        assert ("spam", "add header") == answer(app)
        assert 1 == caplog.text.count("postbayes policy --reset --profile default")
        with pytest.raises(Inconsistent, match="the stored policy"):
            ProfileOut.of(app, "default")
        app.change_policy("default", dict.fromkeys(("ham_cost", "reject_from")))
        assert ("spam", "reject") == answer(app)


def test_nothing_said_is_nothing_stored(app):
    """A person with a database shell sees at once who has a policy."""
    app.change_policy("default", {"ham_cost": 9.0})
    app.change_policy("default", {"ham_cost": None})
    with reading(app.engine) as connection:
        row = profiles.find(connection, "default")

    assert row.policy is None
