"""Moment statistics: exact at any size, and refused where impossible."""

from __future__ import annotations

import numpy as np
import pytest

from app.bayes.moments import MomentSums
from app.bayes.sparse import LIMIT, Measurements
from app.errors import InvalidObservation


def message(values, label=0):
    """Return what one message of a two-class profile adds."""
    x = Measurements(
        np.array(sorted(values), np.int64),
        np.array([values[i] for i in sorted(values)], np.int64),
    )
    return MomentSums.of(x, label=label, n_classes=2)


def test_one_message_adds_its_powers_to_its_class_only():
    """Sums, pairs and products go to the column of the label."""
    state = message({3: 2, 5: -7}, label=1)

    assert [0, 1] == state.messages.tolist()
    assert [[0, 2], [0, -7]] == state.sums.tolist()
    assert [[1, 1], [1, 1]] == state.pairs[:, :, 1].tolist()
    assert [[4, -14], [-14, 49]] == state.products[:, :, 1].tolist()
    assert [[0, 4], [0, 49]] == state.squares.tolist()
    assert not state.products[:, :, 0].any()


def test_missing_fields_are_counted_pair_by_pair():
    """Two messages have field 1, one has both."""
    state = message({1: 2, 2: 3}) + message({1: 5})

    assert [2, 1] == state.documents[:, 0].tolist()
    assert [[2, 1], [1, 1]] == state.pairs[:, :, 0].tolist()
    assert [[29, 6], [6, 9]] == state.products[:, :, 0].tolist()


def test_sums_beyond_64_bits_are_exact():
    """The largest measurement does not overflow when squared and summed."""
    state = message({1: LIMIT, 2: -LIMIT})
    many = MomentSums.sum([state] * 100, n_classes=2)

    assert 100 * LIMIT**2 == many.products[0, 0, 0]
    assert -100 * LIMIT**2 == many.products[0, 1, 0]
    assert MomentSums.zero(2) == many - many


def test_sums_that_outgrow_64_bits_stay_exact():
    """Sums are exact one by one, all at once, negative, and when taken back."""
    one = message({1: 2**30, 2: -(2**30)})
    state = MomentSums.zero(2)
    for n in range(1, 21):
        state = state + one

        assert n * 2**60 == state.products[0, 0, 0]
        assert -n * 2**60 == state.products[0, 1, 0]
        assert one * n == state
    assert MomentSums.sum([one] * 20, n_classes=2) == state
    for _ in range(19):
        state = state - one

    assert one == state


def test_whoever_asks_for_sums_gets_what_cannot_overflow():
    """Sums are returned as Python integers, however they are stored."""
    state = message({1: 2**30})

    for sums in (state.sums, state.squares, state.products):
        assert np.object_ == sums.dtype
        assert 2**200 < int((sums**10).max())


def test_a_field_without_sums_leaves_no_row():
    """Equal statistics are equal arrays; a measured zero is kept."""
    state = message({1: 0})

    assert state == state + message({2: 4}) - message({2: 4})
    assert [1, 2] == (state + message({2: 4})).ids.tolist()


def test_statistics_compare_only_with_statistics():
    """Equality is exact and looks at every array."""
    state = message({1: 3})

    assert message({1: 4}) != state
    assert message({1: 3}, label=1) != state
    assert state != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(state)


@pytest.mark.parametrize("label", [-1, 2])
def test_a_label_out_of_range_is_refused(label):
    """Negative indices do not count from the end."""
    with pytest.raises(InvalidObservation, match=f"label {label} is not"):
        message({1: 1}, label=label)
