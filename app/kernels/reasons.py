"""Reasons: words put in rows, and the strongest features of each reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kernels import in_place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


@in_place
def rows(left: Ints, right: Ints, most: int, room: Ints) -> int:
    """Put words in rows by pairs of them; return how many words are in any.

    Each pair joins the end of a row to the beginning of another one.

    Parameters
    ----------
    left, right : ndarray of int64, shape (m,)
        The words of each pair, in the order in which they are joined.
    most : int
        Words of a row.
    room : ndarray of int64, shape (6, n)
        Written: in the first line the words of the first row, of the second, and so
        on, in the second line the first word of the row of each of them.  The other
        lines are to work in.
    """
    if room.shape[0] < 6:
        return 0
    n = room.shape[1]
    # The word behind each, and the one before; the first word of the row that each
    # ends, and the last of the row that it begins.
    behind, before, first, last = 2, 3, 4, 5
    for word in range(n):
        room[behind, word] = room[before, word] = -1
        room[first, word] = room[last, word] = word
        room[0, word] = 1
    for pair in range(min(left.size, right.size)):
        one, other = left[pair], right[pair]
        if not (0 <= one < n and 0 <= other < n):
            continue
        begin, end = room[first, one], room[last, other]
        inside = room[behind, one] >= 0 or room[before, other] >= 0
        if inside or begin == other or room[0, begin] + room[0, other] > most:
            continue
        room[behind, one], room[before, other] = other, one
        room[last, begin], room[first, end] = end, begin
        room[0, begin] += room[0, other]
    count = 0
    for word in range(n):
        room[0, word] = 0
    for word in range(n):
        if room[before, word] < 0 <= room[behind, word]:
            at = word
            while at >= 0:
                room[0, count], room[1, count] = at, word
                count += 1
                at = room[behind, at]
    return count


@in_place
def strongest(
    reason: Ints,
    values: NDArray[np.float64],
    totals: NDArray[np.float64],
    listed: Ints,
    place: Ints,
    into: Ints,
) -> None:
    """Write the features that say most in each of some reasons.

    Parameters
    ----------
    reason : ndarray of int64, shape (n,)
        The number of the reason of each feature.
    values : ndarray of float64, shape (n,)
        What each adds.
    totals : ndarray of float64, shape (r,)
        What each reason adds: a feature says the more, the more it adds to this side.
    listed : ndarray of int64, shape (m,)
        The reasons that are asked for, different ones.
    place : ndarray of int64, shape (r,)
        Room to work in.
    into : ndarray of int64, shape (m, p)
        Written: the features of each reason, the strongest first, and of equal ones
        the first; -1 where it has fewer.
    """
    for at in range(place.size):
        place[at] = -1
    for row in range(min(listed.size, into.shape[0])):
        if 0 <= listed[row] < min(place.size, totals.size):
            place[listed[row]] = row
        for at in range(into.shape[1]):
            into[row, at] = -1
    for feature in range(min(reason.size, values.size)):
        number = reason[feature]
        if not (0 <= number < place.size and place[number] >= 0):
            continue
        row = place[number]
        side = 1.0 if totals[number] > 0.0 else -1.0
        at = into.shape[1]
        while at and (
            into[row, at - 1] < 0
            or side * values[into[row, at - 1]] < side * values[feature]
        ):
            at -= 1
            if at + 1 < into.shape[1]:
                into[row, at + 1] = into[row, at]
        if at < into.shape[1]:
            into[row, at] = feature
