"""Clock: current time, steady time, pauses between retries, and rates."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from app.errors import DatabaseDamaged, DatabaseUnavailable
from app.storage.retention import ClockMark

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

JUMP: Final = timedelta(days=27)
"""A jump ahead by more than this is not believed at once.

The usual slips, a wrong month and a day taken for the month, are jumps by 28 days or
more, and would drop the whole history of 30 days.  A filter in use is asked every day.
"""
PROOF: Final = timedelta(days=1)
"""A clock that has been ahead for this long is believed: an error would be noticed."""

log = logging.getLogger(__name__)


def now() -> datetime:
    """Return the time now, in UTC."""
    return datetime.now(UTC)


class SteadyClock:
    """The time by which mail ages: a jump ahead counts after `PROOF`.

    Old data, once dropped, cannot be restored, so a wrong clock must not cause that
    while somebody can still correct it.

    Parameters
    ----------
    mark : ClockMark or None
        The `mark` of an earlier process; None if there was none.
    clock : callable
        Returns the time of the system.
    monotonic : callable
        Returns a time that only grows.  Unit: seconds.

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
        mark: ClockMark | None,
        clock: Callable[[], datetime] = now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._told, self._ran = told, ran = clock(), monotonic()
        used, since = mark or (told, told)
        self._believed, self._believed_at = min(used, told), ran
        # The pauses between processes count too, so that restarts delay no proof.
        steady = abs(told - max(used, since)) <= JUMP
        lasted = max(told - since, timedelta()) if steady else timedelta()
        self._started = ran - lasted.total_seconds()
        self._ahead = steady and since > used

    def __call__(self) -> datetime:
        """Return the time."""
        with self._lock:
            self._told, self._ran = told, ran = self._clock(), self._monotonic()
            expected = self._believed + timedelta(seconds=ran - self._believed_at)
            if told - expected <= JUMP:
                if self._ahead:
                    log.info("the clock shows the expected time again")
            elif not self._ahead:
                self._ahead, self._started = True, ran
                log.warning(
                    "the clock shows %s, %d days after this service was last used, so "
                    "nothing is deleted for its age for a day. Correct the clock, "
                    "unless the service was not used for so long",
                    f"{told:%Y-%m-%d}",
                    (told - expected).days,
                )
                return expected
            elif ran - self._started < PROOF.total_seconds():
                return expected
            if expected - told > JUMP:
                self._started = ran
            self._believed, self._believed_at, self._ahead = told, ran, False
            return told

    @property
    def proven(self) -> bool:
        """Whether the time is believed, and the last jump was a `PROOF` ago."""
        ran = self._monotonic() - self._started
        return not self._ahead and ran >= PROOF.total_seconds()

    @property
    def mark(self) -> ClockMark:
        """What the last call has found, for a later process."""
        with self._lock:
            since = self._told - timedelta(seconds=self._ran - self._started)
            return ClockMark(self._believed, since)


PROBE: Final = 5.0
"""Seconds between attempts to write again after a failed write."""
FIRST: Final = 1.0
LONGEST: Final = 60.0
"""Longest time until an operator's repair is noticed.  Unit: seconds."""
MOST_ERRORS: Final = 16
"""Errors of one failure that are remembered.

With a `transaction_timeout` that is too short, or a full disk, the steps of the
maintenance fail with several sentences in turn, and each step would be logged.
"""


class _Failure(NamedTuple):
    errors: tuple[str, ...]
    pause: float
    due: float


class Failures:
    """Remembers failures: the errors of each, and when to try again.

    Parameters
    ----------
    clock : callable
        Returns a time that only grows.  Unit: seconds.

    Examples
    --------
    >>> now = [0.0]
    >>> failures = Failures(lambda: now[0])
    >>> [failures.report("disk", error) for error in ("full", "gone", "full")]
    [True, True, False]
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
        """Note an error; return whether the key's last ones differ from it."""
        last, text = self._last.get(key, _Failure((), 0.0, 0.0)), str(error)
        pause = min(LONGEST, 2 * last.pause or FIRST)
        new = text not in last.errors
        errors = (*last.errors, text)[-MOST_ERRORS:] if new else last.errors
        self._last[key] = _Failure(errors, pause, self._clock() + pause)
        return new

    def pausing(self, key: Hashable) -> bool:
        """Return whether it is too early to try a thing again."""
        # Another thread may resolve it meanwhile.
        last = self._last.get(key)
        return last is not None and self._clock() < last.due

    def unpause(self, key: Hashable) -> None:
        """End the pause of a thing; the same errors are still not logged again."""
        last = self._last.get(key)
        if last is not None:
            self._last[key] = _Failure(last.errors, 0.0, 0.0)

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
        """Note an error, unless the request caused it."""
        if isinstance(error, MemoryError):
            # No other write shows whether there is enough memory for a lesson.
            self._due = math.inf
            self.failure = (
                "not enough memory is left for learning; raise the memory limit, or "
                "restart the service"
            )
        elif isinstance(error, (DatabaseUnavailable, DatabaseDamaged)):
            self._due = time.monotonic() + PROBE
            self.failure = str(error)

    def succeeded(self) -> None:
        """Note that something was stored."""
        self.failure = None

    @property
    def due(self) -> bool:
        """Whether it is time to try a write again."""
        return self.failure is not None and time.monotonic() >= self._due


MOST_CLIENTS: Final = 10_000
"""Most clients of `Buckets` that are remembered, some 200 bytes each.

The least recent client is forgotten first, and starts again with a full bucket.
"""


@dataclass(eq=False)
class Buckets:
    """A token bucket for each client; any thread may take tokens.

    Parameters
    ----------
    rate : float
        Rate at which tokens are added.  Unit: 1/s.
    burst : float
        Tokens in a full bucket.
    clock : callable
        Returns a time that only grows.  Unit: seconds.
    most : int
        Most remembered clients.

    Examples
    --------
    >>> buckets = Buckets(0.5, 2, clock=lambda: 0.0)
    >>> [buckets.take("192.0.2.1") for _ in range(3)]
    [0.0, 0.0, 2.0]
    """

    rate: float
    burst: float
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic
    most: int = MOST_CLIENTS

    def __post_init__(self) -> None:
        """Begin without clients."""
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of remembered clients."""
        return len(self._held)

    def take(self, client: str) -> float:
        """Take a token and return 0, or return the time until there is one."""
        with self._lock:
            now = self.clock()
            before, at = self._held.pop(client, (self.burst, now))
            if len(self._held) >= self.most:
                self._held.popitem(last=False)
            tokens = min(self.burst, before + self.rate * (now - at))
            wait = max(0.0, (1.0 - tokens) / self.rate)
            # As the latest client, so that the least recent one is first.
            self._held[client] = (tokens if wait else tokens - 1.0, now)
            return wait
