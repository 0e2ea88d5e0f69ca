"""What is asked of every filter: score a message, then learn it."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Said(NamedTuple):
    """What a filter says of a message.

    Parameters
    ----------
    score : float
        Its own score; more is more like spam.
    fine : float
        Breaks ties of scores that saturate near 0 and 1, where the filter tells
        something finer; else 0.
    spam : bool
        Its own verdict; unsure is not spam.
    """

    score: float
    fine: float
    spam: bool


NOTHING_KNOWN = Said(0.5, 0.0, spam=False)
"""What is said for a filter that cannot be asked before it has learned."""


class Peer(Protocol):
    """A filter that begins with nothing."""

    def score(self, raw: bytes, /) -> Said:
        """Return what it says, and learn nothing."""
        ...

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Learn a message."""
        ...

    def close(self) -> None:
        """Stop what was started."""
        ...
