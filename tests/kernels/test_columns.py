"""Columns of numbers equal a few plain lines of Python, and stay inside their arrays."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.kernels import columns
from app.kernels.columns import LOW

WHOLE = 2**64
NUMBERS = st.lists(
    st.integers(-3, 300) | st.integers(-(2**63), 2**63 - 1) | st.just(2**32), max_size=9
)


def ways(kernel):
    """Run a test with the compiled kernel, and with each index checked by Python."""
    return pytest.mark.parametrize(
        "kernel", [kernel, kernel.py_func], ids=["compiled", "checked"]
    )


def differences(numbers):
    """Return the first number and the differences of the others, as 64 bits."""
    return [(one - before) % WHOLE for before, one in pairwise([0, *numbers])]


def sums(numbers):
    """Return what has these differences, as signed numbers of 64 bits."""
    found = [number % WHOLE for number in accumulate(numbers)]
    return [number - WHOLE * (number >= WHOLE // 2) for number in found]


def in_bytes(numbers):
    """Return a column."""
    whole = [number % WHOLE for number in numbers]
    width = next(w for w in (1, 2, 4, 8) if max(whole, default=0) < 256**w)
    return bytes([width]) + bytes(
        number >> 8 * byte & 255 for byte in range(width) for number in whole
    )


@ways(columns.write_column)
@given(numbers=NUMBERS, apart=st.booleans())
@np.errstate(over="ignore")
def test_numbers_are_written_byte_by_byte(kernel, numbers, apart):
    """In the narrowest width that holds them."""
    into = np.empty(1 + 8 * len(numbers), np.uint8)
    size = kernel(np.array(numbers, np.int64), apart, into)

    expected = in_bytes(differences(numbers) if apart else numbers)
    assert expected == into[:size].tobytes()


@ways(columns.read_column)
@given(numbers=NUMBERS, apart=st.booleans())
@np.errstate(over="ignore")
def test_numbers_are_read_byte_by_byte(kernel, numbers, apart):
    """What was written comes back."""
    width, *column = in_bytes(differences(numbers) if apart else numbers)
    found = np.empty(len(numbers), np.int64)
    kernel(np.frombuffer(bytes(column), np.uint8), width, apart, found)
    # A narrow column has no negative numbers.
    assert numbers == found.tolist()


@ways(columns.write_ids)
@given(ids=NUMBERS)
@np.errstate(over="ignore")
def test_ids_are_written_in_two_parts(kernel, ids):
    """The low bytes of each id together, then the high bytes of all."""
    into = np.empty(8 * len(ids), np.uint8)
    kernel(np.array(ids, np.int64), into)

    each = [step.to_bytes(8, "little") for step in differences(ids)]
    expected = b"".join(step[:LOW] for step in each) + bytes(step[LOW] for step in each)
    assert expected == into.tobytes()


@ways(columns.read_ids)
@given(low=st.binary(max_size=40), high=st.binary(max_size=9), n=st.integers(0, 5))
@example(low=bytes([1, *[0] * 6] * 2), high=bytes(2), n=2)
@example(low=bytes(14), high=bytes(2), n=2)
@np.errstate(over="ignore")
def test_ids_are_read_from_any_bytes(kernel, low, high, n):
    """As many as there are; whether they are all there, and in order."""
    ids = np.full(n, 77)
    increasing = kernel(
        np.frombuffer(low, np.uint8), np.frombuffer(high, np.uint8), ids
    )

    there = min(n, len(high), len(low) // LOW)
    steps = [
        int.from_bytes(low[LOW * i : LOW * (i + 1)] + high[i : i + 1], "little")
        for i in range(there)
    ]
    assert [*sums(steps), *[77] * (n - there)] == ids.tolist()
    in_order = all(one < other for one, other in pairwise(sums(steps)))
    assert (there == n and in_order) == increasing


@ways(columns.write_column)
def test_a_column_without_room_is_not_written(kernel):
    """It says so, and leaves the bytes as they were."""
    into = np.full(8, 77, np.uint8)

    assert 0 == kernel(np.array([1, 2**40]), False, into)
    assert {77} == set(into.tolist())


@ways(columns.read_column)
@pytest.mark.parametrize("width", [-1, 0, 5, 2**40])
def test_a_column_that_is_too_short_is_not_read(kernel, width):
    """Nor one of numbers without a width."""
    found = np.full(2, 77)
    kernel(np.ones(9, np.uint8), width, False, found)

    assert [77, 77] == found.tolist()
