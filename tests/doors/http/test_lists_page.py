"""Lists over HTTP and on their page: who may see and change them."""

from __future__ import annotations

import re
import threading
from html import unescape

import pytest
from fastapi.testclient import TestClient

from app.access.rights import Right
from app.doors.documents.access import ListEntryIn
from app.doors.http.app import create_app
from app.services.access import made_key
from app.services.application import Application
from app.settings import Settings
from tests.support.application import add_profiles, served
from tests.support.databases import sqlite_url

ANN = "ann@example.org"
LISTS = "/profiles/default/lists"
STRANGER = ("198.51.100.9", 50000)
PASSWORD = "correct horse"  # noqa: S105  of a test
CSRF = re.compile(r'name="csrf" value="([^"]*)"')
MESSAGE = b"From: Ann <ann@example.org>\nSubject: hello\n\nhi"


@pytest.fixture
def client(tmp_path):
    """A client of a service over an empty database."""
    with served(tmp_path) as client:
        yield client


def entries(answer):
    """Return the entries of an answer, and their nats."""
    return {each["entry"]: each["nats"] for each in answer.json()["entries"]}


def put(client, *texts, nats=-5.0, at=LISTS):
    """Set some entries."""
    return client.post(
        at, json={"entries": [{"entry": each, "nats": nats} for each in texts]}
    )


def test_entries_are_set_listed_and_removed(client):
    """They count at once."""
    made = put(client, "Ann@Example.org", ".example.net")
    verdict = client.post(
        "/classify", content=MESSAGE, headers={"Content-Type": "message/rfc822"}
    ).json()
    first = client.get(LISTS, params={"limit": 1})
    rest = client.get(LISTS, params={"after": first.json()["next"], "limit": 1})
    left = client.delete(LISTS, params={"entry": ANN})

    assert (200, {ANN: -5.0, ".example.net": -5.0}) == (
        made.status_code,
        entries(made),
    )
    assert "http" == made.json()["entries"][0]["source"]
    assert ("ham", -5.0) == (verdict["decision"], verdict["families"]["list"])
    assert ANN in verdict["explanation"][1]["text"]
    assert ({ANN: -5.0}, {".example.net": -5.0}) == (entries(first), entries(rest))
    assert rest.json()["next"] is None
    assert {".example.net": -5.0} == entries(left)


def test_entries_are_read_beside_the_event_loop(client, monkeypatch):
    """A thousand domains of other scripts take 0.3 s."""
    threads, read = [], ListEntryIn.read

    def noted(self, **named):
        threads.append(threading.current_thread().name)
        return read(self, **named)

    monkeypatch.setattr(ListEntryIn, "read", noted)
    answer = put(client, ANN)

    assert (200, ["AnyIO worker thread"]) == (answer.status_code, threads)


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        ({"entry": "ann", "nats": 1}, 422),
        ({"entry": ANN, "nats": 0}, 422),
        ({"entry": ANN, "nats": 1001}, 400),
        ({"entry": ANN}, 400),
        ({"entry": ANN, "nats": 1, "expires_at": "2020-01-01T00:00:00Z"}, 422),
        ({"entry": ANN, "nats": 1, "note": "a\nb"}, 422),
        ({"entry": "192.0.2.7/24", "nats": 1}, 422),
    ],
)
def test_bad_input_changes_nothing(client, entry, status):
    """Valid entries of the same request are not set either."""
    good = {"entry": "bob@example.org", "nats": 1}
    answer = client.post(LISTS, json={"entries": [good, entry]})

    assert status == answer.status_code
    assert {} == entries(client.get(LISTS))


def test_what_is_not_there_is_not_found(client):
    """An unknown entry gets 404, and so does an unknown profile."""
    assert [404, 404, 404, 422] == [
        client.delete(LISTS, params={"entry": ANN}).status_code,
        client.get("/profiles/nobody/lists").status_code,
        client.delete("/profiles/nobody/lists", params={"entry": ANN}).status_code,
        client.delete(LISTS, params={"entry": "ann"}).status_code,
    ]


def test_a_key_needs_the_rights(client):
    """To see them *read*, to change them *lists* or *manage*, of its profiles alone.

    The page is no way around that for a key that teaches one profile.
    """
    app = client.app.state.application
    stranger = TestClient(client.app, client=STRANGER)
    found = {}
    for right in (Right.READ, Right.LISTS, Right.MANAGE, Right.TEACH):
        for profiles in ((), ("rita",)):
            text, key = made_key(f"{right}-{len(profiles)}", [right], profiles=profiles)
            app.add_key(key, actor="test")
            stranger.headers["Authorization"] = f"Bearer {text}"
            found[right.value, *profiles] = (
                stranger.get(LISTS).status_code,
                put(stranger, ANN).status_code,
                stranger.delete(LISTS, params={"entry": ANN}).status_code,
            )
    text, key = made_key("trap", [Right.TEACH], profiles=("default",), labels=("spam",))
    app.add_key(key, actor="test")
    stranger.headers["Authorization"] = f"Bearer {text}"
    of_page = stranger.post("/ui/lists", data={"verb": "allow", "entry": ANN})

    assert {
        ("read",): (200, 403, 403),
        ("read", "rita"): (403, 403, 403),
        ("lists",): (403, 200, 200),
        ("lists", "rita"): (403, 403, 403),
        ("manage",): (403, 200, 200),
        ("manage", "rita"): (403, 403, 403),
        ("teach",): (403, 403, 403),
        ("teach", "rita"): (403, 403, 403),
    } == found
    assert 403 == of_page.status_code
    assert {} == entries(client.get(LISTS))


