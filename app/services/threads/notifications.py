"""Notifications between workers, by LISTEN and NOTIFY of PostgreSQL.

PostgreSQL tells them: LISTEN and NOTIFY, on a connection of its own.  Whoever has
committed feedback rings, and the others follow the ledger at once.  Nothing depends
on it.  What nobody heard, because a connection was lost or a pooler between does
not pass it on, the house-keeping finds within half a second.
"""

from __future__ import annotations

import logging
import os
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

    from app.storage.database.dialect import Listener

log = logging.getLogger(__name__)
# Seconds between two looks, however often it rings: feedback that never pauses
# would have every other process look after each commit.
PAUSE: Final = 0.05
# Seconds after which a lost connection is tried again.
RETRY: Final = 5.0


class Bell:
    """The thread that rings after commits, and follows when others ring.

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
        self._heard = False
        self._stopping = threading.Event()
        self._hand, self._rope = os.pipe()
        os.set_blocking(self._hand, False)
        os.set_blocking(self._rope, False)
        self._thread = threading.Thread(target=self._run, name="bell", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a second time does nothing."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.ring()
        self._thread.join()
        os.close(self._hand)
        os.close(self._rope)

    def ring(self) -> None:
        """Have the others told that something was committed; waits for nothing."""
        # A full pipe has rung already.
        with suppress(BlockingIOError):
            os.write(self._rope, b"\0")

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with listening(self._engine) as listener:
                    self._attend(listener)
            except DatabaseUnavailable as error:
                # The house-keeping says so, at the level of a warning.
                log.debug("not told of what others learn: %s", error)
            except Exception:  # the thread's outermost loop: it must go on
                log.exception("not told of what others learn; it is looked for")
            self._stopping.wait(RETRY)

    def _attend(self, listener: Listener) -> None:
        """Listen and ring until the end, or until the connection is lost."""
        # Nobody listened before.
        self._heard = True
        with DefaultSelector() as selector:
            selector.register(listener, EVENT_READ)
            selector.register(self._hand, EVENT_READ)
            while True:
                pulled = self._pulled()
                # Looked at after the rope: whoever stops it says so first and pulls
                # then, so that it is not waited for with a rope that was pulled.
                if self._stopping.is_set():
                    return
                if pulled:
                    listener.notify()
                self._heard |= listener.heard()
                selector.select(self._follow_if_due())

    def _pulled(self) -> bool:
        """Tell whether this process rang since the last look."""
        with suppress(BlockingIOError):
            return bool(os.read(self._hand, 4096))
        return False

    def _follow_if_due(self) -> float | None:
        """Follow if others rang; return the seconds to wait, None until they ring."""
        if not self._heard:
            return None
        wait = self._follow_at - time.monotonic()
        if wait > 0:
            return wait
        self._heard = False
        self._follow()
        self._follow_at = time.monotonic() + PAUSE
        return 0.0
