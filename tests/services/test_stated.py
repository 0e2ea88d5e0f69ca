"""Stated evidence in the service: whose it is, where it is shown, what it leaves."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy import select

from app.classifier.statement import Origin, Statement
from app.classifier.verdict import HistoryFilter
from app.doors.documents.verdict import ClassifyOut
from app.doors.mta import PointsAnswer, PointScale, marks
from app.services.classify import Classify
from app.services.clock import now
from app.services.delivery import Delivered, Delivery
from app.services.history import VerdictRecorder
from app.services.inspection import inspect
from app.services.writer import AutoLearn
from app.storage.tables import ledger
from tests.support.application import add_profiles, running, teach
from tests.support.messages import ham, spam

ANN, BOB = "ann@example.org", "bob@example.org"
CONFIDENT = 40
SCALE = PointScale(ham_to=-2, spam_from=2, reject_from=None, spam=5.0, digits=2)


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database."""
    return "sqlite"


@pytest.fixture
def app(database_url):
    """A service whose site's profile has learned a little, and Ann's own nothing."""
    with running(database_url=database_url, reject_from=3.0, levels=False) as app:
        add_profiles(app, ANN)
        for n in range(CONFIDENT // 2):
            teach(app, ham(n), "ham")
            teach(app, spam(n), "spam")
        yield app


class ByProfile:
    """States so many nats for a profile."""

    def __init__(self, **nats):
        self.nats = nats
        self.origins = []

    def __call__(self, message, origin):
        """Return what is stated."""
        assert message.header("subject")
        self.origins.append(origin)
        return self.of

    def of(self, profile):
        """Return what is stated for a profile."""
        return [
            Statement(kind="list", name="sender", nats=nats, text=f"said for {name}")
            for name, nats in self.nats.items()
            if name == profile
        ]


def asked(app, witness, autolearn=None):
    """Return the classification with a witness."""
    return Classify(app.live, app.recent, app.tally, autolearn, (witness,))


def delivery(app, witness):
    """Return the delivery with a witness."""
    recorder = VerdictRecorder(app.recent, app.live)
    return Delivery(asked(app, witness), app.recipients, recorder)


def test_without_a_witness_nothing_changes(app):
    """A message of which nothing is stated gets the very same answer."""
    plain = app.classify("default", spam(50), strongest=3)
    heard = asked(app, ByProfile(other=5.0))("default", spam(50), strongest=3)

    assert ClassifyOut.of(Delivered.of(plain)) == ClassifyOut.of(Delivered.of(heard))
    assert heard.unstated is None


def test_a_statement_moves_the_verdict_and_is_a_reason_of_it(app):
    """In the document, the headers, the symbols and the shading alike."""
    plain = app.classify("default", spam(50), strongest=3)
    witness = ByProfile(default=-100.0)
    heard = asked(app, witness)("default", spam(50), strongest=0)
    document = ClassifyOut.of(Delivered.of(heard))
    inspected = inspect(
        app.live, app.recent, (witness,), "default", spam(50), strongest=1
    )

    assert ("reject", "none") == (plain.action, heard.action)
    assert plain.verdict.log_odds - 100.0 == heard.verdict.log_odds
    assert ("ham", "ham") == (document.decision, document.label)
    assert {"list": -100.0}.items() <= document.families.items()
    (said,) = [each for each in document.explanation if each.kind == "reason"]
    assert ("said for default", "list", -100.0, 0) == (
        said.text,
        said.family,
        said.log_odds,
        said.features,
    )
    assert "said for default -100.00" in marks(heard, "none", None)[-1][1]
    named = {each.name: each for each in PointsAnswer(heard, "none", SCALE).symbols()}
    assert ("said_for_default",) == named["POSTBAYES_LIST"].options
    assert inspected.shading.elsewhere["list"] == -100.0
    assert inspected.shading.log_odds == pytest.approx(
        inspected.classified.verdict.log_odds
    )


def test_a_recipient_has_the_statements_of_the_own_profile(app):
    """Even where the site's profile answers, since their own knows too little."""
    witness = ByProfile(**{ANN: -100.0, "default": 1.0})
    found = delivery(app, witness)
    query = app.delivery.address([ANN, BOB])
    apart = found.answer(
        query, spam(50), strongest=0, door="test", origin=Origin("", "192.0.2.1")
    )
    alone = found.together(
        [ANN], spam(50), strongest=0, door="test", origin=Origin(BOB)
    )

    assert {"ann@example.org": "ham", "bob@example.org": "spam"} == {
        each: answer.verdict.decision for each, answer in apart.recipients.items()
    }
    assert ("default", "default") == (
        apart.recipients[ANN].profile,
        alone.classified.profile,
    )
    assert ("spam", "add header") == (
        apart.classified.verdict.decision,
        apart.action,
    )
    assert ("ham", "none") == (alone.classified.verdict.decision, alone.action)
    assert [Origin("", "192.0.2.1"), Origin(BOB)] == witness.origins


def test_one_answer_for_all_is_refused_only_where_each_has_it_so(app):
    """If the profile of one recipient allows it, the message passes with a mark."""
    found = delivery(app, ByProfile(**{ANN: -100.0}))

    def action(*people):
        return found.together(people, spam(50), strongest=0, door="test").action

    assert ("reject", "add header") == (action(BOB), action(BOB, ANN))


def test_each_answer_has_a_line_of_the_log(app, caplog):
    """With its recipients, and the statement as its reason."""
    found = delivery(app, ByProfile(**{ANN: -100.0}))
    query = app.delivery.address([ANN, BOB, "eve@example.org"])
    with caplog.at_level(logging.INFO):
        found.answer(query, spam(50), strongest=0, door="test")
    lines = [str(each.msg) for each in caplog.records if "door=test" in str(each.msg)]

    assert 2 == len(lines)
    assert "recipients=bob@example.org,eve@example.org decision=spam" in lines[0]
    assert "recipients=ann@example.org decision=ham" in lines[1]
    assert "reason=list:sender" in lines[1]


def test_the_history_has_a_statement_without_being_asked(app):
    """No door's explanation is needed to see that a list decided."""
    found = delivery(app, ByProfile(default=-100.0))
    found.together([BOB], spam(50), strongest=0, door="test")
    app.recent.flush(app.engine)
    (entry,), _ = app.history.page("default", HistoryFilter(), limit=1)

    assert [["said for default", -100.0]] == [list(each) for each in entry.line.reasons]


@pytest.mark.parametrize("nats", [5.0, -100.0])
def test_the_filter_learns_by_itself_what_the_features_say(app, nats):
    """Nothing where a statement decided, and nothing against one."""
    settings = app.settings.model_copy(update={"autolearn_from": 3.0})
    learn = AutoLearn(app.writer, now, settings)
    classify = asked(app, ByProfile(default=nats), learn)
    found = classify("default", spam(50), strongest=0)
    teach(app, ham(0), "ham")
    with app.engine.connect() as connection:
        rows = connection.execute(select(ledger).order_by(ledger.c.revision)).all()

    assert (nats > 0) == (len(rows) > CONFIDENT)
    for row in rows[CONFIDENT:]:
        assert found.unstated.verdict.log_odds == pytest.approx(row.scores["log_odds"])
