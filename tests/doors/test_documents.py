"""Documents written without a model equal those of the model."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.classifier.explain import Explanation, ListedFeature, Summand
from app.classifier.rule import VerdictRule
from app.classifier.verdict import Action, Decision, Verdict, ViewScore
from app.doors.documents.message import FeedbackOut, feedback_fields
from app.doors.documents.verdict import ClassifyOut, answer_fields
from app.doors.http.guard import document
from app.services.delivery import Delivered
from app.services.writer import Taught
from tests.support.application import served
from tests.support.messages import HAM, SPAM

RAW = {"content-type": "message/rfc822"}
SPECIFICATION = SimpleNamespace(
    labels=("späm", "ham\u2028", '"'), verdict=VerdictRule()
)

texts = st.text(max_size=9)
counts = st.integers(0, 2**63)
# Not a number is no answer, and has to be null wherever it comes from.
nats = st.floats()
# What is summed: of the largest numbers there is no sum, nor of infinities of both signs.
summed = st.floats(-1e300, 1e300) | st.sampled_from([math.inf, math.nan])
posteriors = st.lists(nats, min_size=3, max_size=3).map(np.array)
views = st.builds(
    ViewScore,
    event_model=texts,
    log_posterior=posteriors,
    log_odds=nats,
    features=counts,
)
verdicts = st.builds(
    Verdict,
    decision=st.from_type(Decision),
    label=st.integers(0, 2),
    probability=nats,
    log_odds=nats,
    known=st.booleans(),
    log_posterior=posteriors,
    views=st.dictionaries(texts, views, max_size=3),
    evidence=st.none(),
    log_prior=st.none(),
    parts=st.none(),
    factors=st.none(),
)
entries = st.builds(
    Summand,
    kind=st.sampled_from(["prior", "reason", "rest"]),
    text=texts,
    family=st.none() | texts,
    log_odds=summed,
    features=counts,
    messages=st.dictionaries(texts, counts, max_size=3),
    parts=st.lists(
        st.builds(
            ListedFeature,
            feature=texts,
            view=texts,
            log_odds=nats,
            messages=st.dictionaries(texts, counts, max_size=3),
        ),
        max_size=3,
    ).map(tuple),
)
answers = st.builds(
    SimpleNamespace,
    observation=st.builds(
        SimpleNamespace,
        id=texts,
        defects=st.lists(texts, max_size=3).map(tuple),
    ),
    verdict=verdicts,
    action=st.from_type(Action),
    explanation=st.builds(
        Explanation,
        strongest=counts,
        families=st.dictionaries(texts, summed, max_size=3),
        summands=st.lists(entries, max_size=3).map(tuple),
    ),
    specification=st.just(SPECIFICATION),
    profile=texts,
    levels=st.just(()),
    revision=counts,
)
taught = st.builds(
    Taught,
    outcome=st.builds(
        SimpleNamespace,
        digest=st.binary(min_size=16, max_size=16),
        kind=st.sampled_from(["learned", "unchanged", "relabelled", "forgotten"]),
        label=st.none() | texts,
        label_before=st.none() | texts,
        row=st.builds(SimpleNamespace, revision=counts),
    ),
    verdict_before=st.none() | verdicts,
    profile=st.just(SimpleNamespace(specification=SPECIFICATION)),
)


@given(answer=answers, recipients=st.dictionaries(texts, answers, max_size=2))
def test_the_answer_about_a_message_is_that_of_the_model(answer, recipients):
    """Order of fields, null, numbers and characters beyond ASCII."""
    sent = document(answer_fields(Delivered.of(answer, recipients)))
    model = ClassifyOut.of(Delivered.of(answer, recipients))

    assert model.model_dump_json().encode() == sent.body


@given(taught=taught)
def test_the_answer_to_a_feedback_is_that_of_the_model(taught):
    """Order of fields, null, numbers and characters beyond ASCII."""
    sent = document(feedback_fields(taught))

    assert FeedbackOut.of(taught).model_dump_json().encode() == sent.body


@pytest.fixture
def client(tmp_path):
    """A client of a service that has learned nothing."""
    with served(tmp_path) as client:
        yield client


def test_what_is_sent_is_what_is_described(client):
    """Every answer of the two routes is a document of its model, byte for byte."""

    def taught(label, **sent):
        return client.post("/feedback", params={"label": label}, **sent)

    feedback = [
        taught("ham", content=HAM[0], headers=RAW),
        taught("spam", content=SPAM[0], headers=RAW),
        taught("spam", content=HAM[0], headers=RAW),
        taught("spam", content=HAM[0], headers=RAW),
    ]
    feedback.append(taught("ham", json={"id": feedback[0].json()["id"]}))
    scored = [
        client.post("/classify", params=query, content=raw, headers=RAW)
        for query in ({"explain": 0}, {}, {"recipient": ["ann", "bob@example.org"]})
        for raw in (*HAM, *SPAM, "Subject: cafété\n\nschön".encode("latin-1"))
    ]

    for model, answers in ((FeedbackOut, feedback), (ClassifyOut, scored)):
        for each in answers:
            shown = model.model_validate_json(each.content, strict=True)

            assert 200 == each.status_code
            assert shown.model_dump_json().encode() == each.content


def test_every_field_is_described_in_one_line(client):
    """By the text below it, whose lines are joined; no description is missing."""
    found = {
        (name, field): described.get("description")
        for name, schema in client.app.openapi()["components"]["schemas"].items()
        for field, described in schema.get("properties", {}).items()
    }

    assert found
    assert {} == {
        place: text for place, text in found.items() if not text or "\n" in text
    }
