"""A request waits for what another thread answers, and no longer than it should."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from app.doors.http import routes
from app.doors.http.routes import in_time
from app.errors import DatabaseUnavailable, UnknownMessage


def running():
    """Return an answer that somebody has begun to look for."""
    answer = Future()
    answer.set_running_or_notify_cancel()
    return answer


def test_answers_that_are_there_and_that_come_are_returned():
    """Many at once, each to those who wait for it."""
    answers = [running() for _ in range(64)]
    for n in range(0, 64, 2):
        answers[n].set_result(n)

    def answer():
        for n in range(1, 64, 2):
            answers[n].set_result(n)

    async def wait():
        both = (asyncio.gather(*map(in_time, answers)) for _ in range(2))
        waited = [asyncio.ensure_future(each) for each in both]
        await asyncio.sleep(0)
        threading.Thread(target=answer).start()
        return await asyncio.gather(*waited)

    assert [[*range(64)]] * 2 == asyncio.run(wait())


def test_an_error_is_raised_where_it_is_waited_for():
    """Whether it was there before or comes."""
    there, comes = running(), running()
    there.set_exception(UnknownMessage("there"))

    async def wait():
        asyncio.get_running_loop().call_soon(
            comes.set_exception, UnknownMessage("comes")
        )
        return await asyncio.gather(
            in_time(there), in_time(comes), return_exceptions=True
        )

    assert ["there", "comes"] == [str(error) for error in asyncio.run(wait())]


def test_an_answer_that_does_not_come_is_an_error(monkeypatch):
    """It may come later; nobody waits any more."""
    monkeypatch.setattr(routes, "PATIENCE", 0.01)
    answer = running()

    async def wait():
        with pytest.raises(DatabaseUnavailable, match="may have been stored"):
            await in_time(answer)
        answer.set_result("late")
        await asyncio.sleep(0)

    asyncio.run(wait())

    assert answer.done()


def test_an_answer_to_a_service_that_has_ended_does_no_harm(caplog):
    """The thread that answers goes on, and says nothing."""
    answer = running()

    async def leave():
        task = asyncio.ensure_future(in_time(answer))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    answer.set_result("too late")

    assert [] == caplog.records
