"""Which words stand side by side?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.sparse import SparseCounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

# Odd, so that multiplying by them loses nothing: the constants of the
# finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
# number generators", OOPSLA 2014, section 5, variant 13 of Stafford).
_LEFT: Final = np.uint64(0xBF58476D1CE4E5B9)
_RIGHT: Final = np.uint64(0x94D049BB133111EB)
_SHIFT: Final = np.uint64(31)


def pairs(
    sequences: Sequence[Sequence[str]], ids: Mapping[str, int]
) -> tuple[SparseCounts, tuple[str, ...]]:
    """Return the pairs of neighbours, each once, and their names.

    Parameters
    ----------
    sequences : sequence of sequences of str
        Words in reading order; the last of one and the first of the next are
        no neighbours.
    ids : mapping of str to int
        Id of each of the words.

    Notes
    -----
    The id of a pair is a hash of those of its words, so that all pairs of a
    message are hashed at once; its name is the two words with a blank between
    them.  All counts are 1: the view is one of presence.

    Examples
    --------
    >>> x, names = pairs([["at", "noon", "at"], ["noon"]], {"at": 5, "noon": 7})
    >>> sorted(names), x.counts.tolist()
    (['at noon', 'noon at'], [1, 1])
    """
    flat = [word for sequence in sequences for word in sequence]
    if not flat:
        return SparseCounts(np.zeros(0, np.int64), np.zeros(0, np.int64)), ()
    words = np.fromiter(map(ids.__getitem__, flat), np.int64, len(flat))
    inside = np.ones(len(flat), np.bool_)
    inside[np.cumsum([len(sequence) for sequence in sequences]) - 1] = False
    left = np.flatnonzero(inside)
    found, first = np.unique(mixed(words[left], words[left + 1]), return_index=True)
    names = [f"{flat[i]} {flat[i + 1]}" for i in left[first].tolist()]
    return SparseCounts(found, np.ones_like(found)), tuple(names)


def mixed(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a hash of pairs of ids, shape (n,), in which the order counts."""
    mixed = left.view(np.uint64) + right.view(np.uint64) * _LEFT
    mixed ^= mixed >> _SHIFT
    mixed *= _RIGHT
    mixed ^= mixed >> _SHIFT
    return mixed.view(np.int64)
