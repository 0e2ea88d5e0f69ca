"""Waiting for the answer of another thread without holding one."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

from app.services.memory.recall import LOOK_AGAIN, PATIENCE, too_late

if TYPE_CHECKING:
    from concurrent.futures import Future

    from app.services.application import Application
    from app.services.feedback import PendingFeedback, Taught
    from app.services.memory.recall import StoredMessage

Answer = TypeVar("Answer")


async def recalled(
    app: Application, profile: str, digest: bytes, *, within: float = 0.0
) -> StoredMessage:
    """Return what is known of a message, or will be within some seconds.

    Raises
    ------
    UnknownProfile
        If there is no such profile.
    DatabaseUnavailable
        If it cannot be looked up, or not in time.
    """
    until = time.monotonic() + within
    while True:
        known = await in_time(app.recall.look_up(profile, digest))
        if known or time.monotonic() >= until:
            return known
        await asyncio.sleep(LOOK_AGAIN)


async def answered(pending: PendingFeedback) -> Taught:
    """Return what became of a feedback once it is on disk.

    Raises
    ------
    DatabaseUnavailable
        If it could not be stored, or does not come in time.
    UnknownMessage
        If the message cannot be changed, or is not there to be forgotten.
    """
    return pending.taught(await in_time(pending.answer))


async def in_time(answer: Future[Answer]) -> Answer:
    """Wait for an answer, and return it.

    Raises
    ------
    DatabaseUnavailable
        If it does not come in time, or the thread answers so.
    """
    if not answer.done():
        # In place of `asyncio.wrap_future` under `asyncio.timeout`: where a thread
        # answers 32 requests at once, 8 us for each instead of 13, and a feedback by
        # id waits twice.
        loop, told = asyncio.get_running_loop(), asyncio.Event()

        def tell(_: Future[Answer]) -> None:
            # Of a request that was cut off when the service ended.
            if not loop.is_closed():
                loop.call_soon_threadsafe(told.set)

        answer.add_done_callback(tell)
        late = loop.call_later(PATIENCE, told.set)
        try:
            await told.wait()
        finally:
            late.cancel()
        if not answer.done():
            raise too_late()
    return answer.result()
