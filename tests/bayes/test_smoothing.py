"""Smoothing turns counts into probabilities, and zeros into what was asked."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from app.bayes.smoothing import Epsilon, Lidstone, NoSmoothing
from app.errors import InvalidObservation

COUNTS = np.array([0, 1, 3])
TOTAL = np.array(4)


def test_lidstone_adds_alpha_to_every_count():
    """The estimate is the exact fraction, to the last bit of its logarithm."""
    exact = [Fraction(n * 2 + 1, 4 * 2 + 3) for n in (0, 1, 3)]

    assert [math.log(p) for p in exact] == pytest.approx(
        Lidstone(0.5).log_probability(COUNTS, TOTAL, 3).tolist(), rel=1e-15
    )


def test_epsilon_replaces_zeros_and_renormalises_nothing():
    """Only the zero changes."""
    expected = np.log([1e-3, 0.25, 0.75]).tolist()

    assert expected == Epsilon(1e-3).log_probability(COUNTS, TOTAL, 3).tolist()


def test_without_smoothing_a_zero_is_impossible():
    """The logarithm of nothing is minus infinity, without a warning."""
    expected = [-math.inf, math.log(0.25), math.log(0.75)]

    assert expected == NoSmoothing().log_probability(COUNTS, TOTAL, 3).tolist()


@pytest.mark.parametrize(
    ("smoothing", "expected"),
    [
        (Lidstone(2.0), math.log(0.25)),
        (Epsilon(1e-3), math.log(1e-3)),
        (NoSmoothing(), -math.inf),
    ],
)
def test_a_class_without_draws_has_a_probability(smoothing, expected):
    """A class without draws causes no division by zero."""
    none = np.array(0)

    assert expected == smoothing.log_probability(none, none, 4)


def test_totals_and_numbers_of_values_broadcast():
    """Each row may have its own total, each column its own number of values."""
    counts = np.array([[0, 1], [2, 3]])
    totals = np.array([[1], [5]])
    values = np.array([2, 3])
    expected = [[1 / 3, 2 / 4], [3 / 7, 4 / 8]]

    for smoothing in (Epsilon(0.1), NoSmoothing()):
        assert (2, 2) == smoothing.log_probability(counts, totals, values).shape
    assert np.allclose(
        expected,
        np.exp(Lidstone(1.0).log_probability(counts, totals, values)),
        rtol=1e-15,
        atol=0,
    )


def test_counts_of_billions_and_tiny_alphas_are_finite_and_right():
    """Neither end of the range overflows or underflows."""
    counts = np.array([0, 10**9, 2**62])
    for alpha in (1e-100, 1e-10, 1.0, 1e100):
        exact = [
            (Fraction(int(n)) + Fraction(alpha)) / (2**62 + Fraction(alpha) * 10**6)
            for n in counts
        ]
        logs = Lidstone(alpha).log_probability(counts, np.array(2**62), 10**6)
        expected = [math.log(p.numerator) - math.log(p.denominator) for p in exact]

        assert expected == pytest.approx(logs.tolist(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, math.inf, 1e-300])
def test_an_alpha_that_is_no_pseudo_count_is_refused(alpha):
    """The error names the limits, and no class of the code."""
    with pytest.raises(
        InvalidObservation, match=r"between 1e-100 and 1e\+100, got [^;]*$"
    ):
        Lidstone(alpha)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, -0.5, math.nan])
def test_an_epsilon_that_is_no_small_probability_is_refused(epsilon):
    """Zero would be no smoothing, one would be certainty."""
    with pytest.raises(InvalidObservation, match="strictly between 0 and 1"):
        Epsilon(epsilon)
