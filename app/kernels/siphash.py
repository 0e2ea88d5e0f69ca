"""SipHash-2-4: a keyed hash of 64-bit numbers, for all numbers of a message at once.

The specification is J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input
PRF", INDOCRYPT 2012.  A number is hashed as eight bytes, the lowest first, so there is
one block for the number and one for the length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import in_place, part

if TYPE_CHECKING:
    from numpy.typing import NDArray

_U: Final = np.uint64
# "somepseudorandomlygeneratedbytes"
_START_0: Final = _U(0x736F6D6570736575)
_START_1: Final = _U(0x646F72616E646F6D)
_START_2: Final = _U(0x6C7967656E657261)
_START_3: Final = _U(0x7465646279746573)
# The last block, without remaining bytes.
_LENGTH: Final = _U(8 << 56)
_END: Final = _U(0xFF)


@in_place
def siphash(
    numbers: NDArray[np.uint64], key: NDArray[np.uint64], into: NDArray[np.uint64]
) -> None:
    """Write the hash of each number under a key of two halves.

    Parameters
    ----------
    numbers : ndarray of uint64, shape (n,)
        The numbers.
    key : ndarray of uint64, shape (2,)
        The sixteen bytes of the key, as two little-endian numbers.
    into : ndarray of uint64, shape (n,)
        Written: the hashes, in the order of the numbers.
    """
    low, high = key[0], key[1]
    for i in range(min(numbers.size, into.size)):
        number = numbers[i]
        a, b = low ^ _START_0, high ^ _START_1
        c, d = low ^ _START_2, high ^ _START_3 ^ number
        for _ in range(2):
            a, b, c, d = _round(a, b, c, d)
        a, d = a ^ number, d ^ _LENGTH
        for _ in range(2):
            a, b, c, d = _round(a, b, c, d)
        a, c = a ^ _LENGTH, c ^ _END
        for _ in range(4):
            a, b, c, d = _round(a, b, c, d)
        into[i] = a ^ b ^ c ^ d


@part
def _round(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the state after one round."""
    a, c = a + b, c + d
    b, d = _turned(b, 13) ^ a, _turned(d, 16) ^ c
    a = _turned(a, 32)
    c, a = c + b, a + d
    b, d = _turned(b, 17) ^ c, _turned(d, 21) ^ a
    return a, b, _turned(c, 32), d


@part
def _turned(value: np.uint64, bits: int) -> np.uint64:
    """Return a number rotated to the left."""
    return value << _U(bits) | value >> _U(64 - bits)
