"""Process: signals, the end of a parent, worker threads, and the service manager.

At a stop the server of the main door first answers the requests that it has begun,
which may take as long as their clients do; the other doors hear of the signal before.

A parent restarts its workers and passes the signal to stop on to them.  Workers whose
parent was killed would go on listening: nothing would stop the service, and a new one
would find its port taken.  So a worker ends with its parent.

Contract of this file: nothing that takes longer than 20 ms runs in the event loop,
and work that waits for a thread is dropped where its client hangs up.

Contract of this file: one datagram for each notification, and no failure of a manager
ends a service (sd_notify(3)).  Only the process that systemd started may notify it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from app.errors import ProfileLoading, SlowRequest
from app.services.log import SparingLog

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Coroutine,
        Iterator,
        MutableMapping,
    )
    from multiprocessing.process import BaseProcess

ENDING: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask the process to end."""


@contextmanager
def handling_signals(notify: Callable[[], object]) -> Iterator[None]:
    """Have something called in the running loop when a signal comes that ends us.

    Whoever handled the signal before does so as well.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread has signals: elsewhere nobody else ends us by them.
        yield
        return
    loop = asyncio.get_running_loop()
    usual: dict[signal.Signals, Any] = {}

    def handle(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(notify)
        usual[signal.Signals(number)](number, frame)

    for number in ENDING:
        handler = signal.getsignal(number)
        # Of the system's own there is nothing to call, and it must go on ending us.
        if callable(handler):
            usual[number] = handler
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


# A SIGHUP that came before anybody could act on it.
_EARLY: Final = threading.Event()


def remember_reload() -> None:
    """Have a SIGHUP remembered for `reloading`, in place of ending this process."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, lambda *_: _EARLY.set())


@asynccontextmanager
async def reloading(reload: Callable[[], object]) -> AsyncIterator[None]:
    """Have something called in a thread for each SIGHUP, one after the other."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread has signals.
        yield
        return
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    before = signal.signal(
        signal.SIGHUP, lambda *_: loop.call_soon_threadsafe(asked.set)
    )
    if _EARLY.is_set():
        _EARLY.clear()
        asked.set()
    task = asyncio.create_task(_reload(asked, reload))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
        task.cancel()
        # A reload that has begun is finished.
        await asyncio.wait([task])


async def _reload(asked: asyncio.Event, reload: Callable[[], object]) -> None:
    while True:
        await asked.wait()
        asked.clear()
        try:
            await to_thread.run_sync(reload)
        except Exception:  # the outermost loop of the task: the service goes on
            log.exception(
                "the settings could not be read again, and the old ones still apply"
            )


log = logging.getLogger(__name__)
# Seconds between two looks.
_EVERY: Final = 1.0


@asynccontextmanager
async def ending_with_its_parent() -> AsyncIterator[None]:
    """End this process, in order, as soon as the one that asked for it is gone."""
    asked_by = parent_process()
    if asked_by is None:
        yield
        return
    watch = asyncio.create_task(_watch(asked_by))
    try:
        yield
    finally:
        watch.cancel()


async def _watch(asked_by: BaseProcess) -> None:
    # Not the system's parent, which is the process that workers are forked from.
    while asked_by.is_alive():  # noqa: ASYNC110  nothing tells it but a look
        await asyncio.sleep(_EVERY)
    log.error("the parent process of this worker has died, so the worker stops")
    os.kill(os.getpid(), signal.SIGTERM)


T = TypeVar("T")
P = ParamSpec("P")
# Of the SpamAssassin corpus 99.8 % are not larger; those of 40 to 64 KiB take 7 ms
# to parse and extract, 16 at most. Handing 0.6 ms of work to a thread cost
# 0.13 ms more at the median, and under the interpreter's lock no thread leaves
# the event loop freer.
INLINE_BYTES: Final = 64 * 1024
# Large messages are scored by two threads: more are no faster under the interpreter's
# lock, for which the event loop then waits longer, and what waits here can be dropped.
# One alone would keep all large messages waiting for the slowest.
_COMPUTING: Final = CapacityLimiter(2)
# More feedback than this at once waits for a thread; it would wait for the
# writer anyway, which commits up to 256 together. Threads of its own: in the
# common pool forty that wait for a locked database would leave none for a
# large message.
LEARNING: Final = CapacityLimiter(64)


async def computing(
    use_case: Callable[[], T],
    size: int,
    gone: Callable[[], Coroutine[Any, Any, object]] | None = None,
) -> T:
    """Parse or score where it stands what is small, and in a thread what is large.

    Parameters
    ----------
    use_case : callable
        What is to be done.
    size : int
        Size of what is to be read. Unit: bytes.
    gone : callable, optional
        Returns what ends when the client hangs up.

    Raises
    ------
    SlowRequest
        If the client hangs up before it is done.
    ProfileLoading
        If a profile that it needs is not in memory in time.
    """
    # What was loaded for it stays until it is done, however little room there is.
    loaded: list[object] = []
    while True:
        try:
            if size <= INLINE_BYTES:
                return use_case()
            # A door that has waited long enough goes on; a thread that has begun
            # changes nothing and ends by itself, because the time of a message is
            # bounded.
            work = to_thread.run_sync(
                use_case, limiter=_COMPUTING, abandon_on_cancel=True
            )
            return await (work if gone is None else unless_gone(work, gone()))
        except ProfileLoading as error:
            loaded.append(await _loaded(error))


# Not the framework's threads: while the database is away, forty that ask for it
# would leave none for a large message.
DATABASE_THREADS: Final = CapacityLimiter(64)


async def in_database(
    use_case: Callable[P, T], *args: P.args, **options: P.kwargs
) -> T:
    """Run a use case that waits for the database, in a thread."""
    return await in_thread(DATABASE_THREADS, use_case, *args, **options)


async def in_thread(
    threads: CapacityLimiter,
    use_case: Callable[P, T],
    *args: P.args,
    **options: P.kwargs,
) -> T:
    """Run a use case that waits, in one of some threads.

    `computing` is for work that takes CPU time.
    """
    call = partial(use_case, *args, **options)
    return await to_thread.run_sync(call, limiter=threads)


async def _loaded(error: ProfileLoading) -> object:
    """Wait for a profile that is being loaded; raise the error if that is too long."""
    if error.patience <= 0:
        raise error
    ended = asyncio.wrap_future(error.ended)
    await asyncio.wait([ended], timeout=error.patience)
    return ended.result() if ended.done() else None


async def unless_gone(
    work: Coroutine[Any, Any, T], gone: Coroutine[Any, Any, object]
) -> T:
    """Wait for work, and cancel it where its client hangs up.

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
        # Nobody reads the answer: it only keeps a hang-up from being logged as a
        # crash of ours.
        msg = "the client hung up before it was answered"
        raise SlowRequest(msg)
    finally:
        working.cancel()
        hanging_up.cancel()


