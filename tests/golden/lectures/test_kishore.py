"""Gaussian naive Bayes by maximum likelihood.

A. Kishore, AI511 Machine Learning, International Institute of Information
Technology Bangalore, 2021.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from app.bayes.models.gaussian import Gaussian
from app.bayes.moments import MomentSums
from app.bayes.prior import FittedPrior
from app.bayes.sparse import Measurements

#        class  height  weight
ROWS = [
    (0, 1, 4),
    (0, 2, 8),
    (0, 6, 6),
    (1, 7, 1),
    (1, 9, 2),
]


@pytest.fixture
def state():
    """The sums of the five rows."""
    return MomentSums.sum(
        [
            Gaussian().observe(Measurements.of({0: a, 1: b}), label=c, n_classes=2)
            for c, a, b in ROWS
        ],
        n_classes=2,
    )


def members(label, column):
    """Return the values of a class as exact fractions."""
    return [Fraction(row[column]) for row in ROWS if row[0] == label]


def test_mean_and_variance_are_over_n(state):
    """Not over n - 1."""
    likelihood = Gaussian().estimate(state)
    for label in (0, 1):
        for column in (1, 2):
            values = members(label, column)
            mean = sum(values) / len(values)
            variance = sum((v - mean) ** 2 for v in values) / len(values)

            assert float(mean) == likelihood.means[column - 1, label]
            assert float(variance) == likelihood.variances[column - 1, label]


def test_densities_multiply_and_log_densities_add(state):
    """Features are independent given the class."""
    likelihood = Gaussian().estimate(state)
    both = likelihood(Measurements.of({0: 5, 1: 5}))
    apart = likelihood(Measurements.of({0: 5})) + likelihood(Measurements.of({1: 5}))
    densities = norm.pdf(5, 3, math.sqrt(14 / 3)) * norm.pdf(5, 6, math.sqrt(8 / 3))

    assert np.allclose(apart, both, rtol=1e-15)
    assert densities == pytest.approx(math.exp(both[0]), rel=1e-13)


@pytest.mark.parametrize("query", [(1, 4), (8, 1), (6, 4), (7, 3), (5, 2)])
def test_the_largest_product_of_likelihood_and_share_decides(state, query):
    """P(x | c) n_c / n, computed from the rows alone."""
    products = []
    for label in (0, 1):
        product = len(members(label, 1)) / len(ROWS)
        for column, x in zip((1, 2), query, strict=True):
            values = [float(v) for v in members(label, column)]
            product *= norm.pdf(x, np.mean(values), np.std(values))
        products.append(product)
    joint = Gaussian().estimate(state)(Measurements.of(dict(enumerate(query))))
    joint = joint + FittedPrior().log_prior(state.messages)

    assert np.argmax(products) == np.argmax(joint)
    assert np.allclose(np.log(products), joint, rtol=1e-10)
