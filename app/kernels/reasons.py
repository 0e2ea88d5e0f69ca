"""Reasons: groups features as people perceive them, and finds the strongest groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import in_place, part
from app.kernels.hashing import xxh3
from app.kernels.ids import KEYS, PLACES, in_order, mixed

if TYPE_CHECKING:
    from app.kernels import Bools, Bytes, Floats, Ints


TAGGED: Final = 0
"""Names that form one reason if they share a tag."""
WORDS: Final = 1
"""Words, which are separate reasons, except for words with some tags."""
PAIRS: Final = 2
"""Names of two words."""
TOGETHER: Final = 3
"""Features that form one reason together."""
KEY, FAMILY, PLACE, OTHER = range(4)
"""Lines of the keys of features."""
LINES: Final = 11
REASON, SIZE, _BEHIND = range(8, LINES)
CHOSEN: Final = KEYS
"""Rows of the work array of `grouped`, out of `LINES`, that are results."""
# Of a word, the one before it, the first one of the row that it ends, and the last one
# of the row that it begins; of a pair, its two words.  Those between are the sort's;
# the last has the word behind each.
_BEFORE, _LEFT, _RIGHT = range(3)
_ROW: Final = _BEFORE
_COLON, _DOT = b":."
_MAGNITUDE: Final = 2**63 - 1


@in_place
def keyed(
    text: Bytes,
    bounds: Ints,
    at: Ints,
    how: int,
    family: int,
    tags: Ints,
    seen: Bools,
    added: Floats,
    count: int,
    keys: Ints,
    values: Floats,
) -> int:
    """Add the known features of a view, with their keys; return how many there are.

    Parameters
    ----------
    text : ndarray of uint8
        Words, each followed by a blank.
    bounds : ndarray of int64
        Start of each word, and end of the last.
    at : ndarray of int64
        First word of each feature's name; a feature without a name has its own key.
    how : int
        `TAGGED`, `WORDS`, `PAIRS` or `TOGETHER`.
    family : int
        The family of the view.
    tags : ndarray of int64, shape (2, m)
        Hashes of the tags with other families, and these families.  Words with the
        first tag have the key of their domain, others that of the family.
    seen, added : ndarray of bool, ndarray of float64, shape (n,)
        Which features were seen before, and their contributions.
    count : int
        Number of features added by other views.
    keys : ndarray of int64, shape (4, f)
        Written: `KEY`, `FAMILY`, `PLACE` in the view; `KEY` and `OTHER` are the hashes
        of the words of a pair.
    values : ndarray of float64, shape (f,)
        Written: the contributions.
    """
    most = min(keys.shape[1], values.size)
    if keys.shape[0] < 4 or tags.shape[0] < 2 or not 0 <= count <= most:
        return 0
    for i in range(min(seen.size, added.size)):
        if not seen[i] or count == most:
            continue
        word = at[i] if i < at.size else -1
        own, other = family, np.int64(0)
        key = mixed(family, 0 if how == TOGETHER else i)
        if 0 <= word < bounds.size - (2 if how == PAIRS else 1):
            start, stop = _ends(text, bounds, word)
            end = start
            while end < stop and text[end] != _COLON:
                end += 1
            if how == TAGGED:
                key = mixed(family, np.int64(xxh3(text, start, end)))
            else:
                key = np.int64(xxh3(text, start, stop))
            if how == PAIRS:
                start, stop = _ends(text, bounds, word + 1)
                other = np.int64(xxh3(text, start, stop))
            elif how == WORDS and end < stop:
                tag = np.int64(xxh3(text, start, end))
                for number in range(tags.shape[1]):
                    if tags[0, number] == tag:
                        own = tags[1, number]
                        begin, stop = _domain(text, end + 1, stop)
                        domain = np.int64(xxh3(text, begin, stop))
                        key = mixed(own, np.int64(0) if number else domain)
        keys[KEY, count], keys[FAMILY, count] = key, own
        keys[PLACE, count], keys[OTHER, count] = i, other
        values[count] = added[i]
        count += 1
    return count


@part
def _ends(text: Bytes, bounds: Ints, word: int) -> tuple[int, int]:
    """Return the start and end of a word."""
    start = min(max(bounds[word], 0), text.size)
    return start, max(start, min(bounds[word + 1] - 1, text.size))


@part
def _domain(text: Bytes, start: int, stop: int) -> tuple[int, int]:
    """Return the range of the last two labels of a host; empty if it has only one."""
    while start < stop and text[start] == _DOT:
        start += 1
    while start < stop and text[stop - 1] == _DOT:
        stop -= 1
    dots, at = 0, stop
    while at > start:
        dots += text[at - 1] == _DOT
        if dots == 2:
            break
        at -= 1
    return at if dots else stop, stop


@in_place
def grouped(
    keys: Ints,
    values: Floats,
    begin: int,
    end: int,
    joins: int,
    most: int,
    prior: float,
    families: Floats,
    totals: Floats,
    listed: Ints,
    room: Ints,
) -> tuple[float, int, int]:
    """Group the features of a message, and list the strongest reasons of each side.

    Parameters
    ----------
    keys, values : ndarray of int64, ndarray of float64, shapes (4, n) and (n,)
        From `keyed`.
    begin, end : int
        Range of the pairs.  Each belongs to the stronger of its words.
    joins : int
        Number of strongest pairs that may join their words into one reason, if pair and
        words are on the same side.
    most : int
        Most words of a reason.
    prior : float
        Added to the total; the side of the result is listed first.
    families : ndarray of float64, shape (2, f)
        Written: the sum and the number of features of each family.
    totals : ndarray of float64, shape (n,)
        Written: the contribution of each reason, at its first feature.
    listed : ndarray of int64, shape (2 r, `most` + p)
        Written: the reasons of the one side, then those of the other, the strongest
        first: the words of each that stand side by side, or its first feature; then
        those that speak most for its side; as numbers of those chosen, and -1 where
        there are fewer.
    room : ndarray of int64, shape (`LINES`, at least n with the pairs twice, and 256)
        Written: `REASON`, the first feature of the reason of each; `SIZE`, how many
        features each reason has; `CHOSEN`, the features that are listed, each once
        and in order.  The other lines are to work in.

    Returns
    -------
    rest : float
        Contribution of the reasons that are not listed.
    left : int
        Number of their features.
    chosen : int
        Number of listed features.
    """
    n = min(values.size, totals.size, keys.shape[1])
    begin = min(max(begin, 0), n)
    end = min(max(end, begin), n)
    listed[:] = -1
    families[:] = 0.0
    high = keys.shape[0] > OTHER and room.shape[0] >= LINES and families.shape[0] > 1
    wide = room.shape[1] >= max(n + end - begin, 256) and listed.shape[1] >= most > 0
    if not (high and wide):
        return 0.0, 0, 0
    _by_key(keys, n, begin, end, room)
    _join(values, n, begin, end, joins, most, room)
    for i in range(n):
        totals[i], room[SIZE, i] = 0.0, 0
    overall = prior
    for i in range(n):
        reason, family = room[REASON, i], keys[FAMILY, i]
        totals[reason] += values[i]
        room[SIZE, reason] += 1
        overall += values[i]
        if 0 <= family < families.shape[1]:
            families[0, family] += values[i]
            families[1, family] += 1.0
    _list(totals, n, overall < 0.0, most, room, listed)
    rest, left = 0.0, 0
    for i in range(n):
        if room[_ROW, i] < 0:
            rest += totals[i]
            left += room[SIZE, i]
        row = room[_ROW, room[REASON, i]]
        if row >= 0:
            side = 1.0 if totals[listed[row, 0]] > 0.0 else -1.0
            at = listed.shape[1]
            while at > most and (
                listed[row, at - 1] < 0
                or side * values[listed[row, at - 1]] < side * values[i]
            ):
                at -= 1
                if at + 1 < listed.shape[1]:
                    listed[row, at + 1] = listed[row, at]
            if at < listed.shape[1]:
                listed[row, at] = i
    return rest, left, _choose(n, room, listed)


@part
def _by_key(keys: Ints, n: int, begin: int, end: int, room: Ints) -> None:
    """Write the first feature of each key, and the words of each pair."""
    size = 0
    for i in range(n):
        room[REASON, i], room[_BEHIND, i], room[SIZE, i] = i, -1, 1
        room[_BEFORE, i], room[_LEFT, i], room[_RIGHT, i] = -1, i, i
        if not begin <= i < end:
            room[KEYS, size], room[PLACES, size] = keys[KEY, i], i
            size += 1
    # After the words, so that a word comes first among equal keys.
    for i in range(begin, end):
        room[KEYS, size], room[PLACES, size] = keys[KEY, i], i
        room[KEYS, size + 1], room[PLACES, size + 1] = keys[OTHER, i], n + i
        size += 2
    in_order(room, size)
    first = -1
    for at in range(size):
        place = room[PLACES, at]
        word = place < n and not begin <= place < end
        if not at or room[KEYS, at] != room[KEYS, at - 1]:
            first = place if word else -1
        line = REASON if word else _LEFT if place < n else _RIGHT
        room[line, place % n] = first


@part
def _weakness(value: float) -> np.int64:
    """Return the bits of a float so that larger magnitudes come first."""
    return -(np.float64(value).view(np.int64) & _MAGNITUDE)


@part
def _join(
    values: Floats, n: int, begin: int, end: int, joins: int, most: int, room: Ints
) -> None:
    """Join words into rows by the strongest pairs, and assign each pair to a word."""
    size = 0
    for pair in range(begin, end):
        one, other, value = room[_LEFT, pair], room[_RIGHT, pair], values[pair]
        both = one >= 0 and other >= 0
        if both and values[one] * value > 0.0 and values[other] * value > 0.0:
            room[KEYS, size], room[PLACES, size] = _weakness(value), pair
            size += 1
    in_order(room, size)
    for at in range(min(size, joins)):
        pair = room[PLACES, at]
        one, other = room[_LEFT, pair], room[_RIGHT, pair]
        first, last = room[_LEFT, one], room[_RIGHT, other]
        inside = room[_BEHIND, one] >= 0 or room[_BEFORE, other] >= 0
        together = room[SIZE, first] + room[SIZE, other]
        if not inside and first != other and together <= most:
            room[_BEHIND, one], room[_BEFORE, other] = other, one
            room[_RIGHT, first], room[_LEFT, last] = last, first
            room[SIZE, first] = together
    for word in range(n):
        at = word if room[_BEFORE, word] < 0 <= room[_BEHIND, word] else -1
        while at >= 0:
            room[REASON, at] = word
            at = room[_BEHIND, at]
    for pair in range(begin, end):
        one, other = room[_LEFT, pair], room[_RIGHT, pair]
        owner = max(one, other)
        if one >= 0 and other >= 0:
            owner = one if abs(values[one]) >= abs(values[other]) else other
        if owner >= 0:
            room[REASON, pair] = room[REASON, owner]


@part
def _list(
    totals: Floats, n: int, ham: bool, most: int, room: Ints, listed: Ints
) -> None:
    """List the strongest reasons with their words, and write the row of each."""
    size = 0
    for reason in range(n):
        room[_ROW, reason] = -1
        if abs(totals[reason]) > 0.0:
            room[KEYS, size], room[PLACES, size] = _weakness(totals[reason]), reason
            size += 1
    in_order(room, size)
    half = listed.shape[0] // 2
    for begin in (0, half):
        row = begin
        for at in range(size):
            reason = room[PLACES, at]
            here = (totals[reason] < 0.0) == (ham == (begin == 0))
            if here and row < begin + half:
                room[_ROW, reason] = row
                for column in range(most):
                    if reason >= 0:
                        listed[row, column], reason = reason, room[_BEHIND, reason]
                row += 1


@part
def _choose(n: int, room: Ints, listed: Ints) -> int:
    """Count and number the listed features."""
    cells, size = listed.reshape(-1), 0
    room[PLACES, :n] = -1
    for number in cells:
        if number >= 0:
            room[PLACES, number] = 0
    for i in range(n):
        if room[PLACES, i] == 0:
            room[PLACES, i], room[CHOSEN, size] = size, i
            size += 1
    for at in range(cells.size):
        if cells[at] >= 0:
            cells[at] = room[PLACES, cells[at]]
    return size
