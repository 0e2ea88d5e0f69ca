"""The log lines of the doors: each names the door, the message and the decision."""

from __future__ import annotations

import asyncio
import logging
import struct

import pytest

from app.doors.milter import codec
from app.doors.milter.server import Milter
from app.errors import DatabaseUnavailable
from app.services.feedback import Feedback
from app.services.log import Event
from tests.support import rspamd, spamd
from tests.support.application import served
from tests.support.messages import spam
from tests.support.standin import Application

RAW = {"content-type": "message/rfc822"}


def lines(caplog):
    """Return the verdicts that the log has."""
    return [
        str(each.msg)
        for each in caplog.records
        if isinstance(each.msg, Event) and each.msg.name == "verdict"
    ]


def by_http(tmp_path):
    """Ask over HTTP, one message and a batch."""
    with served(tmp_path) as client:
        client.post("/classify?recipient=bob@example.org", content=spam(1), headers=RAW)
        client.post("/classify/batch", json={"messages": [{"body": "a"}]})


def by_spamd(_):
    """Ask as spamc does."""
    spamd.answer(spamd.request("CHECK SPAMC/1.5", "User: bob@example.org"))


def by_rspamd(_):
    """Ask as rspamc does."""
    rspamd.ask(rspamd.request("/checkv2", "Rcpt: bob@example.org"))


def by_milter(_):
    """Ask as Postfix does."""
    said = [
        codec.packet(b"O", struct.pack("!III", 6, 0x1FF, 0x1FFFFF)),
        codec.packet(b"M", b"<a@b.example>\0"),
        codec.packet(b"R", b"<bob@example.org>\0"),
        codec.packet(b"L", b"Subject\0 money\0"),
        codec.packet(b"N"),
        codec.packet(b"E"),
    ]
    connection = spamd.Pieces(said)
    asyncio.run(Milter(Application()).serve(connection))
    assert connection.answer


@pytest.mark.parametrize(
    ("ask", "door", "times"),
    [
        (by_http, "http", 2),
        (by_spamd, "spamd", 1),
        (by_rspamd, "rspamd", 1),
        (by_milter, "milter", 1),
    ],
)
def test_a_verdict_has_one_line(ask, door, times, tmp_path, caplog):
    """Whichever door was asked, and no second one."""
    caplog.set_level(logging.INFO)
    ask(tmp_path)
    found = lines(caplog)

    assert times == len(found)
    assert all(f" door={door} " in each for each in found)
    assert " recipients=bob@example.org " in found[0]


def test_feedback_that_is_refused_is_logged(tmp_path, caplog, monkeypatch):
    """Once a minute, as a mail server may try it again each second."""
    with served(tmp_path) as client:

        def away(*_, **__):
            msg = "the database is unavailable"
            raise DatabaseUnavailable(msg)

        monkeypatch.setattr(Feedback, "start_teach", away)
        for _ in range(3):
            answer = client.post("/feedback?label=spam", content=spam(1), headers=RAW)
            assert 503 == answer.status_code

    assert [
        "POST /feedback was refused: the database is unavailable"
    ] == caplog.messages
