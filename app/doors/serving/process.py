"""Process: signals, end of the parent, worker threads, and the service manager.

At a stop, the server of the main door first answers its running requests, which may
take as long as slow clients need; the other doors get the signal before that.

A parent restarts its workers and passes on the signal to stop.  If workers outlived a
killed parent, nothing would stop them, and a new service would find the port taken. A
worker therefore ends with its parent.

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
from dataclasses import dataclass, field
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

ENDING: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask the process to end."""


@contextmanager
def handling_signals(notify: Callable[[], object]) -> Iterator[None]:
    """Call a function in the running loop on a signal that ends the process.

    The previous handler of the signal is called too.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can handle signals; elsewhere there are none to handle.
        yield
        return
    loop = asyncio.get_running_loop()
    usual: dict[signal.Signals, Any] = {}

    def handle(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(notify)
        usual[signal.Signals(number)](number, frame)

    for number in ENDING:
        handler = signal.getsignal(number)
        # The default handler cannot be called, and must still end the process.
        if callable(handler):
            usual[number] = handler
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


# A SIGHUP that came too early to act on it.
_EARLY: Final = threading.Event()


def remember_reload() -> None:
    """Remember a SIGHUP for `reloading`, instead of dying from it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, lambda *_: _EARLY.set())


@asynccontextmanager
async def reloading(reload: Callable[[], object]) -> AsyncIterator[None]:
    """Call a function in a thread for each SIGHUP, one after the other."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can handle signals.
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
        # Let a running reload finish.
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


@contextmanager
def ending_with_its_parent() -> Iterator[None]:
    """End this process gracefully when the process that started it is gone."""
    # Not the parent of the operating system, which is the fork server of the workers.
    parent = parent_process()
    if parent is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(parent.sentinel)
        log.error("the parent process of this worker has died, so the worker stops")
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(parent.sentinel, end)
    try:
        yield
    finally:
        loop.remove_reader(parent.sentinel)


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


SOCKET: Final = "NOTIFY_SOCKET"
manager_log = SparingLog(logging.getLogger(__name__))


@dataclass(eq=False)
class ServiceManager:
    """The service manager that started this process; without one nothing is sent."""

    environment: MutableMapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        """Read how the manager is reached."""
        environment = self.environment
        # The first byte of an abstract address is NUL.
        name = environment.get(SOCKET, "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self._due = self.clock()
        self._pause: float | None = None
        whom = environment.get("WATCHDOG_PID", str(os.getpid()))
        microseconds = environment.get("WATCHDOG_USEC", "")
        if microseconds.isdecimal() and whom == str(os.getpid()):
            # sd_watchdog_enabled(3) recommends half of the interval.
            self._pause = int(microseconds) / 2e6

    def alone(self) -> None:
        """Prevent child processes from notifying the manager."""
        self.environment.pop(SOCKET, None)

    def ready(self) -> None:
        """Report that the service is ready."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Report that the process is stopping."""
        self._send("STOPPING=1")

    def reload_begins(self) -> None:
        """Report that a reload has begun; `ready` ends it."""
        moment = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={moment}")

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Report the start and the end of a reload."""
        self.reload_begins()
        try:
            yield
        finally:
            self.ready()

    def beat(self) -> None:
        """Report that the process is alive, as often as the watchdog requires."""
        if self._pause is not None and self.clock() >= self._due:
            self._due = self.clock() + self._pause
            self._send("WATCHDOG=1")

    def _send(self, *assignments: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                # The manager reads at once; if it does not, the service must not block.
                sender.settimeout(1.0)
                sender.sendto("\n".join(assignments).encode(), self._address)
        except OSError as error:
            manager_log.warning("%s cannot be notified: %s", self._address, error)
