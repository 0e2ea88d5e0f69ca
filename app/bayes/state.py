"""State: statistics by view, and history: states by month.

Contract of this file: a missing view or month counts as zero, so sums and differences
are defined for any two states and any two histories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.bayes.counts import FeatureCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class State(dict[str, FeatureCounts]):
    """The statistics of each view, learned from a set of messages.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> x = SparseCounts.of({1: 2})
    >>> one = State(words=FeatureCounts.of(x, label=0, n_classes=2))
    >>> (one * 3 - one)["words"].documents.tolist()
    [[2, 0]]
    """

    __slots__ = ()

    @classmethod
    def sum(cls, states: Iterable[Mapping[str, FeatureCounts]]) -> State:
        """Return the sum of many states in one pass."""
        whole = [*states]
        if len(whole) == 1:
            return cls(whole[0])
        parts: dict[str, list[FeatureCounts]] = {}
        for state in whole:
            for view, statistics in state.items():
                parts.setdefault(view, []).append(statistics)
        return cls(
            {
                view: FeatureCounts.sum(found, n_classes=found[0].n_classes)
                for view, found in parts.items()
            }
        )

    def __add__(self, other: Mapping[str, FeatureCounts]) -> State:
        """Return what both sets of messages have taught."""
        return State.sum((self, other))

    def __neg__(self) -> State:
        """Return the inverse element."""
        return State({view: -part for view, part in self.items()})

    def __sub__(self, other: State) -> State:
        """Return the state with `other` taken back."""
        return self + -other

    def __mul__(self, times: int) -> State:
        """Return the state with each message counted so many times.

        Raises
        ------
        InvalidObservation
            If a count would leave the 64-bit integers.
        """
        return State({view: part * times for view, part in self.items()})

    @property
    def size(self) -> int:
        """Number of features of all views."""
        return sum(part.vocabulary for part in self.values())

    def between(self, first: int | None, end: int | None) -> State:
        """Return the part from one feature id on and before another.

        Parameters
        ----------
        first, end : int or None
            As `app.bayes.counts.FeatureCounts.between`.
        """
        return State({view: x.between(first, end) for view, x in self.items()})

    def pieces(self, *, at_most: int) -> Iterator[State]:
        """Yield parts of bounded size that add up to the state.

        The sum of the first parts is always one that some messages can have, if the
        total is (`app.bayes.counts.FeatureCounts.between`).

        Parameters
        ----------
        at_most : int
            Features of a part.

        Examples
        --------
        >>> from app.bayes.sparse import SparseCounts
        >>> words = SparseCounts.of({1: 1, 2: 1, 3: 1})
        >>> both = State(words=FeatureCounts.of(words, label=0, n_classes=2))
        >>> [p["words"].messages.tolist() for p in both.pieces(at_most=2)]
        [[1, 0], [0, 0]]
        """
        part, room = State(), at_most
        for view in sorted(self):
            x = self[view]
            if not (x.vocabulary or x.messages.any()):
                continue
            start, size = 0, x.vocabulary
            while start < max(size, 1):
                end = min(start + room, size)
                part[view] = x.part(start or None, None if end == size else end)
                room -= end - start
                start = max(end, 1)
                if room == 0:
                    yield part
                    part, room = State(), at_most
        if part:
            yield part


class History(dict[int, State]):
    """The state of each month, by the month's number YYYYMM."""

    __slots__ = ()

    @classmethod
    def sum(cls, histories: Iterable[Mapping[int, State]]) -> History:
        """Return the sum of many histories, month by month, in one pass."""
        parts: dict[int, list[State]] = {}
        for history in histories:
            for month, state in history.items():
                parts.setdefault(month, []).append(state)
        return cls({month: State.sum(found) for month, found in parts.items()})

    def __add__(self, other: History) -> History:
        """Return what both sets of messages have taught."""
        return History.sum((self, other))

    def __neg__(self) -> History:
        """Return the inverse element."""
        return History({month: -state for month, state in self.items()})

    def __sub__(self, other: History) -> History:
        """Return the history with `other` taken back."""
        return self + -other

    def between(self, first: int | None, end: int | None) -> History:
        """Return the part from one feature id on and before another, of each month."""
        return History({month: x.between(first, end) for month, x in self.items()})

    def parts(self) -> Iterator[tuple[int, str, FeatureCounts]]:
        """Yield each month, view and its statistics."""
        for month, state in self.items():
            for view, statistics in state.items():
                yield month, view, statistics
