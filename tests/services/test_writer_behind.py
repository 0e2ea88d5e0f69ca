"""A commit that memory cannot follow: it is answered, and the log says so once."""

from __future__ import annotations

import pytest

from app.errors import DatabaseUnavailable
from app.services import log
from tests.support.messages import spam

AWAY = DatabaseUnavailable("the database is unavailable")


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


@pytest.fixture
def behind(app, monkeypatch):
    """Have the profile miss a row, so that it has to follow, and fail at that."""

    def fail_with(error):
        def follow(_):
            raise error

        live = app.live.get("default")
        monkeypatch.setattr(live, "apply", lambda *_, **__: False)
        monkeypatch.setattr(live, "follow", follow)

    return fail_with


def teach(app, numbers):
    """Teach messages one after the other, and return what became of them."""
    return [
        app.feedback.teach("default", spam(n), label="spam", source="test").outcome.kind
        for n in numbers
    ]


def told(caplog):
    """Return what the writer logged; others try to follow too, and tell of that."""
    return [each for each in caplog.records if each.name == "app.services.writer"]


@pytest.mark.parametrize(
    ("error", "level", "sentence"),
    [
        (AWAY, "WARNING", "takes effect as soon as the database can be read"),
        (ZeroDivisionError("by zero"), "ERROR", "is behind its ledger"),
    ],
)
def test_memory_that_stays_behind_is_told_once(
    app, behind, caplog, error, level, sentence
):
    """Only what is a defect with a traceback; a series of feedback has one."""
    behind(error)

    assert ["learned"] * 5 == teach(app, range(5))
    [line] = told(caplog)
    assert (level, level == "ERROR") == (line.levelname, bool(line.exc_info))
    assert sentence in line.message


def test_what_keeps_memory_behind_is_news_again_after_a_while(
    app, behind, caplog, monkeypatch
):
    """And so is something else at once."""
    behind(AWAY)
    teach(app, range(2))
    behind(ZeroDivisionError("by zero"))
    teach(app, range(2, 4))
    monkeypatch.setattr(log, "EVERY", 0.0)
    behind(AWAY)
    teach(app, range(4, 6))

    lines = told(caplog)
    assert ["WARNING", "ERROR", "WARNING", "WARNING"] == [x.levelname for x in lines]
    assert lines[2].message.endswith("(and 1 more like it before)")
