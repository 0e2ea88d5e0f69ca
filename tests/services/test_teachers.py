"""Teachers: who contradicts what the filter is sure of, and how much one may teach."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from app.errors import Forbidden, TooManyRequests
from app.figures import Errors
from app.services.clock import now
from app.services.figures import OTHERS, SUSPECT, SourceFigures, by_source, suspects
from app.storage.scored import Scored
from tests.support.application import running, served, teach
from tests.support.databases import on_sqlite
from tests.support.messages import ham, spam

RAW = {"content-type": "message/rfc822"}
SURE = 80
"""Messages of each side after which the filter is sure of more of their kind."""


def taught_by(app, source, messages, *, swapped=False):
    """Have messages of both sides taught under the name of a source."""
    for n in messages:
        for raw, label in ((ham(n), "ham"), (spam(n), "spam")):
            told = {"ham": "spam", "spam": "ham"}[label] if swapped else label
            app.feedback.teach("default", raw, label=told, source=source)


def of(source="bob", *, messages=100, contradicted=0, sure=0):
    """Return the figures of a teacher."""
    return SourceFigures(
        source=source,
        errors=Errors(ham=messages, ham_lost=0, spam=0, spam_missed=0),
        unsure=0,
        contradicted=contradicted,
        sure=sure,
    )


def test_who_contradicts_what_the_filter_is_sure_of_is_a_suspect():
    """Ten times at least, and as often as where it was not so sure."""
    rest = of("ann"), of("carl")

    def found(*those):
        return [each.source for each in suspects([*rest, *those])]

    assert ["bob"] == found(of(contradicted=40, sure=20))
    assert ["bob"] == found(of(messages=10, contradicted=10, sure=SUSPECT))
    assert [] == found(of(messages=10, contradicted=10, sure=SUSPECT - 1))
    # Who corrects mistakes finds most of them where it was not so sure.
    assert [] == found(of(contradicted=60, sure=SUSPECT))
    # Who slips now and then agrees more often, or helps where it is unsure.
    assert [] == found(of(contradicted=33, sure=33))
    assert [] == found(of(OTHERS, contradicted=40, sure=40))


@pytest.mark.parametrize(("agreed", "sure"), [(2.0, 12), (5.0, 4), (20.0, 2)])
def test_sure_is_what_the_filter_usually_is(agreed, sure):
    """Labels that are wrong make it less sure of everything, but no suspect."""
    strengths = np.array([agreed] * 9 + [1.0] * 3 + [3.0] * 8 + [6.0] * 2 + [7.0] * 2)
    n = strengths.size
    scored = Scored(
        revisions=np.arange(n),
        is_spam=np.ones(n, bool),
        decided_spam=np.arange(n) < 9,
        unsure=np.zeros(n, bool),
        log_odds=np.where(np.arange(n) < 9, strengths, -strengths),
        sources=("ann",) * 9 + ("bob",) * (n - 9),
        times=(now(),) * n,
        corrected=(None,) * n,
    )
    found = {each.source: each for each in by_source(scored)}

    assert (15, sure) == (found["bob"].contradicted, found["bob"].sure)
    assert 0 == found["ann"].sure


def test_where_nobody_else_teaches_as_much_there_is_no_suspect():
    """A user's own profile, and a site with one teacher."""
    alone = of(contradicted=50, sure=50)

    assert () == suspects([alone])
    assert () == suspects([alone, of("ann", messages=89), of("carl", messages=10)])
    assert (alone,) == suspects(
        [alone, of("ann", messages=90), of("carl", messages=10)]
    )


def test_there_are_fewer_suspects_than_teachers_who_agree():
    """One who corrects an archive with wrong labels, under several names, is none."""
    archive, rest = of("archive", messages=1000), of("ann", messages=SUSPECT - 1)
    bob, web = (of(name, contradicted=50, sure=50) for name in ("bob", "web"))

    assert () == suspects([archive, bob])
    assert () == suspects([archive, rest, bob])
    assert () == suspects([archive, of("ann"), bob, web])
    assert (bob, web) == suspects([archive, of("ann"), of("carl"), bob, web])


