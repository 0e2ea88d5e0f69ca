"""Measurements are rounded once, at the edge, and bounded."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.sparse import LIMIT, Measurements
from app.errors import InvalidObservation


def array(*values):
    """Return a vector of 64-bit integers."""
    return np.array(values, np.int64)


@given(st.floats(-1e9, 1e9), st.integers(0, 16))
def test_a_value_is_rounded_to_the_nearest_step(value, bits):
    """The error is at most half a step, exactly."""
    steps = int(Measurements.of({1: value}, fraction_bits=bits).values[0])

    assert abs(Fraction(steps, 2**bits) - Fraction(value)) <= Fraction(
        1, 2 ** (bits + 1)
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2.0**31, -1e300])
def test_a_value_that_cannot_be_stored_is_refused(value):
    """Not a number, infinite, or beyond the limit: never a wrapped integer."""
    with pytest.raises(InvalidObservation, match="must be finite"):
        Measurements.of({1: value})


def test_large_values_fit_with_a_coarser_step():
    """Negative fraction bits make steps larger than one."""
    x = Measurements.of({1: 2.0**40}, fraction_bits=-10)

    assert [2**30] == x.values.tolist()


@pytest.mark.parametrize("value", [LIMIT + 1, -LIMIT - 1, -(2**63)])
def test_steps_beyond_the_limit_are_refused(value):
    """Among them is the smallest 64-bit integer, which has no absolute value."""
    with pytest.raises(InvalidObservation, match=f"got {value}"):
        Measurements(array(1), array(value))


def test_ids_and_values_must_fit_together():
    """Equally long, one-dimensional and strictly increasing."""
    with pytest.raises(InvalidObservation, match="equally long"):
        Measurements(array(1, 2), array(1))
    with pytest.raises(InvalidObservation, match="one-dimensional"):
        Measurements(array(1)[:, np.newaxis], array(1)[:, np.newaxis])
    with pytest.raises(InvalidObservation, match="strictly increasing"):
        Measurements(array(2, 1), array(1, 1))


def test_measurements_compare_by_value():
    """Measurements are compared by value, and cannot be hashed."""
    x = Measurements.of({2: 1.0, 1: 0.5})

    assert Measurements(array(1, 2), array(2**15, 2**16)) == x
    assert Measurements(array(1, 2), array(2**15, 0)) != x
    assert x != {}
    assert 2 == x.size
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
