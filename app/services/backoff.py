"""When is what failed tried again? A second later, and then twice as long each time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

FIRST: Final = 1.0
LONGEST: Final = 60.0
"""What an operator mends is noticed after so long at most.  Unit: seconds."""


class Backoff:
    """Remembers what failed, and for how long it is left alone.

    Parameters
    ----------
    clock : callable
        Returns a time that only grows. Unit: seconds.

    Examples
    --------
    >>> now = [0.0]
    >>> backoff = Backoff(lambda: now[0])
    >>> backoff.failed("disk")
    >>> backoff.waits("disk"), backoff.waits("net")
    (True, False)
    >>> now[0] = 1.0
    >>> backoff.waits("disk")
    False
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits: dict[Hashable, tuple[float, float]] = {}

    def failed(self, what: Hashable) -> None:
        """Note that something failed, perhaps once more."""
        _, before = self._waits.get(what, (0.0, 0.0))
        wait = min(LONGEST, 2 * before or FIRST)
        self._waits[what] = self._clock() + wait, wait

    def waits(self, what: Hashable) -> bool:
        """Return whether it is too early to try something again."""
        return what in self._waits and self._clock() < self._waits[what][0]

    def over(self, what: Hashable) -> None:
        """Note that something goes well."""
        self._waits.pop(what, None)
