"""Threads: the work of requests, in the event loop or beside it.

Contract of this file: nothing that takes longer than 20 ms runs in the event loop, and
work that waits for a thread is dropped where its client hangs up.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from app.errors import ProfileLoading, SlowRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")
P = ParamSpec("P")
# Larger messages, 0.2 % of the SpamAssassin corpus, go to a thread; messages of 40 to
# 64 KiB take 7 ms to parse and extract, and 16 at most. Handing 0.6 ms of work to a
# thread cost 0.13 ms more at the median, and because of the interpreter's lock it would
# not free the event loop.
INLINE_BYTES: Final = 64 * 1024
# Two threads score large messages.  More would not be faster under the interpreter's
# lock, and the event loop would wait longer for it; waiting work can still be dropped.
# With one thread, all large messages would wait for the slowest.
_COMPUTING: Final = CapacityLimiter(2)
# Further concurrent feedback waits for a thread; it would wait for the writer anyway,
# which commits up to 256 together. A separate pool: in the common pool, forty threads
# that wait for a locked database would leave none for a large message.
LEARNING: Final = CapacityLimiter(64)


async def computing(
    use_case: Callable[[], T],
    size: int,
    gone: Callable[[], Coroutine[Any, Any, object]] | None = None,
) -> T:
    """Run a use case in the event loop if it is small, and in a thread otherwise.

    Parameters
    ----------
    use_case : callable
        The work.
    size : int
        Size of the input.  Unit: bytes.
    gone : callable, optional
        Returns an awaitable that ends when the client hangs up.

    Raises
    ------
    SlowRequest
        If the client hangs up before the end.
    ProfileLoading
        If a profile is not loaded in time.
    """
    # Profiles loaded for this work stay in memory until it is done.
    loaded: list[object] = []
    while True:
        try:
            if size <= INLINE_BYTES:
                return use_case()
            # A door stops waiting after its time-out. A started thread changes nothing
            # and ends by itself, because the time for a message is bounded.
            work = to_thread.run_sync(
                use_case, limiter=_COMPUTING, abandon_on_cancel=True
            )
            return await (work if gone is None else unless_gone(work, gone()))
        except ProfileLoading as error:
            loaded.append(await _loaded(error))


# Not the framework's pool: forty threads that wait for an unavailable database would
# leave none for a large message.
DATABASE_THREADS: Final = CapacityLimiter(64)


async def in_database(
    use_case: Callable[P, T], *args: P.args, **options: P.kwargs
) -> T:
    """Run a use case that waits for the database in a thread."""
    return await in_thread(DATABASE_THREADS, use_case, *args, **options)


async def in_thread(
    threads: CapacityLimiter,
    use_case: Callable[P, T],
    *args: P.args,
    **options: P.kwargs,
) -> T:
    """Run a waiting use case in a thread of a pool.

    `computing` is for work that takes CPU time.
    """
    call = partial(use_case, *args, **options)
    return await to_thread.run_sync(call, limiter=threads)


async def _loaded(error: ProfileLoading) -> object:
    """Wait for a profile that is being loaded; raise the error if it takes too long."""
    if error.patience <= 0:
        raise error
    ended = asyncio.wrap_future(error.ended)
    await asyncio.wait([ended], timeout=error.patience)
    return ended.result() if ended.done() else None


async def unless_gone(
    work: Coroutine[Any, Any, T], gone: Coroutine[Any, Any, object]
) -> T:
    """Wait for work, and cancel it if its client hangs up.

    Raises
    ------
    SlowRequest
        If the client hangs up first.
    """
    working, hanging_up = asyncio.create_task(work), asyncio.create_task(gone)
    try:
        await asyncio.wait({working, hanging_up}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        # The answer is not read; it only prevents a hang-up from being logged as a
        # crash.
        raise SlowRequest("the client hung up before it was answered")
    finally:
        working.cancel()
        hanging_up.cancel()
