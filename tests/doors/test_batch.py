"""Many messages in one call: each has its own result, and nobody else waits."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from app.doors.documents.message import MAX_MESSAGES
from app.doors.http.app import create_app
from app.services.application import Application
from app.settings import Settings
from tests.support.application import taught_client
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam

TEXTS = [{"message": raw.decode()} for raw in (ham(7), spam(8), ham(9))]


def application(tmp_path):
    """Return an application over an empty SQLite database."""
    url = sqlite_url(tmp_path)
    return Application(Settings(database_url=url))


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of a service that has learned six messages, and no more."""
    with taught_client(sqlite_url(tmp_path_factory.mktemp("batch"))) as client:
        yield client


def batch(client, messages, query=""):
    """Return the results of a batch."""
    answer = client.post(f"/classify/batch{query}", json={"messages": messages})
    assert 200 == answer.status_code, answer.text
    return answer.json()["results"]


def test_each_message_has_the_answer_that_it_would_have_alone(client):
    """In the order of the messages, to the last field."""
    alone = [
        client.post("/classify?explain=3", json=message).json() for message in TEXTS
    ]
    results = batch(client, TEXTS, "?explain=3")

    assert alone == [result["answer"] for result in results]
    assert [None] * 3 == [result["problem"] for result in results]


def test_no_message_is_an_empty_list(client):
    """A program that collects for a second may have collected nothing."""
    assert [] == batch(client, [])


BAD = [
    (7, "malformed-request", 400),
    (None, "malformed-request", 400),
    ("From: a@b.example\n\ntext", "malformed-request", 400),
    ({"massage": "x"}, "malformed-request", 400),
    ({"message": "x", "subject": "y"}, "malformed-request", 400),
    ({"message": 5}, "malformed-request", 400),
    ({"message": " \n"}, "empty-message", 400),
    ({}, "empty-message", 400),
]


def test_a_message_that_cannot_be_used_spoils_no_other(client):
    """Its result is the problem that it would be alone."""
    mixed = [TEXTS[0], *(message for message, _, _ in BAD), TEXTS[1]]
    results = batch(client, mixed)
    alone = [
        client.post("/classify", json=message)
        .json()["detail"]
        .replace("the JSON body", "the message")
        for message, _, _ in BAD
        if isinstance(message, dict)
    ]
    problems = [result["problem"] for result in results[1:-1]]

    assert results[0]["answer"] is not None is not results[-1]["answer"]
    assert [None] * len(BAD) == [result["answer"] for result in results[1:-1]]
    assert [(f"urn:postbayes:problem:{kind}", status) for _, kind, status in BAD] == [
        (problem["type"], problem["status"]) for problem in problems
    ]
    assert alone == [
        problem["detail"]
        for (message, _, _), problem in zip(BAD, problems, strict=True)
        if isinstance(message, dict)
    ]


def test_a_defect_that_one_message_brings_out_is_its_own(client, caplog):
    """The log has the traceback, and the others are answered."""
    app = client.app.state.application
    each = app.classify.each

    def fails(profiles, raw, *, strongest, **others):
        if b"boom" in raw:
            raise ZeroDivisionError
        return each(profiles, raw, strongest=strongest, **others)

    app.classify.each = fails
    first, second, third = batch(client, [TEXTS[0], {"body": "boom"}, TEXTS[2]])

    assert first["answer"] is not None is not third["answer"]
    assert (500, "about:blank") == (
        second["problem"]["status"],
        second["problem"]["type"],
    )
    assert "ZeroDivisionError" in caplog.text


def test_half_an_emoji_is_read_as_in_a_single_message(client):
    """A text that was cut elsewhere must not be a way around the filter."""
    body = b'{"messages": [{"body": "free money \\ud83d"}]}'
    answer = client.post(
        "/classify/batch", content=body, headers={"content-type": "application/json"}
    )

    assert answer.json()["results"][0]["answer"] is not None


@pytest.mark.parametrize(
    ("body", "query", "status", "kind"),
    [
        ({"messages": [{}] * (MAX_MESSAGES + 1)}, "", 413, "batch-too-large"),
        ({"messages": TEXTS}, "?profile=nowhere", 404, "unknown-profile"),
        ({"messages": TEXTS}, "?explain=6", 422, "malformed-request"),
        ({"messages": "x"}, "", 400, "malformed-request"),
        ({"mails": []}, "", 400, "malformed-request"),
        ([], "", 400, "malformed-request"),
    ],
)
def test_a_batch_that_cannot_be_used_is_refused_whole(
    client, body, query, status, kind
):
    """Nothing of it is scored."""
    answer = client.post(f"/classify/batch{query}", json=body)

    assert status == answer.status_code
    assert f"urn:postbayes:problem:{kind}" == answer.json()["type"]


def test_as_many_messages_as_are_allowed_are_taken(client):
    """The limit is the last number that is taken."""
    assert MAX_MESSAGES == len(batch(client, [{}] * MAX_MESSAGES))


def test_a_batch_of_too_many_bytes_is_refused(client):
    """JSON has to be held whole, and 8 MiB are what is held."""
    answer = client.post(
        "/classify/batch", json={"messages": [{"body": "x" * 1024 * 1024}] * 9}
    )

    assert 413 == answer.status_code
    assert "urn:postbayes:problem:message-too-large" == answer.json()["type"]


def test_a_batch_is_json(client):
    """A raw message is told so, as everywhere."""
    answer = client.post("/classify/batch", content=spam(8))

    assert 415 == answer.status_code


def test_recipients_are_those_of_all_messages(client):
    """Each message has an answer for each of them."""
    results = batch(client, TEXTS, "?recipient=ann@example.org&recipient=bob")

    assert [{"ann@example.org", "bob"}] * 3 == [
        set(result["answer"]["recipients"]) for result in results
    ]


def test_others_are_answered_between_the_messages_of_batches(tmp_path):
    """With any number of batches, other requests get a turn after each message."""
    app = application(tmp_path)
    scored = []
    each = app.classify.each

    def counted(profiles, raw, *, strongest, **others):
        scored.append(raw)
        return each(profiles, raw, strongest=strongest, **others)

    app.classify.each = counted
    body = json.dumps({"messages": [{"body": "x"}] * 50})
    answered = []

    async def run():
        transport = httpx2.ASGITransport(create_app(app))
        async with httpx2.AsyncClient(transport=transport, base_url="http://x") as it:

            async def others():
                while len(scored) < 2:  # noqa: ASYNC110  each turn of the loop
                    await asyncio.sleep(0)
                for _ in range(5):
                    await it.get("/healthz")
                    answered.append(len(scored))
                    await asyncio.sleep(0)

            batches = [
                it.post(
                    "/classify/batch",
                    content=body,
                    headers={"content-type": "application/json"},
                )
                for _ in range(6)
            ]
            await asyncio.gather(*batches, others())

    asyncio.run(run())
    app.engine.dispose()

    assert 300 == len(scored)
    # After a message or two each, and never after a batch.
    assert answered[0] <= 4
    assert answered[-1] <= 20
