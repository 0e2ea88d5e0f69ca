"""The kernel of SipHash-2-4 equals a few plain lines, which equal published hashes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kernels.hashing import siphash

KEY = bytes(range(16))
MASK = 2**64 - 1
numbers = st.integers(0, MASK)


def turned(value, bits):
    """Return 64 bits rotated to the left."""
    return (value << bits | value >> 64 - bits) & MASK


def rounds(state, number):
    """Return the state after some rounds, as the paper writes them."""
    a, b, c, d = state
    for _ in range(number):
        a = (a + b) & MASK
        b = turned(b, 13) ^ a
        a = turned(a, 32)
        c = (c + d) & MASK
        d = turned(d, 16) ^ c
        a = (a + d) & MASK
        d = turned(d, 21) ^ a
        c = (c + b) & MASK
        b = turned(b, 17) ^ c
        c = turned(c, 32)
    return a, b, c, d


def plain(content, key=KEY):
    """Return SipHash-2-4 of any bytes."""
    low, high = struct.unpack("<2Q", key)
    begin = struct.unpack(">4Q", b"somepseudorandomlygeneratedbytes")
    a, b, c, d = (
        half ^ part for half, part in zip((low, high) * 2, begin, strict=True)
    )
    padded = content + bytes(7 - len(content) % 8) + bytes([len(content) % 256])
    for (block,) in struct.iter_unpack("<Q", padded):
        a, b, c, d = rounds((a, b, c, d ^ block), 2)
        a ^= block
    a, b, c, d = rounds((a, b, c ^ 0xFF, d), 4)
    return a ^ b ^ c ^ d


def hashes(values, key=KEY):
    """Return what the kernel makes of some numbers."""
    into = np.zeros(len(values), np.uint64)
    siphash(np.array(values, np.uint64), np.frombuffer(key, "<u8"), into)
    return into.tolist()


# Of the reference implementation (github.com/veorq/SipHash, vectors.h), the first bytes
# of 00 01 02 ..., under the key 00 01 ... 0f; that of 15 bytes is in the paper as well.
@pytest.mark.parametrize(
    ("size", "published"),
    [
        (0, "310e0edd47db6f72"),
        (1, "fd67dc93c539f874"),
        (7, "37d1018bf50002ab"),
        (8, "6224939a79f5f593"),
        (15, "e545be4961ca29a1"),
    ],
)
def test_the_plain_lines_have_the_published_hashes(size, published):
    """Of texts shorter and longer than a block, and of one block."""
    assert published == struct.pack("<Q", plain(bytes(range(size)))).hex()


def test_the_kernel_has_the_published_hash():
    """Of eight bytes, which is what a number is."""
    number = int.from_bytes(bytes(range(8)), "little")

    assert [int.from_bytes(bytes.fromhex("6224939a79f5f593"), "little")] == hashes(
        [number]
    )


@given(st.lists(numbers, max_size=9), st.binary(min_size=16, max_size=16))
def test_the_kernel_equals_the_plain_lines(values, key):
    """For any numbers under any key."""
    expected = [plain(struct.pack("<Q", value), key) for value in values]

    assert expected == hashes(values, key)


def test_the_kernel_stays_inside_its_arrays():
    """Where there is less room than there are numbers."""
    into = np.zeros(1, np.uint64)
    siphash(np.arange(3, dtype=np.uint64), np.frombuffer(bytes(16), "<u8"), into)

    assert plain(bytes(8), bytes(16)) == into[0]
