"""Clock: the time now, and a time that does not jump ahead."""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

JUMP: Final = timedelta(days=90)
"""A clock that is ahead by more than that is not believed at once.

Half of the 180 days for which feedback can be undone, so that a wrong clock never
costs more than that half.  A filter that is in use is asked every day.
"""
PROOF: Final = timedelta(days=1)
"""A clock that has run on for so long is right: somebody would have noticed."""

log = logging.getLogger(__name__)


def now() -> datetime:
    """Return the time now, in UTC."""
    return datetime.now(UTC)


class SteadyClock:
    """The time by which mail ages: a jump ahead counts after `PROOF`.

    What is dropped for its age cannot be brought back: a wrong clock must not do that
    while somebody can correct it.

    Parameters
    ----------
    used : datetime or None
        When the service was used last, as far as that is proven; None if never.
    clock : callable
        Returns the time of the system.
    monotonic : callable
        Returns a time that only grows, by the second.

    Examples
    --------
    >>> wall, ran = [datetime(2026, 3, 1, tzinfo=UTC)], [0.0]
    >>> clock = SteadyClock(None, lambda: wall[0], lambda: ran[0])
    >>> wall[0] = datetime(2100, 1, 1, tzinfo=UTC)
    >>> clock().year
    2026
    >>> ran[0] = 86_400.0
    >>> clock().year
    2100
    """

    def __init__(
        self,
        used: datetime | None,
        clock: Callable[[], datetime] = now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._believed = min(used or clock(), clock())
        self._since = monotonic()
        self._jumped: float | None = None

    def __call__(self) -> datetime:
        """Return the time."""
        with self._lock:
            told, ran = self._clock(), self._monotonic()
            expected = self._believed + timedelta(seconds=ran - self._since)
            if told - expected <= JUMP:
                if self._jumped is not None:
                    log.info("the clock is as expected again")
            elif self._jumped is None:
                self._jumped = ran
                log.warning(
                    "the clock says %s, %d days after this service was used last: for "
                    "a day nothing more is dropped for its age. Correct the clock, "
                    "unless the service was not used for so long",
                    f"{told:%Y-%m-%d}",
                    (told - expected).days,
                )
                return expected
            elif ran - self._jumped < PROOF.total_seconds():
                return expected
            self._believed, self._since, self._jumped = told, ran, None
            return told
