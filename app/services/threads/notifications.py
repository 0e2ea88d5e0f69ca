"""Notifications between workers, by LISTEN and NOTIFY of PostgreSQL.

A worker that has committed feedback notifies the others on a connection of its own,
and they follow the ledger at once.  Nothing depends on it: where a connection was lost,
or a pooler in between does not pass notifications on, the maintenance finds the rows
within half a second.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING, Final

from app.errors import DatabaseUnavailable
from app.storage.database.engine import listening

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Engine

    from app.storage.database.dialect import CommitListener

log = logging.getLogger(__name__)
# Seconds between two looks, however many notifications come: feedback that never pauses
# would have every other process look after each commit.
PAUSE: Final = 0.05
# Seconds after which a lost connection is tried again.
RETRY: Final = 5.0


class Notifier:
    """The thread that notifies of commits, and follows when others notify.

    Parameters
    ----------
    engine : Engine
        A PostgreSQL database.
    follow : callable
        Adds what any process has learned to memory.
    """

    def __init__(self, engine: Engine, follow: Callable[[], object]) -> None:
        self._engine = engine
        self._follow = follow
        self._follow_at = 0.0
        self._notified = False
        self._stopping = threading.Event()
        self._wake_write: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        # Sockets, not a pipe: a thread that notifies after the end gets an error, and
        # does not write into whatever was opened since.
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a second time does nothing."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.notify()
        self._thread.join()
        self._wake_read.close()
        if self._wake_write is not None:
            self._wake_write.close()

    def notify(self) -> None:
        """Have the others notified of a commit; does not wait."""
        # Before the start nothing was committed here.
        if self._wake_write is None:
            return
        # A full socket wakes the thread anyway, and a closed one has none to wake.
        with suppress(OSError):
            self._wake_write.send(b"\0")

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with listening(self._engine) as listener:
                    self._attend(listener)
            except DatabaseUnavailable as error:
                # The maintenance logs it as a warning.
                log.debug("no notifications of other workers: %s", error)
            except Exception:  # the thread's outermost loop: it must go on
                log.exception(
                    "no notifications of other workers; the maintenance goes on"
                )
            self._stopping.wait(RETRY)

    def _attend(self, listener: CommitListener) -> None:
        """Listen and notify until the end, or until the connection is lost."""
        # Until now nobody listened.
        self._notified = True
        with DefaultSelector() as selector:
            selector.register(listener, EVENT_READ)
            selector.register(self._wake_read, EVENT_READ)
            while True:
                woken = self._woken()
                # Read after the socket: `stop` sets the event first and writes then, so
                # that this thread does not sleep on a socket that it has emptied.
                if self._stopping.is_set():
                    return
                if woken:
                    listener.notify()
                self._notified |= listener.heard()
                selector.select(self._follow_if_due())

    def _woken(self) -> bool:
        """Return whether this process has something to notify of."""
        with suppress(BlockingIOError):
            return bool(self._wake_read.recv(4096))
        return False

    def _follow_if_due(self) -> float | None:
        """Follow if others notified; return the seconds to wait, None for ever."""
        if not self._notified:
            return None
        wait = self._follow_at - time.monotonic()
        if wait > 0:
            return wait
        self._notified = False
        self._follow()
        self._follow_at = time.monotonic() + PAUSE
        return 0.0
