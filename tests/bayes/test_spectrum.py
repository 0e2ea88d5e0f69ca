"""Document frequencies are counted once, and follow the features that move."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import Spectrum


def array(values):
    """Return whole numbers as an array."""
    return np.array(values, np.int64)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_features_that_move_are_counted_where_they_arrive(moves):
    """The same as counting anew; frequency 0 is never among them."""
    old, new = array([m for m, _ in moves]), array([m for _, m in moves])
    others = array([1, 3, 3])
    spectrum = Spectrum.of(np.concatenate((others, old)))
    moved = spectrum.moved(old, new - old)

    assert Spectrum.of(np.concatenate((others, new))) == moved
    assert Spectrum.of(np.concatenate((others, old))) == spectrum


def test_a_tally_stays_where_nothing_moves():
    """A message of one class leaves those of the others as they are."""
    spectrum = Spectrum.of(array([1, 2]))

    assert spectrum is spectrum.moved(array([1, 2]), array([0, 0]))


@pytest.mark.parametrize(("documents", "largest"), [([4, 0, 7, 7], 7), ([0], 0)])
def test_the_largest_frequency_is_at_hand(documents, largest):
    """It is 0 where the class has no feature."""
    assert largest == Spectrum.of(array(documents)).largest


def test_tallies_compare_only_with_tallies():
    """Equality is exact and looks at both arrays."""
    spectrum = Spectrum.of(array([1, 2]))

    assert spectrum != Spectrum.of(array([1, 3]))
    assert spectrum != Spectrum.of(array([1, 1, 2]))
    assert spectrum != "spectrum"
    with pytest.raises(TypeError, match="unhashable"):
        hash(spectrum)
