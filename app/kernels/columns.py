"""Columns: numbers as bytes, and back (`app.ledger.vector` has the layout)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import in_place

if TYPE_CHECKING:
    from app.kernels import Bytes, Ints


LOW: Final = 7
"""Low bytes of an id, which are stored apart from its high byte."""
_BYTE: Final = np.uint64(0xFF)


@in_place
def write_column(numbers: Ints, differences: bool, into: Bytes) -> int:
    """Write numbers as a column; return its size, or 0 if there is no room.

    The width of the narrowest numbers that fit comes first, then the lowest bytes of
    all numbers, then the second ones, and so on.

    Parameters
    ----------
    numbers : ndarray of int64, shape (n,)
    differences : bool
        Whether to write the differences of successive numbers, the first from 0.
    into : ndarray of uint8, shape (at least 1 + 8 n,)
        Written.
    """
    n = numbers.size
    every, before = np.uint64(0), np.uint64(0)
    for i in range(n):
        # Modulo 2**64, because ids use all 64 bits.
        number = np.uint64(numbers[i])
        every |= number - before
        before = number if differences else before
    width = 1
    while width < 8 and every >> np.uint64(8 * width):
        width *= 2
    if into.size < 1 + n * width:
        return 0
    into[0] = width
    before = np.uint64(0)
    for i in range(n):
        number = np.uint64(numbers[i])
        left = number - before
        before = number if differences else before
        for byte in range(width):
            into[1 + byte * n + i] = (left >> np.uint64(8 * byte)) & _BYTE
    return 1 + n * width


@in_place
def read_column(column: Bytes, width: int, differences: bool, numbers: Ints) -> None:
    """Read numbers from the bytes of a column, without its width.

    Parameters
    ----------
    column : ndarray of uint8, shape (n * width,)
    width : int
        Bytes of a number.
    differences : bool
        Whether they are the differences of successive numbers.
    numbers : ndarray of int64, shape (n,)
        Written.
    """
    n = numbers.size
    if width < 1 or column.size < n * width:
        return
    before = np.uint64(0)
    for i in range(n):
        number = np.uint64(0)
        for byte in range(min(width, 8)):
            number |= np.uint64(column[byte * n + i]) << np.uint64(8 * byte)
        number += before
        before = number if differences else before
        numbers[i] = np.int64(number)


@in_place
def write_ids(ids: Ints, into: Bytes) -> None:
    """Write the differences of ids: the `LOW` low bytes of each, then the high ones.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
    into : ndarray of uint8, shape (at least 8 n,)
        Written.
    """
    n = min(ids.size, into.size // (LOW + 1))
    before = np.uint64(0)
    for i in range(n):
        left = np.uint64(ids[i]) - before
        before = np.uint64(ids[i])
        for byte in range(LOW):
            into[LOW * i + byte] = (left >> np.uint64(8 * byte)) & _BYTE
        into[LOW * n + i] = left >> np.uint64(8 * LOW)


@in_place
def read_ids(low: Bytes, high: Bytes, ids: Ints) -> bool:
    """Read ids from the low and the high bytes of their differences.

    Returns whether all are there, strictly increasing.

    Parameters
    ----------
    low, high : ndarray of uint8, shapes (at least `LOW` n,) and (at least n,)
    ids : ndarray of int64, shape (n,)
        Written.
    """
    n = min(ids.size, high.size, low.size // LOW)
    increasing = n == ids.size
    before = np.uint64(0)
    for i in range(n):
        number = np.uint64(high[i]) << np.uint64(8 * LOW)
        for byte in range(LOW):
            number |= np.uint64(low[LOW * i + byte]) << np.uint64(8 * byte)
        before += number
        ids[i] = np.int64(before)
        increasing &= i == 0 or ids[i - 1] < ids[i]
    return increasing
