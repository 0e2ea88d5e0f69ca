"""Multinomial naive Bayes as a linear classifier.

K. Weinberger, CS4780 Machine Learning for Intelligent Systems, Cornell
University, 2023.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.linear import gaussian_form, multinomial_form
from app.bayes.models.discrete import Multinomial
from app.bayes.models.gaussian import GaussianLikelihood
from app.bayes.posterior import log_posterior
from app.bayes.prior import FittedPrior
from app.bayes.smoothing import Lidstone
from app.bayes.sparse import Measurements, SparseCounts

MINUS, PLUS = 0, 1
#            meeting offer prize
MESSAGES = [
    (PLUS, (0, 2, 3)),
    (PLUS, (1, 4, 0)),
    (MINUS, (3, 1, 0)),
    (MINUS, (2, 0, 0)),
    (MINUS, (1, 0, 0)),
]
counts = st.tuples(*[st.integers(0, 6)] * 3)


def words(row):
    """Return the word counts of a message."""
    return SparseCounts.of({i: n for i, n in enumerate(row) if n})


def trained(smoothing=1.0):
    """Return model, state and log-prior."""
    model = Multinomial(smoothing=Lidstone(smoothing), counting="occurrences")
    state = FeatureCounts.sum(
        [model.observe(words(row), label=y, n_classes=2) for y, row in MESSAGES],
        n_classes=2,
    )
    return model, state, FittedPrior().log_prior(state.messages)


@pytest.mark.parametrize("smoothing", [Fraction(1), Fraction(1, 2)])
def test_the_estimate_of_a_word(smoothing):
    """(counts of i in c + l) / (words in c + l d), for every word and class."""
    model, state, _ = trained(float(smoothing))
    likelihood = model.estimate(state)
    for i in range(3):
        for c, total in ((MINUS, 7), (PLUS, 10)):
            count = sum(row[i] for y, row in MESSAGES if y == c)
            exact = (count + smoothing) / (total + 3 * smoothing)

            assert float(exact) == pytest.approx(
                math.exp(likelihood(SparseCounts.of({i: 1}))[c]), rel=1e-14
            )


def test_weights_and_bias():
    """They are differences of logs of estimates and of class shares."""
    weights, bias = multinomial_form(*trained()).difference(
        positive=PLUS, negative=MINUS
    )
    expected = [
        math.log(Fraction(2, 13) / Fraction(7, 10)),
        math.log(Fraction(7, 13) / Fraction(2, 10)),
        math.log(Fraction(4, 13) / Fraction(1, 10)),
    ]

    assert expected == pytest.approx(weights.tolist(), rel=1e-13)
    assert math.log(Fraction(2, 3)) == pytest.approx(bias, rel=1e-13)


@given(counts)
def test_the_line_decides_as_naive_bayes_does(row):
    """The score w x + b is positive exactly where the posterior of + is larger."""
    model, state, prior = trained()
    weights, bias = multinomial_form(model, state, prior).difference(
        positive=PLUS, negative=MINUS
    )
    score = float(weights @ np.array(row) + bias)
    minus, plus = log_posterior(model.estimate(state)(words(row)) + prior)

    assert score == pytest.approx(plus - minus, abs=1e-9)
    assert (score > 0) == (plus > minus)


@given(counts, st.integers(0, 2))
def test_a_word_twice_as_often_gives_twice_its_weight(row, i):
    """Its contribution doubles, the others stay."""
    model, state, _ = trained()
    likelihood = model.estimate(state)
    once = {j: n + (j == i) for j, n in enumerate(row) if n or j == i}
    twice = once | {i: 2 * once[i]}
    place = sorted(once).index(i)
    before = likelihood.contributions(SparseCounts.of(once)).features
    after = likelihood.contributions(SparseCounts.of(twice)).features
    before[place] *= 2

    assert np.allclose(before, after, rtol=1e-14, atol=0)


@given(st.floats(-20, 20), st.floats(-20, 20), st.sampled_from([-1, 1]))
def test_the_gaussian_posterior_with_equal_variances_is_logistic(x1, x2, y):
    """P(y | x) = 1 / (1 + exp(-y (w x + b)))."""
    likelihood = GaussianLikelihood(
        np.array([1, 2]),
        np.array([[-1.0, 2.0], [0.5, 1.0]]),
        np.array([[4.0, 4.0], [9.0, 9.0]]),
        2.0**-16,
    )
    prior = np.log([0.6, 0.4])
    x = Measurements.of({1: x1, 2: x2})
    weights, bias = gaussian_form(likelihood, prior).difference(
        positive=PLUS, negative=MINUS
    )
    score = weights @ (x.values * likelihood.step) + bias
    posterior = np.exp(log_posterior(likelihood(x) + prior))

    assert [3 / 4, 0.5 / 9] == pytest.approx(weights.tolist(), rel=1e-14)
    assert 1 / (1 + math.exp(-y * score)) == pytest.approx(
        posterior[PLUS if y == 1 else MINUS], rel=1e-9
    )
