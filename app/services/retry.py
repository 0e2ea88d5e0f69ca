"""Retry: growing pauses, and an error logged once."""

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


# What has not gone wrong for so long is news again.  An outage that lasts is told of by
# the house-keeping, whenever it begins.  Unit: seconds.
SPELL: Final = 60.0


class News:
    """Remembers what went wrong last, for each thing that may go wrong.

    Examples
    --------
    >>> news = News()
    >>> [news.tell("disk", error) for error in ("full", "full", "gone")]
    [True, False, True]
    >>> news.over("disk"), news.over("disk")
    (True, False)
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, str] = {}

    def tell(self, what: Hashable, error: object) -> bool:
        """Return whether an error is another than the last one of that thing."""
        said = str(error)
        known = self._last.get(what) == said
        self._last[what] = said
        return not known

    def over(self, what: Hashable) -> bool:
        """Note that it goes well again, and return whether it did not before."""
        return self._last.pop(what, None) is not None


class Spells:
    """Remembers when each thing went wrong last; a spell of it is news once.

    For what goes wrong here and goes well there at the same time, of which nobody
    could say when it is over.

    Examples
    --------
    >>> spells = Spells()
    >>> [spells.begins(what) for what in ("disk", "disk", "net", "disk")]
    [True, False, True, False]
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, float] = {}

    def begins(self, what: Hashable) -> bool:
        """Note that something goes wrong, and return whether it did not lately."""
        now = time.monotonic()
        last = self._last.get(what)
        self._last[what] = now
        return last is None or now - last >= SPELL
