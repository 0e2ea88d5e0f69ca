"""Integers of any size survive columns of 64 bits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidObservation
from app.ledger.sums import join_words, split

integers = st.integers(-(2**126), 2**126)


@given(integers)
def test_joining_is_the_inverse_of_splitting(value):
    """Each low word has 32 bits, and all have the sign of the value."""
    words = split(value)

    assert value == join_words(words)
    assert all(abs(word) < 2**32 for word in words[:2])
    assert all(word * value >= 0 for word in words)


@given(integers)
def test_splitting_is_odd(value):
    """Subtracting words is adding the words of the opposite number."""
    assert split(-value) == tuple(-word for word in split(value))


@given(st.lists(integers, max_size=20), st.lists(integers, max_size=20))
def test_columns_of_words_may_be_summed_in_any_order(learned, unlearned):
    """What a database adds up is what Python adds up."""
    columns = [0, 0, 0]
    for sign, values in ((1, learned), (-1, unlearned)):
        for value in values:
            columns = [
                column + sign * word
                for column, word in zip(columns, split(value), strict=True)
            ]

    assert sum(learned) - sum(unlearned) == join_words(columns)


@pytest.mark.parametrize("value", [2**127, -(2**127)])
def test_a_value_that_does_not_fit_is_refused(value):
    """Overflow is detected, never stored."""
    assert split(abs(value) - 1)[2] == 2**63 - 1

    with pytest.raises(InvalidObservation, match="does not fit into 3 words"):
        split(value)
