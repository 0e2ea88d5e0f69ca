"""A body is taken whole, and one that is late is given up."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from app.doors.serving import request
from app.doors.serving.request import take
from app.errors import SlowRequest


def taken(receive):
    """Return the body of a request."""
    request = Request({"type": "http", "headers": []}, receive)
    return asyncio.run(take(request, limit=9, kept=9))


async def there():
    """Give the whole body at once."""
    return {"type": "http.request", "body": b"body", "more_body": False}


async def late():
    """Give it after the time is over."""
    await asyncio.sleep(60)


def test_a_body_is_taken():
    """Whole."""
    assert b"body" == taken(there)


def test_a_late_body_is_given_up(monkeypatch):
    """With a sentence that says what arrived."""
    monkeypatch.setattr(request, "BODY_SECONDS", 0.01)

    with pytest.raises(SlowRequest, match=r"within 0.01 s \(0 bytes did\)"):
        taken(late)


def test_a_body_that_a_stopping_service_waits_for_is_sent_again():
    """The service cancels what is left; that is no defect, and no lesson is dropped."""

    async def stopped():
        body = Request({"type": "http", "headers": []}, late)
        task = asyncio.ensure_future(take(body, limit=9, kept=9))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(SlowRequest, match=r"the service stops.*\(0 bytes did\)"):
        asyncio.run(stopped())
