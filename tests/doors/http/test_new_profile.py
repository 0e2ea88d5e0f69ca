"""A profile that is made over HTTP: by whom, with which labels, and when it answers."""

from __future__ import annotations

import pytest

from app.access.rights import Right
from app.services.access import made_key
from tests.support.application import client_of
from tests.support.databases import on_sqlite
from tests.support.messages import spam

RAW = {"Content-Type": "message/rfc822"}


@pytest.fixture
def client(database_url):
    """A client of an empty service."""
    with client_of(database_url) as client:
        yield client


def acts(client):
    """Return what was done, and by whom."""
    events = client.get("/events").json()["events"]
    return [(each["act"], each["who"], each["object"]) for each in events]


@on_sqlite
def test_a_profile_is_made_and_answers_at_once(client):
    """It has the labels of the settings, and an event names its creator."""
    made = client.post("/profiles", json={"name": "ann@example.org"})
    answer = client.post(
        "/feedback?label=spam&recipient=ann@example.org", content=spam(1), headers=RAW
    )

    assert (200, ["ham", "spam"]) == (made.status_code, made.json()["labels"])
    assert {"ham": 0, "spam": 0} == made.json()["messages"]
    assert 200 == answer.status_code
    assert {"ham": 0, "spam": 1} == client.get("/profiles/ann@example.org").json()[
        "messages"
    ]
    assert [("profile created", "http", "ann@example.org")] == acts(client)


@on_sqlite
def test_a_kind_has_its_labels(client):
    """The kinds are those of the command."""
    made = client.post("/profiles", json={"name": "post", "kind": "mail"}).json()

    assert ["ham", "newsletter", "notification", "phishing", "spam"] == made["labels"]
    assert ["phishing", "spam"] == made["spam_labels"]


def test_the_same_profile_twice_is_one(client):
    """The second request makes no event; other labels are a conflict."""
    document = {"name": "tickets", "labels": ["ok", "bad"], "spam_labels": ["bad"]}
    answers = [
        client.post("/profiles", json=each)
        for each in (document, document, {"name": "tickets"})
    ]

    assert [200, 200, 409] == [each.status_code for each in answers]
    assert answers[0].json() == answers[1].json()
    assert [("profile created", "http", "tickets")] == acts(client)


@on_sqlite
@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (422, {"name": "a b"}),
        (422, {"labels": ["ham"]}),
        (422, {"labels": ["good", "bad"]}),
        (422, {"labels": ["Ham", "spam"]}),
        (422, {"kind": "mail", "labels": ["ham", "spam"]}),
        (400, {"kind": "post"}),
        (400, {"label": ["ham", "spam"]}),
    ],
)
def test_a_profile_that_cannot_be(client, status, fields):
    """Each is refused with its reason, and no profile is created."""
    answer = client.post("/profiles", json={"name": "post"} | fields)

    assert status == answer.status_code
    assert answer.json()["detail"]
    assert ["default"] == [
        each["name"] for each in client.get("/profiles").json()["profiles"]
    ]


@on_sqlite
def test_who_manages_a_domain_makes_its_profiles(client):
    """Such a person cannot create other profiles."""
    text, key = made_key("org", [Right.MANAGE, Right.READ], profiles=["@example.org"])
    client.app.state.application.add_key(key, actor="test")
    answers = [
        client.post("/profiles", json={"name": name}, headers={"X-API-Key": text})
        for name in ("bob@example.org", "bob@example.net")
    ]

    assert [200, 403] == [each.status_code for each in answers]
    assert "bob@example.net" not in client.app.state.application.live


@on_sqlite
def test_the_page_of_the_site_makes_one(client):
    """It then shows the profile; an invalid name gets a page with the error."""
    made = client.post("/ui/site/profiles", data={"name": "ann@example.org"})
    kind = client.post("/ui/site/profiles", data={"name": "post", "kind": "mail"})
    wrong = client.post("/ui/site/profiles", data={"name": "<b>"})
    long = client.post("/ui/site/profiles", data={"name": "x" * 129})
    again = client.post("/ui/site/profiles", data={"name": "post", "kind": "mail"})
    unknown = client.post("/ui/site/profiles", data={"name": "z", "kind": "post"})

    assert "The profile ann@example.org is created." in made.text
    assert "Policy of ann@example.org" in made.text
    assert "newsletter" in kind.text.split("Policy of post")[1]
    assert (422, True) == (wrong.status_code, 'value="&lt;b&gt;"' in wrong.text)
    assert "The profile post already exists" in again.text
    assert (422, False) == (
        unknown.status_code,
        "z" in client.app.state.application.live,
    )
    assert 422 == long.status_code
    assert "x" * 128 not in client.app.state.application.live
