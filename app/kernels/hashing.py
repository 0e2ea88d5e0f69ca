"""Hashes: XXH3 of bytes for feature ids, and SipHash-2-4 that hides ids under a key.

XXH3 is that of 64 bits, by Yann Collet's specification (github.com/Cyan4973/xxHash,
doc/xxhash_spec.md, "XXH3 algorithm"), with the default secret and the seed 0.

SipHash-2-4 is that of J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input
PRF", INDOCRYPT 2012, for all ids of a message at once.  An id is hashed as eight bytes,
the lowest first, so there is one block for the number and one for the length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import in_place, part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.kernels import Bytes


_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
# Eight bytes of the secret from each place on.
_KEY: Final = np.array(
    [int.from_bytes(_SECRET[i : i + 8], "little") for i in range(len(_SECRET) - 7)],
    np.uint64,
)
_U: Final = np.uint64
_LOW: Final = _U(0xFFFFFFFF)
_P32_1: Final = _U(0x9E3779B1)
_P64_1: Final = _U(0x9E3779B185EBCA87)
_P64_2: Final = _U(0xC2B2AE3D27D4EB4F)
_P64_3: Final = _U(0x165667B19E3779F9)
_START: Final = np.array(
    [0xC2B2AE3D, _P64_1, _P64_2, _P64_3, 0x85EBCA77C2B2AE63, 0x85EBCA77,
     0x27D4EB2F165667C5, _P32_1], np.uint64,
)  # fmt: skip
_MIX: Final = _U(0x165667919E3779F9)
_SHORT_MIX: Final = _U(0x9FB21C651E98DF25)


@part
def xxh3(data: Bytes, start: int, stop: int) -> np.uint64:
    """Return the hash of the bytes from `start` to `stop`, which are inside `data`."""
    size = stop - start
    if size > 240:
        return _of_long(data, start, stop)
    if size > 128:
        return _of_medium(data, start, stop)
    if size > 16:
        total = _U(size) * _P64_1
        for i in range((size - 1) // 32, -1, -1):
            total += _mixed(data, start + 16 * i, 32 * i)
            total += _mixed(data, stop - 16 * (i + 1), 32 * i + 16)
        return _spread(total)
    if size > 8:
        low = _eight(data, start) ^ (_KEY[24] ^ _KEY[32])
        high = _eight(data, stop - 8) ^ (_KEY[40] ^ _KEY[48])
        swapped = _swapped(low)
        return _spread(_U(size) + swapped + high + _folded(low, high))
    if size > 3:
        both = _four(data, stop - 4) + (_four(data, start) << _U(32))
        both ^= _KEY[8] ^ _KEY[16]
        both ^= _turned(both, 49) ^ _turned(both, 24)
        both *= _SHORT_MIX
        both ^= (both >> _U(35)) + _U(size)
        both *= _SHORT_MIX
        return _U(both ^ (both >> _U(28)))
    if not size:
        return _avalanche(_KEY[56] ^ _KEY[64])
    few = _U(data[start]) << _U(16) | _U(data[start + size // 2]) << _U(24)
    few |= _U(data[stop - 1]) | _U(size) << _U(8)
    return _avalanche(few ^ ((_KEY[0] & _LOW) ^ (_KEY[4] & _LOW)))


@part
def _of_medium(data: Bytes, start: int, stop: int) -> np.uint64:
    """Return the hash of 129 to 240 bytes."""
    size = stop - start
    total = _U(size) * _P64_1
    for i in range(8):
        total += _mixed(data, start + 16 * i, 16 * i)
    total = _spread(total)
    for i in range(8, size // 16):
        total += _mixed(data, start + 16 * i, 16 * (i - 8) + 3)
    return _spread(total + _mixed(data, stop - 16, 119))


@part
def _of_long(data: Bytes, start: int, stop: int) -> np.uint64:
    """Return the hash of more than 240 bytes."""
    total = _U(stop - start) * _P64_1
    for lane in range(0, 8, 2):
        one = _lane(data, start, stop, lane) ^ _KEY[11 + 8 * lane]
        total += _folded(one, _lane(data, start, stop, lane + 1) ^ _KEY[19 + 8 * lane])
    return _spread(total)


@part
def _lane(data: Bytes, start: int, stop: int, lane: int) -> np.uint64:
    """Return one of the eight sums over stripes of 64 bytes."""
    total: np.uint64 = _START[lane]
    stripes = (stop - start - 1) // 64
    for stripe in range(stripes + 1):
        # The last stripe ends at the end of the bytes.
        at = start + 64 * stripe if stripe < stripes else stop - 64
        key = 8 * (stripe % 16 + lane) if stripe < stripes else 121 + 8 * lane
        keyed = _eight(data, at + 8 * lane) ^ _KEY[key]
        total += _eight(data, at + 8 * (lane ^ 1))
        total += (keyed & _LOW) * (keyed >> _U(32))
        if stripe < stripes and stripe % 16 == 15:
            total = (total ^ (total >> _U(47)) ^ _KEY[128 + 8 * lane]) * _P32_1
    return total


@part
def _mixed(data: Bytes, at: int, key: int) -> np.uint64:
    """Return 16 bytes as one number."""
    return _folded(_eight(data, at) ^ _KEY[key], _eight(data, at + 8) ^ _KEY[key + 8])


@part
def _eight(data: Bytes, at: int) -> np.uint64:
    """Return eight bytes as a little-endian number."""
    return _four(data, at) | _four(data, at + 4) << _U(32)


@part
def _four(data: Bytes, at: int) -> np.uint64:
    """Return four bytes as a little-endian number."""
    low = _U(data[at]) | _U(data[at + 1]) << _U(8)
    return low | _U(data[at + 2]) << _U(16) | _U(data[at + 3]) << _U(24)


@part
def _folded(one: np.uint64, other: np.uint64) -> np.uint64:
    """Return the xor of the halves of the 128-bit product."""
    a, b, c, d = one & _LOW, one >> _U(32), other & _LOW, other >> _U(32)
    low, left, right, high = a * c, b * c, a * d, b * d
    cross = (low >> _U(32)) + (left & _LOW) + right
    upper = (left >> _U(32)) + (cross >> _U(32)) + high
    return upper ^ (cross << _U(32) | low & _LOW)


@part
def _swapped(value: np.uint64) -> np.uint64:
    """Return a number with its eight bytes reversed."""
    found = _U(0)
    for shift in range(0, 64, 8):
        found = found << _U(8) | (value >> _U(shift)) & _U(255)
    return found


@part
def _turned(value: np.uint64, bits: int) -> np.uint64:
    """Return a number rotated to the left."""
    return value << _U(bits) | value >> _U(64 - bits)


@part
def _spread(value: np.uint64) -> np.uint64:
    """Spread the bits of a sum over the number."""
    value ^= value >> _U(37)
    value *= _MIX
    return value ^ (value >> _U(32))


@part
def _avalanche(value: np.uint64) -> np.uint64:
    """Spread a few bytes over the number, like the end of XXH64."""
    value ^= value >> _U(33)
    value *= _P64_2
    value ^= value >> _U(29)
    value *= _P64_3
    return value ^ (value >> _U(32))


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
