"""Statistics: the interface of feature counts and moment sums.

Contract of this file: statistics are sums of integers over messages, so they form a
group: addition is exact in any order, and subtracting restores the earlier state bit
for bit.  They contain no smoothing, no prior and no float.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from app.errors import InconsistentCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


class Statistics(ABC):
    """The sums over the labelled messages, for one view.

    Attributes
    ----------
    kind : {'features', 'moments'}
        Counts of features, or sums of measurements.
    messages : ndarray of int64, shape (K,)
        Messages of each class.
    ids : ndarray of int64, shape (V,)
        Feature or field ids, strictly increasing.
    """

    __slots__ = ()

    kind: ClassVar[Literal["features", "moments"]]
    messages: NDArray[np.int64]
    ids: NDArray[np.int64]

    @classmethod
    @abstractmethod
    def sum(cls, parts: Iterable[Self], *, n_classes: int) -> Self:
        """Return the sum of many statistics in one pass."""

    def __add__(self, other: Self) -> Self:
        """Return the statistics of both sets of messages together."""
        return self.sum((self, other), n_classes=self.n_classes)

    @abstractmethod
    def __neg__(self) -> Self:
        """Return the inverse element."""

    @abstractmethod
    def __mul__(self, times: int) -> Self:
        """Return the statistics of the same messages, each so many times.

        Raises
        ------
        InvalidObservation
            If a count would leave the 64-bit integers.
        """

    def __eq__(self, other: object) -> bool:
        """Compare exactly: no tolerance."""
        if not isinstance(other, type(self)):
            return NotImplemented
        names: tuple[str, ...] = type(self).__slots__
        return all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)

    # Equal sums are equal values, but arrays are mutable: no hash.
    __hash__ = None  # type: ignore[assignment]

    def __sub__(self, other: Self) -> Self:
        """Return the statistics with those of `other` taken back."""
        return self + -other

    @property
    @abstractmethod
    def documents(self) -> NDArray[np.int64]:
        """Messages of each class that have the feature or field, shape (V, K)."""

    @abstractmethod
    def between(self, first: int | None, end: int | None) -> Self:
        """Return the part from one feature id on and before another.

        Parameters
        ----------
        first, end : int or None
            Ids; None: from the beginning, to the end.

        Notes
        -----
        The first part contains the messages that are added, the last part those that
        are removed.  So the sum of the first parts is always one that some messages
        can have, if the total is.
        """

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.messages.size)

    @property
    def vocabulary(self) -> int:
        """Number of features or fields seen in any class."""
        return int(self.ids.size)

    @property
    def gained(self) -> NDArray[np.int64]:
        """Ids with a positive count of messages in any class."""
        return self.ids[(self.documents > 0).any(axis=1)]

    @property
    def lost(self) -> NDArray[np.int64]:
        """Ids with a negative count of messages, and no positive one."""
        documents = self.documents
        return self.ids[(documents < 0).any(axis=1) & ~(documents > 0).any(axis=1)]

    @property
    @abstractmethod
    def negative(self) -> bool:
        """Whether any count of messages or occurrences is below zero."""

    @property
    @abstractmethod
    def magnitude(self) -> int:
        """Sum of the absolute values of all numbers."""

    @abstractmethod
    def require_reachable(self) -> None:
        """Raise if no set of messages has these statistics.

        Raises
        ------
        InconsistentCounts
            If a count is negative or two numbers contradict each other: a message
            was unlearned that had not been learned.  Never clamp instead, or
            unlearning is not the inverse of learning.
        """


def total(parts: Sequence[Statistics]) -> Statistics:
    """Return the sum of statistics of one view, at least one.

    Raises
    ------
    InconsistentCounts
        If they are not all of one kind.
    """
    if len(parts) == 1:
        return parts[0]
    kinds = Counter(part.kind for part in parts)
    if len(kinds) > 1:
        msg = (
            f"A view holds features in {kinds['features']} parts and measurements in "
            f"{kinds['moments']}, and they have no sum."
        )
        raise InconsistentCounts(msg)
    return parts[0].sum(parts, n_classes=parts[0].n_classes)