SOCKET: Final = "NOTIFY_SOCKET"
manager_log = SparingLog(logging.getLogger(__name__))


class ServiceManager:
    """The manager that started this process; without one nothing is sent.

    Parameters
    ----------
    environment : mapping of str to str
        Names its socket, and how often it wants to hear of the process.
    clock : callable
        Returns a time that only grows.  Unit: seconds.
    """

    def __init__(
        self,
        environment: MutableMapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        # The kernel writes the first byte of an abstract address as NUL.
        name = environment.get(SOCKET, "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self._clock = clock
        self._due = clock()
        self._pause: float | None = None
        whom = environment.get("WATCHDOG_PID", str(os.getpid()))
        microseconds = environment.get("WATCHDOG_USEC", "")
        if microseconds.isdecimal() and whom == str(os.getpid()):
            # sd_watchdog_enabled(3) recommends half of the time.
            self._pause = int(microseconds) / 2e6

    def alone(self) -> None:
        """Keep the processes that this one starts from notifying the manager."""
        self._environment.pop(SOCKET, None)

    def ready(self) -> None:
        """Report that requests are answered."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Report that the process ends."""
        self._send("STOPPING=1")

    def reload_begins(self) -> None:
        """Report that the settings are being read again, until it is `ready`."""
        moment = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={moment}")

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Report the begin and the end of a reload."""
        self.reload_begins()
        try:
            yield
        finally:
            self.ready()

    def beat(self) -> None:
        """Report that the process is alive, as often as its watchdog asks for it."""
        if self._pause is not None and self._clock() >= self._due:
            self._due = self._clock() + self._pause
            self._send("WATCHDOG=1")

    def _send(self, *assignments: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                # It is read at once; if not, the service does not stand still for it.
                sender.settimeout(1.0)
                sender.sendto("\n".join(assignments).encode(), self._address)
        except OSError as error:
            manager_log.warning("%s cannot be notified: %s", self._address, error)
