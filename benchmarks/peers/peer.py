"""Peer: the interface of every filter, to score a message and then learn it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from scipy.special import expit


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
    probability : float
        That the message is spam, as it tells its users; one half where it says
        nothing.
    """

    score: float
    fine: float
    spam: bool
    probability: float

    @classmethod
    def by_probability(cls, probability: float, fine: float, *, spam: bool) -> Said:
        """Return what a filter says whose score is a probability."""
        return cls(probability, fine, spam, probability)

    @classmethod
    def by_log_odds(cls, log_odds: float) -> Said:
        """Return what a filter says that decides by what is more probable."""
        return cls(log_odds, 0.0, log_odds > 0, float(expit(log_odds)))


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
