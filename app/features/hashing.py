"""Feature ids: 64-bit hashes of the text of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Self, overload

import numpy as np
from xxhash import xxh3_64_intdigest

from app.bayes.sparse import SparseCounts
from app.kernels.text import joined, paired, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class FeatureNames(Sequence[str]):
    """The names of features, decoded on demand.

    Most are never needed, because an explanation lists only a few of the strongest.

    Parameters
    ----------
    text : bytes
        Words, separated by blanks.
    bounds : ndarray of int64
        Start of each word, one byte after the end of the previous one.
    at : ndarray of int64, shape (n,)
        Index of the first word of each name.
    words : int, default 1
        Number of words in a name: two for pairs.

    Examples
    --------
    >>> bounds, at = np.array([0, 3, 8, 11]), np.array([1, 0])
    >>> names = FeatureNames(b"at noon or ", bounds, at, 2)
    >>> names[0], list(names), names[1:]
    ('noon or', ['noon or', 'at noon'], ('at noon',))
    """

    text: bytes
    bounds: NDArray[np.int64]
    at: NDArray[np.int64]
    words: int = 1

    @classmethod
    def of(cls, names: Sequence[str], words: int = 1) -> Self:
        """Return the names in a sequence.

        Examples
        --------
        >>> list(FeatureNames.of(["at noon", "noon or"], 2))
        ['at noon', 'noon or']
        """
        if isinstance(names, cls):
            return names
        pieces = [
            piece.encode() for name in names for piece in name.split(" ", words - 1)
        ]
        bounds = np.fromiter(
            accumulate((len(piece) + 1 for piece in pieces), initial=0),
            np.int64,
            len(pieces) + 1,
        )
        at = np.arange(0, len(pieces), words)
        return cls(b" ".join([*pieces, b""]), bounds, at, words)

    def __len__(self) -> int:
        """Return the number of names."""
        return self.at.size

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...

    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """Return one name, or several."""
        at = self.at[index]
        starts, stops = self.bounds[at].tolist(), self.bounds[at + self.words].tolist()
        if isinstance(index, slice):
            return tuple(
                [
                    self.text[start : stop - 1].decode()
                    for start, stop in zip(starts, stops, strict=True)
                ]
            )
        return self.text[starts : stops - 1].decode()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names in order."""
        return iter(self[:])

    def as_json(self) -> bytes:
        """Return the names as a JSON list in ASCII."""
        sizes = self.bounds.take(self.at + self.words) - self.bounds.take(self.at)
        most = 6 * int(np.add.reduce(sizes)) + 3 * self.at.size
        into = np.empty(most, np.uint8)
        text = np.frombuffer(self.text, np.uint8)
        size = quoted(text, self.bounds, self.at, self.words, into)
        return b"[" + into[:size].tobytes() + b"]"

    def take(self, places: NDArray[np.intp]) -> FeatureNames:
        """Return the names at some places, in their order."""
        return FeatureNames(self.text, self.bounds, self.at.take(places), self.words)

    def __eq__(self, other: object) -> bool:
        """Compare with other names, one by one."""
        return isinstance(other, FeatureNames) and self[:] == other[:]

    # Equal names are equal values, but the arrays are mutable: no hash.
    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs(SparseCounts):
    """Pairs of words, each once, with their words.

    Parameters
    ----------
    left, right : ndarray of int64, shape (n,)
        Ids of the first and second word of each pair, in any order of pairs.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]


def names_at(names: Sequence[str], places: NDArray[np.intp]) -> Sequence[str]:
    """Return the names at some places, in their order."""
    if isinstance(names, FeatureNames):
        return names.take(places)
    return tuple([names[place] for place in places.tolist()])


def ids_of(names: Sequence[str]) -> NDArray[np.int64]:
    """Return the ids of features, shape (n,), in the order of their names.

    The id is the 64 bits of xxh3 of the UTF-8 name, as a signed integer.

    Examples
    --------
    >>> ids_of(["money", "now"]).tolist()
    [5881276789356335354, 8117650502234117504]
    """
    digests = map(xxh3_64_intdigest, map(str.encode, names))
    return np.fromiter(digests, np.uint64, len(names)).view(np.int64)


def pair_names(
    pairs: Pairs, words: NDArray[np.int64], names: Sequence[str]
) -> FeatureNames | None:
    """Return the names of pairs, in the order of their ids.

    Parameters
    ----------
    pairs : Pairs
        The pairs of one message.
    words : ndarray of int64
        Ids of its words.
    names : sequence of str
        The names of the words.

    Returns
    -------
    FeatureNames or None
        None if a pair has another word.
    """
    made, places = np.empty((2, pairs.size), np.int64)
    if not paired(words, pairs.left, pairs.right, places):
        return None
    joined(pairs.left, pairs.right, made)
    left, right = np.divmod(places.take(made.argsort()), max(words.size, 1))
    both = zip(names_at(names, left), names_at(names, right), strict=True)
    return FeatureNames.of([f"{first} {second}" for first, second in both], 2)
