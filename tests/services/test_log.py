"""The log: one line for each verdict and feedback, whatever strangers send."""

from __future__ import annotations

import json
import logging
import shlex
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.services.log import (
    EVERY,
    MAX_LINE,
    MOST_KINDS,
    SLOW,
    Event,
    JsonFormat,
    SparingLog,
    TextFormat,
    keep_log,
    logging_if_slow,
)
from app.settings import Settings
from tests.support.application import running, teach
from tests.support.messages import ham, spam
from tests.support.standin import Application


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database."""
    return "sqlite"


def line(message, *values, form=None, trace=None):
    """Return the line of a record."""
    record = logging.LogRecord("app", logging.INFO, "", 0, message, values, trace)
    record.created = 1_700_000_000.5
    return (form or TextFormat()).format(record)


def events(caplog, name="verdict"):
    """Return the fields of the lines of that name."""
    found = [each.msg for each in caplog.records if isinstance(each.msg, Event)]
    return [dict(each.fields()) for each in found if each.name == name]


def test_a_line_begins_with_its_time():
    """In UTC, then level and place."""
    assert "2023-11-14T22:13:20.500Z INFO    app: 3 doors" == line("%d doors", 3)


@given(st.text(max_size=50), st.text(max_size=50))
def test_no_text_makes_a_second_line_or_a_second_field(one, other):
    """Nor moves a cursor: whatever stands in a message is shown as it can be."""
    text = line(Event("verdict", lambda: {"id": one, "queue": other}))

    assert text.isprintable()
    assert ["verdict", "id", "queue"] == [
        part.partition("=")[0] for part in shlex.split(text)[3:]
    ]


@pytest.mark.parametrize("form", [TextFormat(), JsonFormat()])
def test_a_line_is_bounded(form):
    """However long a header is."""
    event = Event("verdict", dict.fromkeys("abcd", "x" * 1_000_000).copy)

    assert len(line(event, form=form)) < MAX_LINE
    assert len(line("%s", "x" * 1_000_000, form=form)) < MAX_LINE + 200


def test_a_traceback_cannot_be_taken_for_lines():
    """An exception may quote what a stranger sent."""
    try:
        int("7\n2026-01-01T00:00:00Z INFO    app: all is well")
    except ValueError:
        trace = sys.exc_info()
    first, *rest = line("failed", trace=trace).split("\n")
    found = json.loads(line("failed", form=JsonFormat(), trace=trace))

    assert first.endswith("app: failed")
    assert rest
    assert all(each.startswith("  ") for each in rest)
    assert "failed" == found["message"]
    assert found["traceback"][-1].startswith("ValueError")


def test_programs_get_the_fields_as_they_are():
    """With time, level and place beside them."""
    event = Event("verdict", lambda: {"id": "a", "log_odds": -1.5, "queue": None})
    found = json.loads(line(event, form=JsonFormat()))

    assert {
        "time": "2023-11-14T22:13:20.500Z",
        "level": "info",
        "logger": "app",
        "event": "verdict",
        "id": "a",
        "log_odds": -1.5,
    } == found


def test_what_strangers_repeat_is_logged_once_a_minute(caplog):
    """With how often it was; another error under the same words is not hidden."""
    now = [0.0]
    log = SparingLog(logging.getLogger("t"), lambda: now[0])
    for peer in ("a", "b", "c"):
        log.warning("%s: %s", peer, ValueError(peer))
    log.warning("%s: %s", "d", OSError("disk"))
    now[0] = EVERY
    log.warning("%s: %s", "e", ValueError("e"))

    assert ["a: a", "d: disk", "e: e (and 2 more like it before)"] == caplog.messages


def test_what_asyncio_repeats_is_logged_once_a_minute(caplog):
    """Below the first line, it describes the objects, which are others each time."""
    keep_log(Settings())
    caplog.set_level(logging.ERROR)
    for peer, error in enumerate((None, None, OSError(), OSError(), KeyError())):
        text = f"Fatal error on the transport of a test\ntransport: <{peer}>"
        logging.getLogger("asyncio").error(text, exc_info=error)

    assert [None, OSError, KeyError] == [
        record.exc_info and record.exc_info[0] for record in caplog.records
    ]


def test_warnings_of_python_are_lines_of_the_log(caplog):
    """Beside the log, they would be lines without a time, and no JSON."""
    with warnings.catch_warnings():
        # An earlier test may have captured those of a context that has ended.
        logging.captureWarnings(False)
        warnings.simplefilter("always")
        keep_log(Settings())
        warnings.warn("an algorithm is old", UserWarning, stacklevel=1)
        logging.captureWarnings(False)

    assert "UserWarning: an algorithm is old" in caplog.text


def test_only_some_kinds_of_lines_are_remembered():
    """A library may write what strangers send into its lines, ever anew."""
    log = SparingLog(logging.getLogger("t"), lambda: 0.0)
    log.passes("kind 0")
    repeated = log.passes("kind 0")
    for number in range(MOST_KINDS + 1):
        log.passes(f"kind {number}")

    assert (None, "") == (repeated, log.passes("kind 0"))


def test_each_verdict_has_a_line(database_url, caplog):
    """With all that tells the message and the reason."""
    caplog.set_level(logging.INFO)
    with running(database_url=database_url) as app:
        for number in range(10):
            teach(app, ham(number), "ham")
            teach(app, spam(number), "spam")
        asked = app.delivery.address(["ann@example.org"])
        raw = b"Message-ID: <7@example.org>\n" + spam(77)
        found = app.delivery.answer(asked, raw, strongest=0, door="http")
        [said] = events(caplog)

    ms, reason = said.pop("ms"), said.pop("reason")
    assert ms > 0
    assert reason.partition(":")[0] in found.classified.attribution.contributions
    assert {
        "id": found.classified.observation.id,
        "message_id": "<7@example.org>",
        "queue": None,
        "door": "http",
        "by": None,
        "profile": "default",
        "recipients": "ann@example.org",
        "decision": "spam",
        "action": None,
        "log_odds": round(found.classified.verdict.log_odds, 3),
    } == said


def test_no_word_is_logged_where_none_is_stored(database_url, caplog, tmp_path):
    """The reason is a view and a number then."""
    caplog.set_level(logging.INFO)
    without = {"store_words": False, "key_file": tmp_path / "key"}
    with running(database_url=database_url, **without) as app:
        for number in range(10):
            teach(app, ham(number), "ham")
            teach(app, spam(number), "spam")
        app.delivery.together([], spam(77), strongest=5, door="milter")
        [said] = events(caplog)

    assert said["reason"].partition(":")[2].startswith("#")


def test_each_feedback_has_a_line(database_url, caplog):
    """With who taught, and what the filter had said."""
    caplog.set_level(logging.INFO)
    with running(database_url=database_url) as app:
        taught = teach(app, spam(1), "spam")
    [said] = events(caplog, "feedback")

    said.pop("ms")
    assert {
        "id": taught.outcome.digest.hex(),
        "door": None,
        "by": None,
        "profile": "default",
        "source": "test",
        "label": "spam",
        "outcome": "learned",
        "decision": "unsure",
        "log_odds": 0.0,
    } == said


def test_nothing_is_computed_where_the_level_is_off(caplog, monkeypatch):
    """A site without these lines does not pay for them."""

    def refuse(*_, **__):
        raise AssertionError

    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("app.services.delivery.strongest_reason", refuse)
    app = Application()
    app.delivery.together(["a"], b"money", strongest=1, door="milter")
    asked = app.delivery.address(["a"])
    app.delivery.answer(asked, b"money", strongest=1, door="milter")

    assert [] == caplog.records


def test_a_line_names_a_few_recipients_and_counts_the_others(caplog):
    """A message for a thousand people has one short line for each profile."""
    caplog.set_level(logging.INFO)
    people = [f"{number}@example.org" for number in range(9)]
    app = Application(reject_from=2.5)
    app.delivery.together(people, b"money", strongest=1, door="milter", queue="4Q")
    [said] = events(caplog)

    assert ("4Q", "reject") == (said["queue"], said["action"])
    assert f"{','.join(people[:5])},and 4 more" == said["recipients"]


class Clock:
    """A timer that goes off when it is asked to."""

    def __call__(self, seconds, function, args):
        """Set it."""
        self.seconds, self._function, self._args = seconds, function, args
        self.running = False
        return self

    def start(self):
        """Begin to wait."""
        self.running = True

    def cancel(self):
        """Go off no more."""
        self.running = False

    def pass_(self, seconds):
        """Let time go by."""
        if self.running and seconds >= self.seconds:
            self._function(*self._args)


@pytest.mark.parametrize(("seconds", "lines"), [(SLOW - 1, []), (SLOW, ["compiling"])])
def test_what_takes_long_says_so(caplog, seconds, lines):
    """While it does; what is quick says nothing, then or later."""
    clock = Clock()
    with (
        caplog.at_level(logging.INFO),
        logging_if_slow("compiling", timer=clock),
    ):
        clock.pass_(seconds)
    clock.pass_(100 * SLOW)

    assert lines == [record.getMessage() for record in caplog.records]


def test_what_fails_is_not_slow_any_more():
    """A start that ends with an error says nothing of the kernels afterwards."""
    clock = Clock()
    with pytest.raises(OSError, match="disk"), logging_if_slow("", timer=clock):
        raise OSError("disk")

    assert not clock.running
