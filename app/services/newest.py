"""What was put last? Entries by key, as many and as heavy as the limits allow."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Key = TypeVar("Key")
Value = TypeVar("Value")


class Newest(Generic[Key, Value]):
    """Entries, of which the oldest go when there are too many.

    One thread at a time may change it; any may `get` meanwhile.

    Parameters
    ----------
    most : int
        Entries at most.
    weigh : callable
        Returns the weight of a value, the same at each call.
    heaviest : int
        Weight of all entries together, at most.

    Examples
    --------
    >>> newest = Newest(most=9, weigh=len, heaviest=5)
    >>> for key, value in ("a", "xxx"), ("b", "yy"), ("c", "z"):
    ...     newest.put(key, value)
    >>> newest.items()
    [('b', 'yy'), ('c', 'z')]
    """

    def __init__(
        self, *, most: int, weigh: Callable[[Value], int], heaviest: int
    ) -> None:
        self._most = most
        self._weigh = weigh
        self._heaviest = heaviest
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._weight = 0

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, or None."""
        return self._entries.get(key)

    def items(self) -> list[tuple[Key, Value]]:
        """Return all entries, oldest first."""
        return [*self._entries.items()]

    def put(self, key: Key, value: Value) -> None:
        """Add an entry, in place of one with that key, as the newest."""
        self.drop(key)
        self._entries[key] = value
        self._weight += self._weigh(value)
        while len(self._entries) > self._most or self._weight > self._heaviest:
            _, oldest = self._entries.popitem(last=False)
            self._weight -= self._weigh(oldest)

    def drop(self, key: Key) -> None:
        """Let go of an entry, if it is there."""
        value = self._entries.pop(key, None)
        if value is not None:
            self._weight -= self._weigh(value)
