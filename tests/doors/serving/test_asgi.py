"""A body that is there is not waited for; one that is late has its time."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from app.doors.serving import asgi
from app.doors.serving.asgi import take
from app.doors.serving.http1 import ARRIVED
from app.errors import SlowRequest


def taken(receive, **scope):
    """Return the body of a request."""
    request = Request({"type": "http", "headers": [], **scope}, receive)
    return asyncio.run(take(request, limit=9, kept=9))


async def there():
    """Give the whole body at once."""
    return {"type": "http.request", "body": b"body", "more_body": False}


async def late():
    """Give it after the time is over."""
    await asyncio.sleep(60)


@pytest.mark.parametrize("scope", [{}, {ARRIVED: True}])
def test_a_body_is_taken(scope):
    """Whether it is known to be there or not."""
    assert b"body" == taken(there, **scope)


def test_a_late_body_is_given_up(monkeypatch):
    """With a sentence that says what arrived."""
    monkeypatch.setattr(asgi, "BODY_SECONDS", 0.01)

    with pytest.raises(SlowRequest, match=r"within 0.01 s \(0 bytes did\)"):
        taken(late)


def test_no_timer_runs_for_a_body_that_has_arrived(monkeypatch):
    """Most have."""

    def refuse(_):
        pytest.fail("a timer")

    monkeypatch.setattr(asgi.asyncio, "timeout", refuse)

    assert b"body" == taken(there, **{ARRIVED: True})
