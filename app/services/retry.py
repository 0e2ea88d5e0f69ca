"""Retry: failures that are logged once and tried again after growing pauses."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from app.errors import DatabaseDamaged, DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

PROBE: Final = 5.0
"""After a failed write it is tried so often whether there is room again."""
FIRST: Final = 1.0
LONGEST: Final = 60.0
"""The repair of an operator is noticed after so long at most.  Unit: seconds."""
# An error that has not come back for so long is logged again.  An outage that lasts is
# logged by the maintenance, whenever it begins.  Unit: seconds.
QUIET: Final = 60.0


class _Failure(NamedTuple):
    error: str
    pause: float
    due: float


class Failures:
    """Remembers the things that fail: their errors, and when to try them again.

    Parameters
    ----------
    clock : callable
        Returns a time that only grows.  Unit: seconds.

    Examples
    --------
    >>> now = [0.0]
    >>> failures = Failures(lambda: now[0])
    >>> [failures.report("disk", error) for error in ("full", "full", "gone")]
    [True, False, True]
    >>> failures.pausing("disk"), failures.pausing("net")
    (True, False)
    >>> now[0] = 7.0
    >>> failures.pausing("disk")
    False
    >>> failures.resolve("disk"), failures.resolve("disk")
    (True, False)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[Hashable, _Failure] = {}

    def report(self, key: Hashable, error: object) -> bool:
        """Note an error; return whether it is another than the last one of the key."""
        last, text = self._last.get(key), str(error)
        pause = min(LONGEST, 2 * last.pause or FIRST) if last else FIRST
        self._last[key] = _Failure(text, pause, self._clock() + pause)
        return last is None or last.error != text

    def pausing(self, key: Hashable) -> bool:
        """Return whether it is too early to try a thing again."""
        return key in self._last and self._clock() < self._last[key].due

    def unpause(self, key: Hashable) -> None:
        """End the pause of a thing; the same error is still not logged again."""
        if key in self._last:
            self._last[key] = _Failure(self._last[key].error, 0.0, 0.0)

    def resolve(self, key: Hashable) -> bool:
        """Note that a thing works; return whether it failed before."""
        return self._last.pop(key, None) is not None


class WriteHealth:
    """Whether what this process wrote last is stored.

    Examples
    --------
    >>> health = WriteHealth()
    >>> health.failed(DatabaseUnavailable("the disk is full"))
    >>> health.failure
    'the disk is full'
    >>> health.succeeded()
    >>> health.failure is None
    True
    """

    def __init__(self) -> None:
        self.failure: str | None = None
        self._due = 0.0

    def failed(self, error: BaseException) -> None:
        """Note an error, where it is not one of the request."""
        if isinstance(error, MemoryError):
            # No write of ours tells whether there is enough for a feedback.
            self._due = math.inf
            self.failure = (
                "there is no memory left to learn with: raise its limit, or restart"
            )
        elif isinstance(error, (DatabaseUnavailable, DatabaseDamaged)):
            self._due = time.monotonic() + PROBE
            self.failure = str(error)

    def succeeded(self) -> None:
        """Note that something was stored."""
        self.failure = None

    @property
    def due(self) -> bool:
        """Whether it is time to try whether it can be written again."""
        return self.failure is not None and time.monotonic() >= self._due


class LogLimit:
    """Lets the first error of a kind be logged, and others after `QUIET` seconds.

    For work that fails here and succeeds there at the same time, so that no success
    ends the failure.

    Examples
    --------
    >>> limit = LogLimit()
    >>> [limit.allows(kind) for kind in ("disk", "disk", "net", "disk")]
    [True, False, True, False]
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, float] = {}

    def allows(self, kind: Hashable) -> bool:
        """Note an error of a kind; return whether it may be logged."""
        now, last = time.monotonic(), self._last.get(kind)
        self._last[kind] = now
        return last is None or now - last >= QUIET
