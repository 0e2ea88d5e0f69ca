"""The ledger: its rows page by page, and undo with a dry run."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.application import served
from tests.support.command import PATIENCE
from tests.support.messages import ham, spam

HOSTILE = "<script>alert(1)</script>'\"\u202e{{7*7}}"


@pytest.fixture
def client(tmp_path):
    """A client of a service that three sources taught."""
    with served(tmp_path) as client:
        app = client.app.state.application
        for n in range(3):
            app.feedback.teach("default", spam(n), label="spam", source="ann")
        app.feedback.teach("default", ham(1), label="ham", source="ben")
        app.feedback.teach("default", spam(1), label="ham", source=HOSTILE)
        yield client


def rows(client, **query):
    """Return the revisions of the rows that match."""
    found = client.get("/ledger", params=query).json()
    return [row["revision"] for row in found["rows"]]


def soon(client, wanted):
    """Return what a profile has learned, once it is what is wanted."""
    until = time.monotonic() + PATIENCE
    while True:
        learned = client.get("/profiles/default").json()["messages"]
        if learned == wanted or time.monotonic() > until:
            return learned
        time.sleep(0.02)


def act(page, button):
    """Return the fields of the form that has a button, and what the button sends."""
    form = next(
        each for each in re.findall(r"(?s)<form.*?</form>", page) if button in each
    )
    fields = dict(
        re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form)
    )
    return fields | dict(
        re.findall(rf'<button[^>]*name="(\w+)" value="(\w+)"[^>]*>{button}', form)
    )


def test_rows_come_newest_first_with_what_they_changed(client):
    """A relabelled message has both labels."""
    newest, before = client.get("/ledger", params={"limit": 2}).json()["rows"]

    assert (5, "spam", "ham", HOSTILE, None, False) == tuple(
        newest[key]
        for key in ("revision", "label_before", "label", "source", "undo", "taken_back")
    )
    assert (4, None, "ham", "ben") == tuple(
        before[key] for key in ("revision", "label_before", "label", "source")
    )


def test_pages_follow_one_another_without_a_gap(client):
    """The last page has no `next`."""
    found, seen = {"next": None}, []
    while not seen or found["next"]:
        query = {"limit": 2} | ({"before": found["next"]} if seen else {})
        found = client.get("/ledger", params=query).json()
        seen += [row["revision"] for row in found["rows"]]

    assert [5, 4, 3, 2, 1] == seen


def test_filters_meet_all_conditions(client):
    """Rows can be filtered by source, label, message and time."""
    id_ = client.get("/ledger", params={"before": 3, "limit": 1}).json()["rows"][0][
        "id"
    ]
    soon_ = (datetime.now(UTC) + timedelta(days=1)).isoformat()

    assert [3, 2, 1] == rows(client, source="ann")
    assert [5, 4] == rows(client, label="ham")
    assert [5, 2] == rows(client, id=id_)
    assert [] == rows(client, id=id_, label="spam", source="ben")
    assert [] == rows(client, **{"from": soon_})
    assert [5, 4, 3, 2, 1] == rows(client, until=soon_)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"label": "junk"}, 422),
        ({"id": "abc"}, 404),
        ({"profile": "nobody"}, 404),
        ({"before": 0}, 422),
        ({"from": "2026-03-01T10:00"}, 422),
        # As Unix time, this would be in 1970.
        ({"from": "20260301"}, 422),
        ({"limit": 501}, 422),
        ({"source": "a\0b"}, 422),
    ],
)
def test_what_cannot_be_asked_is_refused(client, query, status):
    """The error is a sentence."""
    answer = client.get("/ledger", params=query)

    assert (status, True) == (answer.status_code, bool(answer.json()["detail"]))


def test_rows_that_an_undo_takes_back_say_so(client):
    """They do so while the undo is in force; the rows of the undo have its name."""
    undo = client.post("/feedback/undo", json={"source": "ben"}).json()["undo"]
    taken = {
        r["revision"]: r["taken_back"] for r in client.get("/ledger").json()["rows"]
    }
    client.post("/feedback/undo", json={"source": undo})
    after = {
        r["revision"]: r["taken_back"] for r in client.get("/ledger").json()["rows"]
    }

    assert [6] == rows(client, source=undo)
    assert [4] == [revision for revision, gone in taken.items() if gone]
    assert not after[4]


def test_times_of_a_form_are_in_utc(client):
    """A browser sends times without a zone, and the form shows them as sent."""
    query = {"from": "2020-03-01T10:00", "until": "2020-03-02T10:00:30"}
    page = client.get("/ui/ledger", params=query)
    refused = client.get("/ui/ledger", params={"from": "yesterday"})

    assert (200, 0) == (page.status_code, page.text.count("data-row"))
    assert 2 == page.text.count('name="from" value="2020-03-01T10:00:00"')
    assert 2 == page.text.count('name="until" value="2020-03-02T10:00:30"')
    assert (422, True) == (refused.status_code, "is not a time" in refused.text)


def test_the_page_shows_rows_and_takes_empty_filters(client):
    """A form sends every field; sources are text and nothing else."""
    empty = dict.fromkeys(("source", "label", "from", "until", "id"), "")
    text = client.get("/ui/ledger", params=empty).text

    assert 5 == text.count("data-row")
    assert "<script>" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "{{7*7}}" in text


def test_an_afternoon_is_taken_back_after_its_dry_run(client):
    """The dry run changes nothing; its button does what it showed."""
    today = datetime.now(UTC)
    given = {
        "source": "ann",
        "from": f"{today - timedelta(hours=1):%Y-%m-%dT%H:%M}",
        "until": f"{today + timedelta(hours=1):%Y-%m-%dT%H:%M}",
    }
    dry = client.post("/ui/ledger/undo", data=given)
    learned = client.get("/profiles/default").json()["messages"]
    done = client.post("/ui/ledger/undo", data=act(dry.text, "Take it back"))

    assert re.search(r'id="rows">3<', dry.text)
    assert {"ham": 2, "spam": 2} == learned
    assert "undo:1 is recorded" in done.text
    # Somebody else called one of the three ham, and that stands.
    assert {"ham": 2, "spam": 0} == soon(client, {"ham": 2, "spam": 0})


def test_a_large_undo_is_confirmed_by_its_dry_run(client):
    """Without the token of the dry run it is refused."""
    app = client.app.state.application
    for n in range(10, 40):
        app.feedback.teach("default", spam(n), label="spam", source="bot")
    refused = client.post("/ui/ledger/undo", data={"source": "bot", "act": "undo"})
    dry = client.post("/ui/ledger/undo", data={"source": "bot"}).text
    client.post("/ui/ledger/undo", data=act(dry, "Take it back"))

    assert 409 == refused.status_code
    assert {"ham": 2, "spam": 2} == soon(client, {"ham": 2, "spam": 2})


def test_one_row_is_taken_back_from_its_line(client):
    """The undo selects the id of the message."""
    text = client.get("/ui/ledger", params={"source": "ben"}).text
    dry = client.post("/ui/ledger/undo", data=act(text, "take back…")).text
    client.post("/ui/ledger/undo", data=act(dry, "Take it back"))

    assert {"ham": 1, "spam": 2} == soon(client, {"ham": 1, "spam": 2})


def test_an_undo_of_a_hostile_source_is_shown_as_text(client):
    """The dry run shows it as text, and the undo still selects it."""
    dry = client.post("/ui/ledger/undo", data={"source": HOSTILE}).text

    assert "<script>" not in dry
    assert re.search(r'id="rows">1<', dry)


def test_an_undo_without_a_selection_is_refused(client):
    """It would take back everything."""
    answer = client.post("/ui/ledger/undo", data={"source": " ", "act": "undo"})

    assert (422, True) == (answer.status_code, "Select what to undo" in answer.text)


def test_a_time_that_is_none_is_refused(client):
    """The error shows how to write a time."""
    answer = client.post("/ui/ledger/undo", data={"from": "yesterday"})

    assert (422, True) == (answer.status_code, "2026-03-01T14:30" in answer.text)
