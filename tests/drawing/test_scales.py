"""Axes: values in order, ticks where people look for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.drawing import Linear, Logarithmic, Logit, written

numbers = st.floats(-1e6, 1e6)
spans = st.tuples(numbers, st.floats(1e-3, 1e6)).map(lambda s: Linear(s[0], sum(s)))
ratios = st.tuples(st.floats(1e-4, 1e3), st.floats(1.5, 1e6), st.booleans()).map(
    lambda s: Logarithmic(s[0], s[0] * s[1], zero=s[2])
)
scales = st.one_of(spans, ratios, st.builds(Logit))


@given(scales, numbers, numbers)
def test_greater_values_lie_further_along(scale, here, there):
    """And nothing lies beyond the ends."""
    low, high = sorted((here, there))

    assert 0 <= scale.position(low) <= scale.position(high) <= 1


@given(scales)
def test_ticks_are_in_order_and_can_be_told_apart(scale):
    """Each has its own place and its own words."""
    ticks = scale.ticks()
    places = [scale.position(value) for value, _ in ticks]

    assert places == sorted(set(places))
    assert len(ticks) == len({text for _, text in ticks})
    assert len(ticks) <= 40


@pytest.mark.parametrize(
    ("scale", "texts"),
    [
        (Linear(0, 1), "0 0.2 0.4 0.6 0.8 1"),
        (Linear(-35, 35), "-30 -20 -10 0 10 20 30"),
        (Linear(0, 0), "0"),
        (Logarithmic(10, 6000), "10 100 1,000"),
        (Logarithmic(1, 50), "1 2 5 10 20 50"),
        (Logarithmic(0.0136, 100, zero=True), "0 0.1 1 10 100"),
        (Logit(), "0.1 1 10 50 90 99 99.9"),
    ],
)
def test_ticks_are_round(scale, texts):
    """As a person would choose them."""
    assert texts.split() == [text for _, text in scale.ticks()]


def test_an_axis_without_length_puts_all_in_the_middle():
    """One message has one score."""
    assert 0.5 == Linear(3, 3).position(3)
    assert 0.0 == Logarithmic(3, 3).position(3)


@pytest.mark.parametrize(
    ("value", "text"), [(1234567.0, "1,234,567"), (0.1 + 0.2, "0.3"), (99.9, "99.9")]
)
def test_numbers_are_written_short(value, text):
    """Without the rounding errors of floats."""
    assert text == written(value)
