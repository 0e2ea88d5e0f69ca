"""A body is taken whole, and one that is late is given up."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from starlette.requests import Request

from app.doors.serving import request
from app.doors.serving.request import take
from app.errors import SlowRequest


def taken(receive):
    """Return the body of a request, which may have four bytes."""
    request = Request({"type": "http", "headers": []}, receive)
    return asyncio.run(take(request, limit=4, kept=4))


async def there():
    """Give the whole body at once."""
    return {"type": "http.request", "body": b"body", "more_body": False}


async def late():
    """Give it after the time is over."""
    await asyncio.sleep(60)


def waiting():
    """Return a task that waits for a body."""
    request = Request({"type": "http", "headers": []}, late)
    return asyncio.ensure_future(take(request, limit=9, kept=9))


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
        config = uvicorn.Config(
            take, interface="asgi3", lifespan="off", timeout_graceful_shutdown=0
        )
        config.load()
        server = uvicorn.Server(config)
        server.servers, server.lifespan = [], config.lifespan_class(config)
        task = waiting()
        server.server_state.tasks.add(task)
        await server.shutdown()
        await task

    with pytest.raises(SlowRequest, match=r"the service stops.*\(0 bytes did\)"):
        asyncio.run(stopped())


def test_who_cancels_a_request_is_not_taken_for_the_end_of_the_service():
    """A limit of time around it, for example, ends it, and says so itself."""

    async def cancelled():
        task = waiting()
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
