"""Shrinkage: stated or estimated, and always a matrix that can be factored."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf_shrinkage

from app.bayes.models.gaussian import (
    Discriminant,
    estimated_shrinkage,
    shrunk_factor,
)
from app.errors import InvalidObservation


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_a_fraction_that_is_no_share_is_refused(value):
    """A fraction goes from 0, the data alone, to 1, the target alone."""
    with pytest.raises(InvalidObservation, match="must be from 0 to 1"):
        Discriminant(shrinkage=value)


def test_the_estimate_is_the_expected_ledoit_wolf_shrinkage():
    """Over all normal samples with one covariance, scikit-learn's is right on average."""
    rng = np.random.default_rng(11)
    n, d = 60, 3
    correlation = np.array([[1.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.0]])
    root = np.linalg.cholesky(correlation).T
    shares = []
    for _ in range(4000):
        # Orthonormal columns in uniform directions: given its covariance,
        # that is the distribution of a normal sample.
        q, r = np.linalg.qr(rng.normal(size=(n, d)))
        sample = math.sqrt(n) * (q * np.sign(np.diagonal(r))) @ root
        shares.append(ledoit_wolf_shrinkage(sample, assume_centered=True))

    assert np.mean(shares) == pytest.approx(
        estimated_shrinkage(correlation, degrees=n), rel=0.01
    )


def test_the_estimate_falls_with_the_number_of_messages():
    """More data, more trust; no data, no trust."""
    correlation = np.array([[1.0, 0.5], [0.5, 1.0]])
    shares = [estimated_shrinkage(correlation, degrees=n) for n in (0, 1, 20, 10**6)]

    assert [1.0, 1.0] == shares[:2]
    assert 1 > shares[2] > shares[3] > 0
    assert 2e-5 > shares[3]


@pytest.mark.parametrize(
    ("degrees", "share"), [(-1, 1.0), (0, 1.0), (1, 1.0), (2, 0.5), (8, 0.35)]
)
def test_few_degrees_of_freedom_are_trusted_little(degrees, share):
    """Two fields in step: ((n - 2) / n * 4 + 4) / ((n + 2) * 2), by hand."""
    assert share == estimated_shrinkage(np.ones((2, 2)), degrees=degrees)


@pytest.mark.parametrize("d", [0, 1])
def test_without_correlations_the_target_is_all_there_is(d):
    """With one field or none, there are no correlations."""
    assert 1.0 == estimated_shrinkage(np.eye(d), degrees=100)


def test_a_regular_matrix_is_factored_as_asked():
    """The product of the factors is the shrunk matrix."""
    correlation = np.array([[1.0, 0.8], [0.8, 1.0]])
    factor = shrunk_factor(correlation, 0.25)

    assert np.allclose([[1.0, 0.6], [0.6, 1.0]], factor @ factor.T, rtol=1e-14)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_a_singular_matrix_is_shrunk_until_it_can_be_factored(d, rank, seed):
    """As little as is needed: the factor stays near the matrix."""
    vectors = np.random.default_rng(seed).normal(size=(d, min(d, rank)))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    correlation = vectors @ vectors.T
    factor = shrunk_factor(correlation, 0.0)

    assert np.isfinite(factor).all()
    assert (np.diagonal(factor) > 0).all()
    assert np.allclose(correlation, factor @ factor.T, atol=1e-6)


def test_a_pivot_of_rounding_errors_counts_as_singular():
    """By luck, such a factorisation succeeds with a pivot of 2e-16."""
    near = np.nextafter(1.0, 0.0)
    correlation = np.array([[1.0, near], [near, 1.0]])

    assert 0 < np.linalg.cholesky(correlation)[1, 1] < 1e-7
    assert 1e-5 < shrunk_factor(correlation, 0.0)[1, 1] < 1e-4


def test_a_matrix_that_is_no_correlation_becomes_the_target():
    """Rounding can never stop scoring."""
    wrong = np.array([[1.0, 2.0], [2.0, 1.0]])

    assert np.eye(2).tolist() == shrunk_factor(wrong, 0.2).tolist()