def test_the_page_sets_and_removes_entries(client):
    """The forms need no script."""
    form = {"verb": "deny", "entry": ANN, "nats": "8", "expires": "30", "note": "<b>"}
    answer = client.post("/ui/lists", data=form)
    page = client.get("/ui/lists").text
    removed = client.post("/ui/lists/remove", data={"entry": ANN})

    assert "The entry is set" in answer.text
    assert "&lt;b&gt;" in page
    assert "<b>" not in page.partition("<table")[2].partition("</table>")[0]
    assert f"Remove {ANN}" in page
    assert "The entry is removed" in removed.text
    assert {} == entries(client.get(LISTS))


def test_the_page_counts_to_the_end(client, monkeypatch):
    """Entries beyond one page are on the next."""
    monkeypatch.setattr("app.doors.http.page.lists.ROWS", 1)
    put(client, ANN, "bob@example.org")
    page = client.get("/ui/lists").text
    there = unescape(re.search(r'href="([^"]*after=[^"]*)"', page)[1])

    assert ANN in page
    assert "bob@example.org" not in page
    assert "bob@example.org" in client.get(there).text


def test_the_form_has_the_sender_that_a_link_names(client):
    """The page of a message links to this form."""
    page = client.get("/ui/lists", params={"entry": '"><b>'}).text

    assert 'value="&#34;&gt;&lt;b&gt;"' in page


@pytest.mark.parametrize(
    "form",
    [
        {"verb": "allow", "entry": "ann"},
        {"entry": ANN},
        {"verb": "allow", "entry": ANN, "nats": "many"},
        {"verb": "allow", "entry": ANN, "nats": "-5"},
        {"verb": "allow", "entry": ANN, "expires": "soon"},
        {"verb": "allow", "entry": ANN, "note": "x" * 201},
    ],
)
def test_a_form_that_cannot_be_used_changes_nothing(client, form):
    """The page shows the error."""
    assert 422 == client.post("/ui/lists", data=form).status_code
    assert {} == entries(client.get(LISTS))


def test_a_form_of_another_site_changes_nothing(client):
    """The form lacks the token of this page."""
    form = {"verb": "allow", "entry": ANN, "csrf": "x"}

    assert 403 == client.post("/ui/lists", data=form).status_code


@pytest.mark.usefixtures("hashed_at_once")
def test_the_owner_of_a_mailbox_changes_the_own_lists(tmp_path):
    """A teacher cannot change other lists, and a reader none, by page or JSON."""
    app = Application(Settings(database_url=sqlite_url(tmp_path)))
    add_profiles(app, "rita", "rob")
    for name, role, profile in (
        ("rita", "teacher", "rita"),
        ("rob", "reader", "rob"),
        ("tim", "teacher", None),
        ("anna", "admin", None),
    ):
        app.add_person(
            name, role=role, password=PASSWORD, profile=profile, actor="test"
        )
    door = create_app(app)
    found = {}
    with TestClient(door, client=("127.0.0.1", 50000)):
        for name in ("rita", "rob", "tim", "anna"):
            client = TestClient(door, client=STRANGER, follow_redirects=False)
            client.post("/ui/sign-in", data={"name": name, "password": PASSWORD})
            own = name if name in {"rita", "rob"} else "default"
            page = client.get("/ui/lists", params={"profile": own})
            token = CSRF.search(client.get("/ui/lists").text)[1]
            form = {"csrf": unescape(token), "verb": "allow", "entry": ANN}
            found[name] = (
                page.status_code,
                "Set an entry" in page.text,
                client.post(f"/ui/lists?profile={own}", data=form).status_code,
                client.post("/ui/lists?profile=rita", data=form).status_code,
                put(client, ANN, at=f"/profiles/{own}/lists").status_code,
                put(client, ANN, at="/profiles/rita/lists").status_code,
            )
        listed = [
            each["source"]
            for each in TestClient(door, client=("127.0.0.1", 1))
            .get("/profiles/rita/lists")
            .json()["entries"]
        ]

    assert {
        "rita": (200, True, 303, 303, 200, 200),
        "rob": (200, False, 403, 403, 403, 403),
        "tim": (200, False, 403, 403, 403, 403),
        "anna": (200, True, 303, 303, 200, 200),
    } == found
    assert ["user:anna"] == listed
