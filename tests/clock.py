"""A clock that goes on only when it is told to."""

from __future__ import annotations


class Clock:
    """Stands in for the module `time`, and notes how long was slept.

    Attributes
    ----------
    now : float
        Seconds.
    pauses : list of float
        The sleeps, without those of no length.
    """

    def __init__(self):
        self.now = 1000.0
        self.pauses = []

    def monotonic(self):
        """Return the time."""
        return self.now

    def sleep(self, seconds):
        """Go on at once."""
        self.now += seconds
        if seconds:
            self.pauses.append(round(seconds, 6))

    def taking(self, seconds, function):
        """Return a function that takes some time by this clock."""

        def slow(*args, **how):
            self.now += seconds
            return function(*args, **how)

        return slow
