"""The page behind a link of a digest: it shows why, and teaches by its buttons alone."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from app.services.digest import DigestLinks
from tests.support.application import served, teach
from tests.support.messages import ham, spam

SECRET = b"0123456789abcdef"
LINKS = DigestLinks(SECRET, days=7)
HOSTILE = b"From: <script>alert(1)</script>@x.example\nSubject: <img src=x> free\n\nfree money"


@pytest.fixture
def client(tmp_path):
    """A client of a service that was taught some mail."""
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    with served(tmp_path, digest_secret_file=file) as client:
        app = client.app.state.application
        for n in range(4):
            teach(app, spam(n), "spam")
            teach(app, ham(n), "ham")
        yield client


def linked(client, raw):
    """Score a message; return its link."""
    app = client.app.state.application
    asked = app.delivery.address([])
    found = app.delivery.answer(asked, raw, strongest=3, door="http")
    app.recent.flush(app.engine)
    return f"/ui/digest/{LINKS.token('default', found.classified.observation.digest)}"


def learned(client):
    """Return what the profile has learned."""
    return client.get("/profiles/default").json()["messages"]


def test_a_program_that_follows_a_link_teaches_nothing(client):
    """Neither repeated visits nor added parameters teach."""
    link = linked(client, spam(9))
    for _ in range(3):
        assert 200 == client.get(link, params={"utm_source": "scanner"}).status_code
    client.head(link)

    assert {"ham": 4, "spam": 4} == learned(client)


def test_a_link_shows_why(client):
    """The sender, the subject, the verdict and its reasons."""
    text = client.get(linked(client, spam(9))).text

    assert "You are a WINNER" in text
    assert "win@prizes.example" in text
    assert "(prior)" in text
    assert "It is ham" in text


def test_a_button_teaches_and_the_other_moves_it(client):
    """The source of the feedback is `digest`."""
    link = linked(client, spam(9))
    after = client.post(link, data={"label": "spam"})
    moved = client.post(link, data={"label": "ham"})

    assert "Taught as spam" in after.text
    assert "Taught as ham" in moved.text
    assert {"ham": 5, "spam": 4} == learned(client)
    rows = client.get("/ledger", params={"source": "digest"}).json()["rows"]
    assert [("spam", "ham"), (None, "spam")] == [
        (row["label_before"], row["label"]) for row in rows
    ]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_link_of_somebody_else_is_refused(client, method):
    """The answer is a page, and nothing is taught."""
    other = DigestLinks(b"another secret..", days=7).token("default", bytes(16))
    answer = client.request(method, f"/ui/digest/{other}", data={"label": "spam"})

    assert (403, True) == (answer.status_code, "<h1>" in answer.text)
    assert {"ham": 4, "spam": 4} == learned(client)


def test_a_message_that_nobody_knows_is_a_page_that_says_so(client):
    """The history keeps a message for a limited time."""
    answer = client.get(f"/ui/digest/{LINKS.token('default', bytes(16))}")

    assert 404 == answer.status_code


def test_nothing_of_a_mail_acts_on_the_page(client):
    """The content of a mail is shown as text."""
    text = client.get(linked(client, HOSTILE)).text

    assert "<script>alert" not in text
    assert "<img" not in text
    assert "&lt;img src=x&gt;" in text


def test_a_label_that_is_none_is_refused(client):
    """The page is shown again, with the reason and its buttons."""
    answer = client.post(linked(client, spam(9)), data={"label": "<i>"})

    assert (422, True) == (answer.status_code, "<i>" not in answer.text)
    assert "It is ham" in answer.text


def test_a_stranger_with_a_link_sees_that_message_alone(client):
    """The link is the proof; without it, the same client is asked to sign in."""
    link = linked(client, spam(9))
    stranger = TestClient(client.app, client=("203.0.113.9", 50000))
    shown = stranger.get(link)
    taught = stranger.post(link, data={"label": "spam"})
    ledger = stranger.get("/ledger")

    assert (200, 401) == (shown.status_code, ledger.status_code)
    assert "Taught as spam" in taught.text
    assert {"ham": 4, "spam": 5} == learned(client)
