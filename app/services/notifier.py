"""Notifier: the thread that notifies other processes of commits, and hears of theirs.

A worker that has committed feedback notifies the others on a connection of its own, and
they follow the ledger at once.  Correctness does not depend on it: if the connection is
lost, or there is a pooler in between, the maintenance finds the rows within
half a second.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Final

from app.errors import DatabaseUnavailable
from app.services.log import SparingLog
from app.storage.database.engine import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Engine

    from app.storage.database.postgresql import CommitListener

log = logging.getLogger(__name__)
# Least seconds between two looks: with continuous feedback, every other process would
# otherwise look after each commit.
PAUSE: Final = 0.05
# Seconds after which what has failed is tried again.
RETRY: Final = 5.0


class Notifier(threading.Thread):
    """The thread that notifies of commits, and follows when others notify."""

    def __init__(self, engine: Engine, follow: Callable[[], object]) -> None:
        super().__init__(name="notifier", daemon=True)
        self._engine = engine
        self._follow = follow
        self._follow_at = 0.0
        self._notified = False
        self._stopping = threading.Event()
        self._wake_write: socket.socket | None = None
        # A traceback at each try would bury the rest of the log.
        self._log = SparingLog(log)

    def start(self) -> None:
        """Start the thread."""
        # Sockets instead of a pipe: a thread that notifies after the end gets an error,
        # and cannot write into a file opened since.
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        super().start()

    def stop(self) -> None:
        """End the thread; idempotent."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.notify()
        self.join()
        self._wake_read.close()
        if self._wake_write is not None:
            self._wake_write.close()

    def notify(self) -> None:
        """Have the other processes notified of a commit, without waiting."""
        # Nothing was committed before the start.
        if self._wake_write is None:
            return
        # A full socket wakes the thread anyway, and a closed one has no thread to wake.
        with suppress(OSError):
            self._wake_write.send(b"\0")

    def run(self) -> None:
        """Listen and notify, and connect again where the connection is lost."""
        while not self._stopping.is_set():
            with self._going_on(), listening(self._engine) as listener:
                self._attend(listener)
            self._stopping.wait(RETRY)

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Log what fails in the block, and go on after it."""
        try:
            yield
        except DatabaseUnavailable as error:
            # The maintenance logs it as a warning.
            log.debug("no notifications from other workers: %s", error)
        except Exception as error:  # noqa: BLE001  the thread must go on
            self._log.error(
                "notifications between workers failed; changes of other workers "
                "arrive later, by maintenance",
                exc_info=error,
            )

    def _attend(self, listener: CommitListener) -> None:
        """Listen and notify until the end, or until the connection is lost."""
        # Commits before now were not heard.
        self._notified = True
        while True:
            woken = self._woken()
            # Checked after reading the socket: `stop` sets the event before it writes,
            # so this thread cannot miss the event and sleep on an emptied socket.
            if self._stopping.is_set():
                return
            if woken:
                listener.notify()
            self._notified |= listener.heard()
            wait([listener.fileno(), self._wake_read], self._follow_if_due())

    def _woken(self) -> bool:
        """Return whether this process has a commit to notify of."""
        with suppress(BlockingIOError):
            return bool(self._wake_read.recv(4096))
        return False

    def _follow_if_due(self) -> float | None:
        """Follow if others notified; return the seconds to wait, or None for ever."""
        if not self._notified:
            return None
        wait = self._follow_at - time.monotonic()
        if wait > 0:
            return wait
        wait = RETRY
        # The connection is sound, whatever fails here.
        with self._going_on():
            self._follow()
            self._notified, wait = False, PAUSE
        self._follow_at = time.monotonic() + wait
        return 0.0
