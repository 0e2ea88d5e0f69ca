"""Pairs and grams: adjacent words, and runs of four bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, overload

import numpy as np

from app.bayes.sparse import SparseCounts
from app.features.hashing import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.mail.message import Message

# Odd, so that multiplying by them loses nothing: the constants of the
# finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
# number generators", OOPSLA 2014, section 5, variant 13 of Stafford).
_LEFT: Final = np.uint64(0xBF58476D1CE4E5B9)
_RIGHT: Final = np.uint64(0x94D049BB133111EB)
_SHIFT: Final = np.uint64(31)


def pairs(
    words: Sequence[str], ids: NDArray[np.int64], sizes: Sequence[int]
) -> tuple[SparseCounts, PairNames]:
    """Return the pairs of neighbours, each once, and their names.

    Parameters
    ----------
    words : sequence of str
        Words in reading order.
    ids : ndarray of int64, shape (n,)
        Id of each of the words.
    sizes : sequence of int
        How many words each text has; the last of one text and the first of the
        next are no neighbours.

    Notes
    -----
    The id of a pair is a hash of those of its words, so that all pairs of a
    message are hashed at once; its name is the two words with a blank between
    them.  All counts are 1: the view is one of presence.

    Examples
    --------
    >>> x, names = pairs(["at", "noon", "at", "noon"], np.array([5, 7, 5, 7]), [3, 1])
    >>> sorted(names), x.counts.tolist()
    (['at noon', 'noon at'], [1, 1])
    """
    last = np.zeros(len(words), np.bool_)
    last[[end - 1 for end in accumulate(sizes) if end]] = True
    (left,) = np.logical_not(last).nonzero()
    found, at, _ = distinct(mixed(ids[:-1], ids[1:]).take(left))
    x = SparseCounts(found, np.ones(found.size, np.int64))
    return x, PairNames(words, left.take(at))


@dataclass(frozen=True, slots=True, eq=False)
class PairNames(Sequence[str]):
    """The names of pairs, put together when they are asked for.

    Most are never asked for: they are made for an explanation, which lists a few
    of the strongest, and would take a third of the time of the view.

    Parameters
    ----------
    words : sequence of str
        All words of the message.
    left : ndarray of int64, shape (n,)
        Where the left word of each pair stands; the right one is the next.

    Examples
    --------
    >>> names = PairNames(["at", "noon", "or"], np.array([1, 0]))
    >>> names[0], list(names), names[1:]
    ('noon or', ['noon or', 'at noon'], ('at noon',))
    """

    words: Sequence[str]
    left: NDArray[np.intp]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return self.left.size

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...

    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """Return one name, or several."""
        if isinstance(index, slice):
            return tuple(PairNames(self.words, self.left[index]))
        at = int(self.left[index])
        return f"{self.words[at]} {self.words[at + 1]}"

    def __eq__(self, other: object) -> bool:
        """Compare with other names of pairs, one by one."""
        if not isinstance(other, PairNames):
            return NotImplemented
        return tuple(self) == tuple(other)

    # Equal names are equal values, but the array is mutable: no hash.
    __hash__ = None  # type: ignore[assignment]


def mixed(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a hash of pairs of ids, shape (n,), in which the order counts."""
    mixed = left.view(np.uint64) + right.view(np.uint64) * _LEFT
    mixed ^= mixed >> _SHIFT
    mixed *= _RIGHT
    mixed ^= mixed >> _SHIFT
    return mixed.view(np.int64)


GRAM_BYTES: Final = 4
MAX_GRAM_TEXT: Final = 3_500
"""Bytes of the text whose grams are taken.

Spammers append text that looks like ham; few readers get that far. Precedent:
Bratko et al., "Spam filtering using statistical data compression models",
JMLR 7, 2006, section 5.6, cut messages at 2,500 bytes. 1,000 to 6,000 are alike
here (experiment 0021).
"""
BUCKET_BITS: Final = 20
"""A gram's id is one of 2^20 buckets.

With 2^16 the grams by themselves rank much worse, with 2^22 no better
(experiment 0021).
"""
# Knuth, "The Art of Computer Programming", volume 3, section 6.4:
# multiplicative hashing by the golden ratio of 2^32.
_GOLDEN: Final = np.uint32(2_654_435_769)
_GRAM_SHIFT: Final = np.uint32(32 - BUCKET_BITS)


def grams(message: Message) -> SparseCounts:
    r"""Return the buckets of the 4-grams of subject and text, each once.

    Notes
    -----
    The decoded text in UTF-8 is read, not the message as it came: the
    headers' grams gain nothing and are as many again (experiment 0021), base64
    has none that come again, and whitespace and capitals count as they are.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> grams(parse(b"Subject: ab\n\ncd")).size
    3
    """
    text = message.header("subject") + "\n"
    for part in message.texts:
        if len(text) >= MAX_GRAM_TEXT:
            break
        text += part.content[:MAX_GRAM_TEXT] + "\n"
    content = text[:MAX_GRAM_TEXT].encode()[:MAX_GRAM_TEXT]
    if len(content) < GRAM_BYTES:
        return SparseCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))
    # Four overlapping views of the bytes as little-endian 32-bit integers.
    windows = np.concatenate(
        [
            np.frombuffer(content, "<u4", (len(content) - start) // GRAM_BYTES, start)
            for start in range(GRAM_BYTES)
        ]
    )
    buckets = (windows * _GOLDEN) >> _GRAM_SHIFT
    buckets.sort()
    first = np.ones(buckets.size, np.bool_)
    np.not_equal(buckets[1:], buckets[:-1], out=first[1:])
    ids = buckets[first].astype(np.int64)
    return SparseCounts(ids, np.ones_like(ids))
