"""The overview: verdicts over time, live figures and what waits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.classifier.verdict import Count
from app.doors.documents.figures import verdicts_of
from app.doors.http.app import create_app
from app.drawing import Times
from app.services.application import Application
from app.settings import Settings
from tests.support.application import PageClient
from tests.support.messages import ham, spam

HOUR = 3600


@pytest.fixture
def app(database_url):
    """A service."""
    app = Application(Settings(database_url=database_url, spamd="127.0.0.1:783"))
    with PageClient(create_app(app), client=("127.0.0.1", 50000)) as client:
        app.client = client
        yield app


def test_an_empty_service_has_an_overview(app):
    """The page has no diagram, and a hint at the first step."""
    document = app.client.get("/overview").json()
    page = app.client.get("/ui/overview")

    assert [] == document["verdicts"]
    assert document["database"]["writable"]
    assert {"http": True, "milter": False, "spamd": True, "rspamd": False} == {
        name: door["open"] for name, door in document["doors"].items()
    }
    assert "connect a mail server" in page.text
    assert "<svg" not in page.text.split("<main")[1]


def test_the_overview_counts_verdicts_and_errors(app):
    """Verdicts are counted by door and decision, and tables have the numbers."""
    for n in range(12):
        app.feedback.teach("default", ham(n), label="ham", source="anna")
        app.feedback.teach("default", spam(n), label="spam", source="<b>anna</b>")
    for n in range(20, 23):
        app.delivery.together(["a@b.example"], spam(n), strongest=0, door="milter")
    app.recent.flush(app.engine)
    document = app.client.get("/overview?days=1").json()
    pages = [app.client.get(f"/ui/overview?days={n}").text for n in (1, 14)]

    counted = document["verdicts"]
    assert 3 == sum(each["spam"] + each["unsure"] + each["ham"] for each in counted)
    assert 3 == document["doors"]["milter"]["verdicts"]
    assert {"ham": 12, "spam": 12} == document["learned"]
    assert 24 == document["figures"]["messages"]
    for page in pages:
        assert 3 <= page.count('<svg viewBox="0 0 560')
        assert "Ham lost" in page
        assert "95 %:" in page
        assert "<b>anna" not in page


def test_the_first_page_is_the_overview(app):
    """`/ui` leads to the overview."""
    assert "Overview ·" in app.client.get("/ui").text


def test_stretches_of_time_have_all_decisions():
    """All doors are summed, and intervals without verdicts are left out."""
    found = verdicts_of(
        [
            Count(0, "spam", "http", 2),
            Count(0, "spam", "milter", 3),
            Count(2 * HOUR, "ham", "http", 1),
        ]
    )

    assert [(5, 0, 0), (0, 0, 1)] == [(x.spam, x.unsure, x.ham) for x in found]
    assert datetime(1970, 1, 1, 2, tzinfo=UTC) == found[1].begin


@pytest.mark.parametrize("days", [0.01, 0.2, 1, 3, 7, 14, 30, 90, 366])
def test_an_axis_of_times_has_a_few_marks_in_order(days):
    """All ticks are on the axis, whatever its length."""
    first = int(datetime(2026, 3, 14, 9, 30, tzinfo=UTC).timestamp())
    axis = Times(first, first + int(days * 86_400))
    marks = [at for at, _ in axis.ticks()]

    assert marks == sorted(marks)
    assert len(marks) <= 15
    assert all(axis.low <= at <= axis.high for at in marks)
