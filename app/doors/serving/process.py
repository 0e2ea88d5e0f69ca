"""Process: signals, end of the parent, and the service manager.

At a stop, the server of the main door first answers its running requests, which may
take as long as slow clients need; the other doors get the signal before that.

A parent restarts its workers and passes on the signal to stop.  If workers outlived a
killed parent, nothing would stop them, and a new service would find the port taken. A
worker therefore ends with its parent.

Contract of this file: one datagram for each notification, and no failure of a manager
ends a service (sd_notify(3)).  Only the process that systemd started may notify it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import threading
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread

from app.services.log import SparingLog

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Iterator,
        Mapping,
        MutableMapping,
    )
    from contextlib import AbstractContextManager

ENDING: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask the process to end."""


def allow_files(number: int) -> None:
    """Let the process open as many files, as far as the system permits.

    Most systems allow 1,024 at first, for the sake of programs that use select(2), and
    many more on request.  A connection that finds no descriptor is closed unanswered,
    and uvloop logs nothing of it, so a lower limit is logged here.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if most > soft != resource.RLIM_INFINITY:
        # A filter of system calls, as that of our unit, may forbid it.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < number:
        log.warning(
            "the process may open %d files, where %d are enough for the connections of "
            "all doors: those beyond are closed unanswered. Raise the limit "
            "(`LimitNOFILE=` of systemd, `ulimit -Hn`)",
            most,
            number,
        )


@contextmanager
def _handled(handlers: Mapping[signal.Signals, Callable[..., Any]]) -> Iterator[None]:
    """Handle some signals; elsewhere than in the main thread, there are none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {number: signal.signal(number, each) for number, each in handlers.items()}
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def handling_signals(notify: Callable[[], object]) -> AbstractContextManager[None]:
    """Call a function in the running loop on a signal that ends the process.

    The previous handler of the signal is called too.
    """
    loop, usual = asyncio.get_running_loop(), {n: signal.getsignal(n) for n in ENDING}
    # The default handler cannot be called, and must still end the process.
    called: dict[int, Any] = {n: each for n, each in usual.items() if callable(each)}

    def handle(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(notify)
        called[number](number, frame)

    return _handled({n: handle for n in ENDING if n in called})


def ending_at_once() -> AbstractContextManager[None]:
    """Let a signal end the process at once, while there is no work to finish.

    A server that is starting would note it, and start to the end.
    """
    return _handled(dict.fromkeys(ENDING, _end))


def _end(number: int, _frame: object) -> None:
    """End the process by a signal."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    # Linux keeps process 1 of a container from dying of it.
    os._exit(128 + number)


# A SIGHUP that came too early to act on it.
_EARLY: Final = threading.Event()


def remember_reload() -> None:
    """Remember a SIGHUP for `reloading`, instead of dying from it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, lambda *_: _EARLY.set())


@asynccontextmanager
async def reloading(reload: Callable[[], object]) -> AsyncIterator[None]:
    """Call a function in a thread for each SIGHUP, one after the other."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    with _handled({signal.SIGHUP: lambda *_: loop.call_soon_threadsafe(asked.set)}):
        if _EARLY.is_set():
            _EARLY.clear()
            asked.set()
        task = asyncio.create_task(_reload(asked, reload))
        try:
            yield
        finally:
            task.cancel()
            # Let a running reload finish.
            await asyncio.wait([task])


async def _reload(event: asyncio.Event, reload: Callable[[], object]) -> None:
    while True:
        await event.wait()
        event.clear()
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
