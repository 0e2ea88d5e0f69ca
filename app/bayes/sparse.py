"""What is in one message? A sparse vector of feature counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class SparseCounts:
    """How often each feature occurs in one message.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        Feature ids, strictly increasing.
    counts : ndarray of int64, shape (n,)
        Occurrences of each feature, at least 1.

    Raises
    ------
    InvalidObservation
        If the two do not fit together, `ids` is not strictly increasing or a
        count is below 1.

    Examples
    --------
    >>> x = SparseCounts.of({7: 2, -3: 1})
    >>> x.ids.tolist(), x.counts.tolist()
    ([-3, 7], [1, 2])
    >>> x.presence().counts.tolist()
    [1, 1]
    """

    ids: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Refuse what is not a sparse vector."""
        if self.ids.ndim != 1 or self.ids.shape != self.counts.shape:
            msg = (
                "ids and counts must be one-dimensional and equally long, "
                f"got shapes {self.ids.shape} and {self.counts.shape}"
            )
            raise InvalidObservation(msg)
        # Not np.diff: ids use all 64 bits, and the difference of two of them
        # overflows.
        if np.count_nonzero(self.ids[1:] <= self.ids[:-1]):
            msg = "ids must be strictly increasing"
            raise InvalidObservation(msg)
        if np.count_nonzero(self.counts < 1):
            msg = f"counts must be at least 1, got {int(self.counts.min())}"
            raise InvalidObservation(msg)

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> Self:
        """Return the vector of a mapping from feature id to occurrences."""
        ids = np.array(sorted(counts), np.int64)
        return cls(ids, np.array([counts[i] for i in ids.tolist()], np.int64))

    @classmethod
    def from_occurrences(cls, ids: NDArray[np.int64]) -> Self:
        """Return the vector of a sequence of ids, in any order, with repeats."""
        unique, counts = np.unique(ids, return_counts=True)
        return cls(unique, counts.astype(np.int64, copy=False))

    @property
    def values(self) -> NDArray[np.int64]:
        """The counts, as what is joined with others calls them."""
        return self.counts

    @property
    def size(self) -> int:
        """Number of distinct features."""
        return int(self.ids.size)

    def presence(self) -> SparseCounts:
        """Return the same features, each counted once."""
        return SparseCounts(self.ids, np.ones_like(self.counts))

    def __eq__(self, other: object) -> bool:
        """Compare exactly, feature by feature."""
        if not isinstance(other, SparseCounts):
            return NotImplemented
        return np.array_equal(self.ids, other.ids) and np.array_equal(
            self.counts, other.counts
        )

    # Equal vectors are equal values, but arrays are mutable: no hash.
    __hash__ = None  # type: ignore[assignment]
