"""When is house kept? In a thread beside the writer, mostly while it rests.

A step of house-keeping reads and sums without a lock, and holds the write lock
of SQLite for some ten milliseconds at the end.  Feedback that never pauses would
meet that again and again, so then the next step waits: for as long as the one before
said, and for an interval at most.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from app.errors import Inconsistent, Unavailable
from app.services.news import News
from app.services.pace import PAUSE
from app.storage import turn

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

# Seconds between two looks at what other processes have learned.
INTERVAL: Final = 0.5


class Keeper:
    """The thread that keeps house.

    Parameters
    ----------
    upkeep : callable
        One short step of house-keeping; returns 0 if nothing is left to be done, else
        for how long the next step may wait for a pause.  Unit: seconds.
    idle : callable
        Returns for how long nobody has taught anything. Unit: seconds.
    """

    def __init__(
        self, upkeep: Callable[[], float], idle: Callable[[], float] = lambda: PAUSE
    ) -> None:
        self._upkeep = upkeep
        self._idle = idle
        self._news = News()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Finish the step that is under way, and end the thread."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            patience = self._step()
            due = time.monotonic() + min(patience or INTERVAL, INTERVAL)
            while (left := due - time.monotonic()) > 0:
                if self._stopping.wait(min(turn.PAUSE, left) if patience else left):
                    return
                if patience and self._idle() >= PAUSE:
                    break

    def _step(self) -> float:
        try:
            patience = self._upkeep()
        except (Unavailable, Inconsistent) as error:
            # Two lines a second would bury what else is logged that night.
            if self._news.tell("upkeep", error):
                broken = isinstance(error, Inconsistent)
                level = logging.ERROR if broken else logging.WARNING
                log.log(level, "upkeep waits for the database: %s", error)
            return 0.0
        except Exception:  # the thread's outermost loop: it must go on
            log.exception("upkeep failed; scoring and feedback go on")
            return 0.0
        if self._news.over("upkeep"):
            log.info("the database is back")
        return patience
