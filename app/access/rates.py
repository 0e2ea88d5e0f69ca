"""Rates: token buckets in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MOST: Final = 10_000
"""Clients that are remembered, some 200 bytes each.

The one that has asked longest ago is forgotten first, and begins with a full bucket.
"""


class Buckets:
    """A bucket of tokens for each client: it holds some, and is filled at a rate.

    Parameters
    ----------
    rate : float
        Tokens that come in.  Unit: 1/s.
    burst : float
        Tokens of a full bucket.
    clock : callable
        Returns the time, which does not go back.  Unit: seconds.
    most : int
        Clients that are remembered.

    Examples
    --------
    >>> buckets = Buckets(0.5, 2, clock=lambda: 0.0)
    >>> [buckets.take("192.0.2.1") for _ in range(3)]
    [0.0, 0.0, 2.0]
    """

    def __init__(
        self,
        rate: float,
        burst: float,
        *,
        clock: Callable[[], float],
        most: int = MOST,
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._most = most
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many clients are remembered."""
        return len(self._held)

    def take(self, client: str) -> float:
        """Take a token; return 0, or how long it takes until there is one again."""
        now = self._clock()
        held = self._held.get(client)
        if held is None:
            tokens = self._burst
            if len(self._held) >= self._most:
                self._held.popitem(last=False)
        else:
            before, at = held
            tokens = min(self._burst, before + self._rate * (now - at))
            self._held.move_to_end(client)
        if tokens < 1.0:
            self._held[client] = (tokens, now)
            return (1.0 - tokens) / self._rate
        self._held[client] = (tokens - 1.0, now)
        return 0.0
