"""Moment rows: moment sums of any size as rows of 64-bit integers.

Contract of this file: splitting an integer into words is odd, ``split(-n) ==
-split(n)`` word by word, and joining is linear; so is `from_rows`.  A database may
therefore add and subtract the rows of many deltas column by column, in any order:
joining the result gives the exact sum of the deltas.  A single word has no meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.bayes.moments import MomentSums
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

WORD_BITS: Final = 32
"""Bits of one word: a 64-bit column has room for 2**31 of them."""
WORDS: Final = 3
"""Words of one integer: room for the product of two measurements."""


def split(value: int) -> tuple[int, int, int]:
    """Return the words of an integer, lowest first, all of its sign.

    Raises
    ------
    InvalidObservation
        If the highest word would need more than 63 bits.

    Examples
    --------
    >>> split(5), split(-(2**32) - 5)
    ((5, 0, 0), (-5, -1, 0))
    """
    sign = -1 if value < 0 else 1
    low_mask = 2**WORD_BITS - 1
    magnitude = abs(value)
    high = magnitude >> (2 * WORD_BITS)
    if high >= 2**63:
        msg = f"a sum of measurements does not fit into {WORDS} words: {value}"
        raise InvalidObservation(msg)
    middle = (magnitude >> WORD_BITS) & low_mask
    return sign * (magnitude & low_mask), sign * middle, sign * high


def join_words(words: Sequence[int]) -> int:
    """Return the integer of its words, or of sums of words.

    Examples
    --------
    >>> join_words(split(-(2**80) + 3)) == -(2**80) + 3
    True
    >>> join_words((2**40, -1, 0)) == 2**40 - 2**32
    True
    """
    low, middle, high = words
    return low + (middle << WORD_BITS) + (high << (2 * WORD_BITS))


class MomentRow(NamedTuple):
    """One sum of one class, as a table holds it.

    The first four are the key, the last four are sums.

    Parameters
    ----------
    field, other : int
        The field, and the field it is multiplied with, not smaller; the same
        in a row of degree 1.
    degree : int
        1 for the sum of the field, 2 for the sum of the products.
    label : int
        Class index.
    messages : int
        Messages that have both fields.
    low, middle, high : int
        Words of the sum (see `app.bayes.moment_rows`).  Unit: steps to the degree.
    """

    field: int
    other: int
    degree: int
    label: int
    messages: int
    low: int
    middle: int
    high: int


def rows(state: MomentSums) -> list[MomentRow]:
    """Return the rows of a state or of a delta; zeros are left out.

    Raises
    ------
    InvalidObservation
        If a sum is too large for its columns.

    Examples
    --------
    >>> from app.bayes.measurements import Measurements
    >>> x = Measurements(np.array([7]), np.array([-3]))
    >>> for row in rows(MomentSums.of(x, label=1, n_classes=2)):
    ...     tuple(row)
    (7, 7, 1, 1, 1, -3, 0, 0)
    (7, 7, 2, 1, 1, 9, 0, 0)
    """
    found = []
    ids = state.ids.tolist()
    sums, products = state.sums, state.products
    for i, field in enumerate(ids):
        for label in range(state.n_classes):
            of_field = [(1, i, sums[i, label])]
            of_field += [(2, j, products[i, j, label]) for j in range(i, len(ids))]
            for degree, j, value in of_field:
                messages = int(state.pairs[i, j, label])
                if messages or value:
                    found.append(
                        MomentRow(field, ids[j], degree, label, messages, *split(value))
                    )
    return found


def from_rows(stored: Iterable[MomentRow], messages: NDArray[np.int64]) -> MomentSums:
    """Return the state of rows; rows of equal key are added.

    Parameters
    ----------
    stored : iterable of MomentRow
        The rows, in any order.
    messages : ndarray of int64, shape (K,)
        Messages of each class.

    Examples
    --------
    >>> from app.bayes.measurements import Measurements
    >>> x = Measurements(np.array([7, 9]), np.array([-3, 2]))
    >>> state = MomentSums.of(x, label=1, n_classes=2)
    >>> from_rows(rows(state), state.messages) == state
    True
    """
    kept = list(stored)
    ids = np.unique(np.array([(r.field, r.other) for r in kept], np.int64))
    k = messages.size
    sums = np.zeros((ids.size, k), object)
    pairs = np.zeros((ids.size, ids.size, k), np.int64)
    products = np.zeros((ids.size, ids.size, k), object)
    place = {field: i for i, field in enumerate(ids.tolist())}
    for r in kept:
        i, j = place[r.field], place[r.other]
        value = join_words((r.low, r.middle, r.high))
        if r.degree == 1:
            sums[i, r.label] += value
            continue
        for a, b in {(i, j), (j, i)}:
            pairs[a, b, r.label] += r.messages
            products[a, b, r.label] += value
    return MomentSums.of_sums(messages, ids, sums, pairs, products)
