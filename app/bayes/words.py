"""How is an integer of any size summed in columns of 64 bits?

Contract of this file: splitting is odd, ``split(-n) == -split(n)`` word by
word, and joining is linear.  So a column of words may be summed, and what was
added may be subtracted, in any order and by any database; only the joined
value has a meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Sequence

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
