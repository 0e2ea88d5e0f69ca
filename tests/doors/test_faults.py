"""Errors about a request use the words of its sender."""

from __future__ import annotations

import re

import pytest

from tests.support.application import served
from tests.support.messages import spam

ID = "0" * 32

TOLERANT = ["/healthz", "/readyz", "/metrics"]
"""What a monitoring system asks for."""

THRESHOLDS = "`ham_cost`, `ham_threshold`, `quarantine_from`, `reject_from`"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of a service over an empty database."""
    with served(tmp_path_factory.mktemp("faults")) as client:
        yield client


def said(answer):
    """Return status and sentence of a refusal."""
    assert "urn:postbayes:problem:malformed-request" == answer.json()["type"]
    return answer.status_code, answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "document", "sentence"),
    [
        (
            "POST",
            "/feedback",
            {"bdy": "x", "label": "spam"},
            "unknown field `bdy`; the known ones are `message`, `subject`, `from`, `to`, "
            "`reply_to`, `body`, `html`, `id`, `label`, `source`",
        ),
        (
            "POST",
            "/profiles/default/lists",
            {"entries": [{"entry": "ann@example.org", "nats": -5, "days": 3}]},
            "unknown field `entries[0].days`; the known ones are `entry`, `nats`, "
            "`expires_at`, `note`",
        ),
        (
            "PATCH",
            "/profiles/default",
            {"cost": 2},
            f"unknown field `cost`; the known ones are {THRESHOLDS}",
        ),
        (
            "PATCH",
            "/profiles/default",
            {"reject_from": {"probability": 0.99}, "ham_threshold": 1001},
            "`ham_threshold` should be less than or equal to 1000; `reject_from` should "
            "be log-odds in nats such as 6.9, or a text such as '99.9%'",
        ),
        (
            "POST",
            "/profiles/default/lists",
            {"entries": [{"entry": "ann@example.org", "nats": 1, "x[0]": 1}]},
            "unknown field `entries[0].x[0]`; the known ones are `entry`, `nats`, "
            "`expires_at`, `note`",
        ),
        ("PATCH", "/profiles/default", [], "it should be an object"),
        (
            "POST",
            "/feedback/undo",
            {"ids": [ID, 7], "from": "2026-03-01T14:30:00", "source": ""},
            "`ids[1]` should be a valid string; `source` should be one line of "
            "printable text; `from` needs a time zone, as in 2026-03-01T14:30:00Z",
        ),
        (
            "POST",
            "/feedback/undo",
            {"source": "ann", "from": "2026-03-01T14:30:00 01:00"},
            "`from`: write the + of a time zone as %2B in a query, or give the time in "
            "UTC, such as 2026-03-01T14:30:00Z",
        ),
        (
            "POST",
            "/feedback/undo",
            {"source": "x" * 65},
            "`source` should have at most 64 characters",
        ),
        ("POST", "/classify/batch", {}, "`messages` is missing"),
        (
            "POST",
            "/classify",
            {"x" * 100: 1, **{str(n): n for n in range(9)}},
            "; ".join(
                f"unknown field `{name}`; the known ones are `message`, `subject`, `from`, `to`, "
                "`reply_to`, `body`, `html`"
                for name in ("x" * 64, *range(4))
            ),
        ),
    ],
)
def test_a_document_that_cannot_be_used(client, method, path, document, sentence):
    """With the fields as they were written, and those that there are."""
    answer = client.request(method, path, json=document)

    assert (400, f"the JSON body cannot be used: {sentence}") == said(answer)


def test_half_an_emoji_changes_no_sentence(client):
    """It is read once more, by another reader."""
    answer = client.post(
        "/classify",
        content=b'{"bdy": "\\ud83d"}',
        headers={"content-type": "application/json"},
    )

    assert "unknown field `bdy`" in said(answer)[1]


@pytest.mark.parametrize(
    ("method", "path", "sentence"),
    [
        (
            "POST",
            "/feedback?labell=spam",
            "the query cannot be used: unknown parameter `labell`; the known ones are `label`, "
            "`profile`, `recipient`, `source`",
        ),
        (
            "POST",
            "/feedback?label=spam&profil=ann&profil=ben&x[]=",
            "the query cannot be used: unknown parameter `profil`; the known ones are `label`, "
            "`profile`, `recipient`, `source`; unknown parameter `x[]`; the known ones are "
            "`label`, `profile`, `recipient`, `source`",
        ),
        (
            "POST",
            "/classify?explain=-1&source=" + "a" * 65,
            "the query cannot be used: `explain` should be greater than or equal to 0; "
            "unknown parameter `source`; the known ones are `profile`, `recipient`, `explain`",
        ),
        (
            "POST",
            "/feedback?" + "&".join(["recipient=a"] * 101),
            "the query cannot be used: `recipient` should have at most 100 items, "
            "not 101",
        ),
        (
            "POST",
            "/feedback?label=spam&label=ham&recipient=ann&recipient=ben",
            "the query cannot be used: `label` should be given once",
        ),
        (
            "GET",
            "/events?before=1&before=2&profil=ann",
            "the query cannot be used: `before` should be given once",
        ),
        (
            "DELETE",
            f"/feedback/{ID}?source=%00",
            "the query cannot be used: `source` should be one line of printable text",
        ),
        (
            "DELETE",
            f"/feedback/{ID}?id=1",
            "the query cannot be used: unknown parameter `id`; the known ones are `profile`, "
            "`recipient`, `source`",
        ),
        (
            "GET",
            "/history?from=9999-12-31T23:59:59-14:00",
            "the query cannot be used: `from`: 9999-12-31T23:59:59-14:00 is before the "
            "year 1 or after 9999 in UTC; leave it out, or give a time in between",
        ),
        (
            "GET",
            "/ledger?until=0001-01-01T00:00:00%2B14:00",
            "the query cannot be used: `until`: 0001-01-01T00:00:00+14:00 is before the "
            "year 1 or after 9999 in UTC; leave it out, or give a time in between",
        ),
        (
            "GET",
            f"/words/{'x' * 600}",
            "the path cannot be used: `word` should have at most 512 characters",
        ),
        (
            "GET",
            "/profiles/default?profile=ann",
            "the query cannot be used: unknown parameter `profile`; there are no known ones",
        ),
    ],
)
def test_an_address_that_cannot_be_used(client, method, path, sentence):
    """With the parameters as they were written, and those that there are."""
    answer = client.request(
        method, path, **({"content": spam(1)} if method == "POST" else {})
    )

    assert (422, sentence) == said(answer)


def test_a_parameter_is_named_once(client):
    """Two dependencies of a page both take the profile."""
    answer = client.get("/ui/review?x=1")

    assert 422 == answer.status_code
    assert 1 == answer.text.count("<code>profile</code>")


def test_every_route_refuses_a_parameter_that_it_does_not_know(client):
    """But for those that a monitoring system asks, which may add its own."""
    before = client.get("/profiles/default").json()
    found = {}
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            body = {"json": {}} if method in {"post", "patch"} else {}
            address = re.sub(r"\{\w+\}", "default", path)
            answer = client.request(method, f"{address}?profil=ann", **body)
            found[method, path] = answer.status_code, "`profil`" in answer.text

    tolerant = {name: got for name, got in found.items() if name[1] in TOLERANT}
    assert {("get", path): (200, False) for path in TOLERANT} == tolerant
    assert {(422, True)} == {found[name] for name in found.keys() - tolerant.keys()}
    assert 10 <= len(found.keys() - tolerant.keys())
    assert 200 == client.get("/docs?theme=dark").status_code
    assert before == client.get("/profiles/default").json()


def test_a_misspelt_profile_teaches_nobody(client):
    """It would be the default one, which others decide by."""
    answers = [
        client.post("/feedback?label=spam&profil=ann", content=spam(1)),
        client.post("/feedback/undo?profil=ann", json={"source": "http"}),
        client.delete(f"/feedback/{ID}?profil=ann"),
        client.post("/feedback?profil=ann", json={"body": "x", "label": "spam"}),
    ]

    assert {422} == {answer.status_code for answer in answers}
    assert 0 == client.get("/profiles/default").json()["revision"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/profiles/default", "GET, HEAD, PATCH"),
        # Which is a path of its own, and could be an id.
        ("/feedback/undo", "DELETE, POST"),
        ("/classify", "POST"),
    ],
)
def test_all_methods_of_a_path_are_named(client, path, methods):
    """Also where each has a route of its own."""
    answer = client.put(path)

    assert (405, methods) == (answer.status_code, answer.headers["allow"])


@pytest.mark.parametrize(
    "policy",
    [
        {"reject_from": False},
        {"reject_from": ["9"]},
        {"reject_from": 1001},
        {"ham_cost": True},
    ],
)
def test_a_number_is_a_number(client, policy):
    """Not true, false or a text, which could stand for one; and within its range."""
    status, sentence = said(client.patch("/profiles/default", json=policy))

    assert 400 == status
    assert next(iter(policy)) in sentence