@on_sqlite
def test_a_suspect_is_logged_once_with_the_way_back(database_url, caplog):
    """And goes on teaching, unless the operator wants otherwise."""
    with running(database_url=database_url, suspects="log") as app:
        app.scheduler.stop()
        taught_by(app, "ann", range(SURE // 2))
        taught_by(app, "carl", range(SURE // 2, SURE))
        taught_by(app, "eve; ls", range(SURE, SURE + 10), swapped=True)
        with caplog.at_level(logging.WARNING):
            app.teachers.watch()
            taught_by(app, "eve; ls", range(SURE + 10, SURE + 20), swapped=True)
            app.teachers.watch()
        found = {
            each.source: each for each in app.figures("default", window=500).sources
        }

    said = [r.getMessage() for r in caplog.records if "contradicts" in r.getMessage()]
    assert 1 == len(said)
    assert "'eve; ls' contradicts confident verdicts" in said[0]
    assert "postbayes undo --profile default --source 'eve; ls' --dry-run" in said[0]
    assert 0 == found["ann"].sure
    assert SUSPECT <= found["eve; ls"].sure <= found["eve; ls"].contradicted
    assert found["ann"].last <= found["eve; ls"].last


@on_sqlite
def test_a_suspect_is_refused_and_may_forget(database_url, caplog):
    """Everybody else goes on, and so does the suspect where the operator trusts it."""
    with running(database_url=database_url) as app:
        app.scheduler.stop()
        taught_by(app, "ann", range(SURE // 2))
        taught_by(app, "carl", range(SURE // 2, SURE))
        taught_by(app, "eve", range(SURE, SURE + 10), swapped=True)
        app.teachers.watch()
        with pytest.raises(Forbidden, match=r"'eve' contradict .* no more are learned"):
            app.feedback.teach("default", ham(500), label="spam", source="eve")
        taught_by(app, "ann", [501])
        digest = app.classify("default", ham(SURE), strongest=0).observation.digest
        assert (
            "forgotten"
            == app.feedback.forget("default", digest, source="eve").outcome.kind
        )
    trusting = {"trusted_sources": ("eve",)}
    with running(database_url=database_url, **trusting) as app:
        app.teachers.watch()
        taught_by(app, "eve", [502])

    assert "lessons; further lessons are refused. If the lessons" in caplog.text


def test_a_source_teaches_so_many_messages_a_day(database_url):
    """The others as many of their own; what is said already costs nothing."""
    with running(database_url=database_url, teacher_per_day=2) as app:
        taught_by(app, "ann", [1])
        assert (
            "unchanged"
            == app.feedback.teach(
                "default", ham(1), label="ham", source="ann"
            ).outcome.kind
        )
        with pytest.raises(TooManyRequests, match="'ann' has taught 2 messages today"):
            app.feedback.teach("default", ham(2), label="ham", source="ann")
        taught_by(app, "bob", [2])
        messages = app.live.get("default").snapshot.messages.tolist()
    with running(
        database_url=database_url, teacher_per_day=2, trusted_sources=("ann",)
    ) as app:
        taught_by(app, "ann", [3])
    assert [2, 2] == messages


def test_lessons_of_a_clock_that_was_ahead_count_on_their_day(database_url):
    """Once the clock is right again, the source teaches as much as before."""
    with running(database_url=database_url, teacher_per_day=2) as app:
        later = now() + timedelta(days=365)
        ahead = replace(app.feedback, clock=lambda: later)
        for n in (1, 2):
            ahead.teach("default", ham(n), label="ham", source="ann")
        with pytest.raises(TooManyRequests):
            ahead.teach("default", ham(3), label="ham", source="ann")
        taught_by(app, "ann", [4])
        with pytest.raises(TooManyRequests):
            app.feedback.teach("default", ham(5), label="ham", source="ann")


def test_the_door_says_who_may_not_teach_and_for_how_long(tmp_path):
    """403 of a suspect, 429 of who has taught enough; nothing is learned."""
    with served(tmp_path, teacher_per_day=1) as client:
        asked = {"content": ham(1), "headers": RAW}
        query = {"label": "ham", "source": "ann"}
        first = client.post("/feedback", params=query, **asked)
        again = client.post("/feedback", params=query, content=ham(2), headers=RAW)
        revision = client.get("/profiles/default").json()["revision"]

    assert (200, 429, 1) == (first.status_code, again.status_code, revision)
    assert 0 < int(again.headers["retry-after"]) <= 86_400
    assert "POSTBAYES_TEACHER_PER_DAY" in again.json()["detail"]


def test_what_others_correct_is_counted(database_url):
    """By who had said otherwise first, also where nothing of theirs is left."""
    with running(database_url=database_url) as app:
        teach(app, ham(1), "ham")
        for n in (2, 3):
            app.feedback.teach("default", spam(n), label="ham", source="eve")
        app.feedback.teach("default", spam(2), label="spam", source="ann")
        app.feedback.teach("default", spam(3), label="spam", source="eve")
        one = by_name(app)
        app.feedback.teach("default", spam(4), label="ham", source="bob")
        app.feedback.teach("default", spam(4), label="spam", source="ann")
        two = by_name(app)

    assert {"test": (1, 0), "ann": (1, 0), "eve": (1, 1)} == one
    assert {"test": (1, 0), "ann": (2, 0), "eve": (1, 1), "bob": (0, 1)} == two


def by_name(app):
    """Return the messages of each teacher, and what others corrected."""
    found = app.figures("default", window=50).sources
    return {each.source: (each.errors.messages, each.corrected) for each in found}
