"""The history of verdicts: what a line holds, and what teaching a message is worth."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.classifier.statement import Origin
from app.classifier.verdict import Candidate, HistoryFilter
from app.errors import UnknownMessage, UnknownProfile
from app.features.observation import parse_id
from app.services.application import Application
from app.services.history import MAX_TEXT, line_of, teaching_worth
from app.settings import Settings
from tests.support.application import add_profiles, maintain, running, teach
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "invoice \u202egpj.exe",
    "x" * 10_000,
    "a\x00b\x1b[2J",
    "half a pair \ud83d",
)


@pytest.fixture
def app(database_url):
    """An application that has learned a little."""
    with running(database_url=database_url) as app:
        for n in range(4):
            teach(app, ham(n), "ham")
            teach(app, spam(n), "spam")
        yield app


def score(app, raw, *, strongest=0, recipients=("ann@example.org",), sender=""):
    """Score a message as a mail server has it scored, and return the answer."""
    delivered = app.delivery.together(
        recipients, raw, strongest=strongest, door="milter", origin=Origin(sender)
    )
    app.recent.flush(app.engine)
    return delivered.classified


def lines(app, profile="default", **asked):
    """Return the newest entries."""
    entries, _ = app.history.page(profile, HistoryFilter(**asked), limit=50)
    return entries


def test_each_verdict_has_a_line(app):
    """With what a person finds the mail by, and the verdict of that time."""
    found = score(app, spam(9), strongest=3, sender="bounce@prizes.example")
    (entry,) = lines(app)
    line = entry.line

    assert found.observation.digest == line.digest
    assert ("milter", found.verdict.decision) == (line.door, line.decision)
    assert found.verdict.log_odds == line.log_odds
    assert len(spam(9)) == line.size
    assert "Winner <win@prizes.example>" == line.sender
    assert "You are a WINNER" == line.subject
    assert "ann@example.org" == line.recipients
    assert "bounce@prizes.example" == line.envelope
    assert 0 <= line.unseen < line.features
    assert (None, None, True) == (entry.label, entry.source, entry.teachable)


def test_a_line_has_the_strongest_reasons_where_they_were_computed(app):
    """The deciding ones of both sides, strongest first; else none, and it says so."""
    with_reasons = score(app, spam(9), strongest=3)
    score(app, spam(10))
    newest, before = lines(app)

    assert newest.line.reasons is None
    strengths = [abs(nats) for _, nats in before.line.reasons]
    assert strengths == sorted(strengths, reverse=True)
    assert {text for text, _ in before.line.reasons} <= {
        each.title for each in with_reasons.explanation.reasons
    }


def test_without_an_envelope_the_header_names_the_recipients(app):
    """As over HTTP, where a message comes alone."""
    asked = app.delivery.address([])
    app.delivery.answer(asked, ham(9), strongest=0, door="http")
    app.recent.flush(app.engine)
    (entry,) = lines(app)

    assert ("bob@example.org", None) == (entry.line.recipients, entry.line.envelope)


def test_without_words_a_line_has_numbers_alone(tmp_path):
    """No text of mail is stored then."""
    settings = {
        "database_url": sqlite_url(tmp_path),
        "store_words": False,
        "key_file": tmp_path / "key",
    }
    with running(**settings) as app:
        score(app, spam(1), strongest=5, sender="a@b.example")
        (entry,) = lines(app)

    line = entry.line
    assert [None] * 5 == [
        line.sender,
        line.subject,
        line.recipients,
        line.envelope,
        line.reasons,
    ]
    assert line.features > 0


@pytest.mark.parametrize(
    "off", [{"history_days": 0}, {"history_rows": 0}, {"scored_days": 0}]
)
def test_a_history_that_is_switched_off_stores_nothing(tmp_path, off):
    """Neither the table nor memory has a line."""
    with running(database_url=sqlite_url(tmp_path), **off) as app:
        app.delivery.together(["a@b"], ham(1), strongest=0, door="milter")
        app.recent.flush(app.engine)

        assert [] == lines(app)


def test_each_profile_sees_its_own_recipients_alone(app):
    """Who else got a message may be a secret; the profile that answers all knows all.

    Its owners see who got it in that profile; ann sees herself alone.
    """
    add_profiles(app, "ann@example.org", "example.org")
    asked = app.delivery.address(["ann@example.org", "bob@example.org"])
    app.delivery.answer(asked, spam(9), strongest=0, door="http")
    app.recent.flush(app.engine)

    def told(profile):
        return [entry.line.recipients for entry in lines(app, profile)]

    assert ["ann@example.org"] == told("ann@example.org")
    assert ["ann@example.org, bob@example.org"] == told("example.org")
    assert [] == told("default")


def test_an_entry_says_how_the_message_is_taught_now(app):
    """And that it is not, once it was taken back."""
    digest = score(app, spam(9)).observation.digest
    app.feedback.teach_by_id("default", digest, label="spam", source="anna")
    taught = lines(app, taught=True)
    app.feedback.forget("default", digest, source="anna")

    assert [("spam", "anna")] == [(each.label, each.source) for each in taught]
    assert [] == lines(app)


def test_a_message_is_explained_when_somebody_looks(app):
    """By what is stored of it; its lines say what was decided then."""
    digest = score(app, spam(9)).observation.digest
    (found,) = app.history.stored(digest, profile="default", strongest=5)

    assert [digest] == [each.line.digest for each in found.entries]
    assert found.now.explanation.reasons
    with pytest.raises(UnknownMessage):
        app.history.stored(parse_id("ab" * 16), profile="default", strongest=5)
    with pytest.raises(UnknownProfile):
        app.history.stored(digest, profile="nobody", strongest=5)


def test_unsure_messages_are_reviewed_first_and_each_once(app):
    """Nothing that was taught; the most uncertain verdict first."""
    for n in (1, 2, 9, 10, 11, 12):
        score(app, spam(n))
    score(app, spam(9))
    unknown = b"From: x@y.example\nSubject: quite new\n\nNothing like any other.\n"
    score(app, unknown)
    found = app.history.review("default", limit=50)
    ranks = [(each.line.decision != "unsure", -each.worth) for each in found]

    assert ranks == sorted(ranks)
    digests = [each.line.digest for each in found]
    assert len(digests) == len(set(digests))
    assert all(each.label is None for each in found)
    assert 5 == len(found)


def test_old_lines_go_with_the_maintenance(database_url):
    """As scored messages do, by age and by number."""
    settings = Settings(database_url=database_url, history_rows=3)
    app = Application(settings)
    try:
        for n in range(6):
            score(app, ham(n))
        maintain(app)

        assert 3 == len(lines(app))
    finally:
        app.live.close()
        app.engine.dispose()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_one_bounded_line_that_shows_what_it_is(app, text):
    """Control characters are visible; nothing of it is lost silently."""
    shown = line_of(text)
    raw = b"From: x@y.example\nSubject: " + text.encode("utf-8", "surrogatepass")
    score(app, raw.replace(b"\x00", b"") + b"\n\nHello\n")

    assert shown.isprintable()
    assert len(shown) <= 10 * MAX_TEXT
    (entry,) = lines(app)
    assert entry.line.subject.isprintable()


def test_teaching_what_is_certain_and_known_is_worth_nothing():
    """And most where the verdict is a coin toss about a message that is all new."""
    line = Candidate(datetime.now(UTC), b"", "ham", 0.0, features=4, unseen=4)

    assert 2.0 == teaching_worth(line)
    assert 1.0 == teaching_worth(line._replace(unseen=0))
    assert 1.0 == teaching_worth(line._replace(features=0, unseen=0))
    assert 0.0 == teaching_worth(line._replace(log_odds=None))
    assert teaching_worth(line._replace(log_odds=9.0)) < 0.002
