"""Ids: distinct ids with their counts, pairs of neighbours, and a stable sort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import in_place, part

if TYPE_CHECKING:
    from app.kernels import Ints


KEYS: Final = 3
PLACES: Final = 5
"""Rows of the room that `in_order` sorts together; the row after each is to work in."""
_STARTS: Final = 7
# Odd, so that multiplication is invertible: the constants of the finaliser of
# SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
# OOPSLA 2014, section 5, variant 13 of Stafford).
_LEFT: Final = np.uint64(0xBF58476D1CE4E5B9)
_RIGHT: Final = np.uint64(0x94D049BB133111EB)
_SHIFT: Final = np.uint64(31)


@in_place
def distinct(ids: Ints, parts: Ints, room: Ints) -> int:
    """Write the distinct ids in order; return their number.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        In any order, with repeats.
    parts : ndarray of int64, shape (2 m,)
        Pairs of the first id of a range and the one after its last; other ids are left
        out.
    room : ndarray of int64, shape (8, at least n and 256)
        Written: the ids in the first row, their counts in the second, and their first
        places in the third.  The other rows are work space.
    """
    most = _room_for(ids.size, room)
    size = 0
    for i in range(parts.size // 2):
        for at in range(max(parts[2 * i], 0), min(parts[2 * i + 1], ids.size)):
            if size < most:
                room[KEYS, size], room[PLACES, size] = ids[at], at
                size += 1
    return _distinct(room, size)


@in_place
def neighbours(ids: Ints, ends: Ints, room: Ints) -> int:
    """Write the distinct hashes of adjacent ids in order; return their number.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        Ids of the words of all texts.
    ends : ndarray of int64, shape (m,)
        End of each text; words of different texts are not neighbours.
    room : ndarray of int64, shape (8, at least n and 256)
        Written as by `distinct`.
    """
    most = _room_for(ids.size, room)
    size = at = 0
    for text in range(ends.size):
        end = min(ends[text], ids.size)
        while at + 1 < end:
            if size < most:
                room[KEYS, size], room[PLACES, size] = mixed(ids[at], ids[at + 1]), at
                size += 1
            at += 1
        at = max(at, end)
    return _distinct(room, size)


@part
def _room_for(size: int, room: Ints) -> int:
    """Return how many of some keys fit into the work space."""
    return min(size, room.shape[1]) if room.shape[0] > 7 and room.shape[1] > 255 else 0


@part
def _distinct(room: Ints, size: int) -> int:
    """Sort keys with their places, and write each distinct one once."""
    in_order(room, size)
    count = 0
    for i in range(size):
        if count and room[KEYS, i] == room[0, count - 1]:
            room[1, count - 1] += 1
        else:
            room[0, count], room[1, count] = room[KEYS, i], 1
            room[2, count] = room[PLACES, i]
            count += 1
    return count


@part
def in_order(room: Ints, size: int) -> None:
    """Sort the first keys with their places; the sort is stable."""
    if size < 2:
        return
    # Sixteen bits of a hash sort nearly all ids, in a quarter of the time for all bits.
    # If ids were forged to agree in these, all bits are used.
    _sort(room, size, 6)
    moves = 0
    for i in range(1, size):
        key, place = room[KEYS, i], room[PLACES, i]
        at = i
        while at and room[KEYS, at - 1] > key and moves < 8 * size:
            room[KEYS, at] = room[KEYS, at - 1]
            room[PLACES, at] = room[PLACES, at - 1]
            at -= 1
            moves += 1
        room[KEYS, at], room[PLACES, at] = key, place
    if moves and moves >= 8 * size:
        _sort(room, size, 0)


@part
def _sort(room: Ints, size: int, lowest: int) -> None:
    """Sort keys with their places by their upper bytes, starting at an even one."""
    # A radix sort, byte by byte from the lowest, which is linear (Knuth, "The Art of
    # Computer Programming", volume 3, section 5.2.5).
    for digit in range(lowest, 8):
        here, there = digit % 2, 1 - digit % 2
        for value in range(256):
            room[_STARTS, value] = 0
        for i in range(size):
            room[_STARTS, _digit(room[KEYS + here, i], digit)] += 1
        total = 0
        for value in range(256):
            total += room[_STARTS, value]
            room[_STARTS, value] = total - room[_STARTS, value]
        for i in range(size):
            key = room[KEYS + here, i]
            value = _digit(key, digit)
            to = room[_STARTS, value]
            room[_STARTS, value] = to + 1
            room[KEYS + there, to] = key
            room[PLACES + there, to] = room[PLACES + here, i]


@part
def _digit(key: int, digit: int) -> int:
    """Return one of the eight bytes of a signed key, adjusted for sorting."""
    value = key >> 8 * digit & 255
    return value ^ 128 if digit == 7 else value


@part
def mixed(left: int | np.int64, right: int | np.int64) -> np.int64:
    """Return a hash of an ordered pair of ids."""
    found = np.uint64(left) + np.uint64(right) * _LEFT
    found ^= found >> _SHIFT
    found *= _RIGHT
    return np.int64(found ^ (found >> _SHIFT))


@in_place
def paired(words: Ints, left: Ints, right: Ints, into: Ints) -> bool:
    """Write the place of each pair among those of all words; return whether all exist.

    Parameters
    ----------
    words : ndarray of int64, shape (n,)
        Ids, strictly increasing.
    left, right : ndarray of int64, shape (m,)
        Ids of the words of each pair.
    into : ndarray of int64, shape (m,)
        Written: n times the place of the left word, plus that of the right one.
    """
    for i in range(min(left.size, right.size, into.size)):
        at, next_to = place_of(words, left[i]), place_of(words, right[i])
        if at < 0 or next_to < 0:
            return False
        into[i] = at * words.size + next_to
    return True


@in_place
def unpaired(words: Ints, places: Ints, left: Ints, right: Ints, into: Ints) -> bool:
    """Write the words of pairs and their hashes, by the places that `paired` writes.

    Returns
    -------
    bool
        Whether all of them exist.
    """
    for i in range(min(places.size, left.size, right.size, into.size)):
        if not 0 <= places[i] < words.size * words.size:
            return False
        left[i] = words[places[i] // words.size]
        right[i] = words[places[i] % words.size]
        into[i] = mixed(left[i], right[i])
    return True


@part
def place_of(words: Ints, word: int) -> int:
    """Return the place of an id among sorted ones; -1 if it is missing."""
    begin, end = 0, words.size
    while begin < end:
        middle = (begin + end) // 2
        if words[middle] < word:
            begin = middle + 1
        else:
            end = middle
    return begin if begin < words.size and words[begin] == word else -1


@in_place
def joined(left: Ints, right: Ints, into: Ints) -> None:
    """Write the hash of each pair of ids, as in `neighbours`."""
    for i in range(min(left.size, right.size, into.size)):
        into[i] = mixed(left[i], right[i])
