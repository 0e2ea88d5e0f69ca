"""Naive Bayes as a linear classifier: both identities, model by model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.linear import (
    bernoulli_form,
    discriminant_form,
    gaussian_form,
    multinomial_form,
)
from app.bayes.models.discrete import Bernoulli, Multinomial
from app.bayes.models.gaussian import Discriminant, Gaussian
from app.bayes.moments import MomentSums
from app.bayes.posterior import log_odds, log_posterior
from app.bayes.prior import SmoothedPrior
from app.bayes.smoothing import Lidstone, NoSmoothing
from app.bayes.sparse import Measurements, SparseCounts
from app.errors import InvalidObservation

K = 3
PRIOR = SmoothedPrior(1.0)
texts = st.dictionaries(st.integers(0, 6), st.integers(1, 5), max_size=6).map(
    SparseCounts.of
)
labels = st.integers(0, K - 1)
counted = st.lists(st.tuples(texts, labels), max_size=8)
rows = st.lists(st.floats(-8, 8), min_size=3, max_size=3).map(
    lambda row: Measurements.of(dict(enumerate(row)))
)
measured = st.lists(st.tuples(rows, labels), min_size=4, max_size=12)


def same_differences(joint, scores):
    """Whether two log-joints differ by a term that all classes share."""
    scale = 1 + np.abs(joint).max() + np.abs(scores).max()
    return np.allclose(
        joint - joint[0], scores - scores[0], rtol=1e-9, atol=1e-11 * scale
    )


@given(counted, texts, st.sampled_from(["occurrences", "presence"]))
def test_the_multinomial_log_odds_are_linear_in_the_counts(history, x, counting):
    """The bias is the prior, a weight the log-probability of a word."""
    model = Multinomial(smoothing=Lidstone(0.5), counting=counting)
    state = FeatureCounts.sum(
        [model.observe(m, label=c, n_classes=K) for m, c in history], n_classes=K
    )
    prior = PRIOR.log_prior(state.messages)
    values = x.counts if counting == "occurrences" else np.ones(x.size)
    joint = model.estimate(state)(x) + prior
    form = multinomial_form(model, state, prior)
    weights, bias = form.difference(positive=2, negative=0)
    dense = dict(zip(x.ids.tolist(), values.tolist(), strict=True))
    score = bias + sum(
        w * dense.get(i, 0) for i, w in zip(form.ids.tolist(), weights, strict=True)
    )

    assert np.allclose(joint, form.scores(x.ids, values.astype(float)), atol=1e-9)
    assert joint[2] - joint[0] == pytest.approx(score, abs=1e-9)


@given(counted, texts)
def test_the_bernoulli_log_odds_are_linear_in_the_presences(history, x):
    """The bias holds the absence of everything."""
    model = Bernoulli(smoothing=Lidstone(0.5))
    state = FeatureCounts.sum(
        [model.observe(m, label=c, n_classes=K) for m, c in history], n_classes=K
    )
    prior = PRIOR.log_prior(state.messages)
    form = bernoulli_form(model, state, prior)

    assert np.allclose(
        model.estimate(state)(x) + prior, form.scores(x.ids, np.ones(x.size)), atol=1e-9
    )


def train(history):
    """Return moment sums of measured messages."""
    return MomentSums.sum(
        [Gaussian().observe(x, label=c, n_classes=K) for x, c in history], n_classes=K
    )


@given(measured, rows)
def test_the_gaussian_posterior_with_shared_variances_is_logistic(history, x):
    """P(+) = 1 / (1 + exp(-(w x + b))) for each pair of classes."""
    state = train(history)
    likelihood = Gaussian(variances="shared").estimate(state)
    prior = PRIOR.log_prior(state.messages)
    joint = likelihood(x) + prior
    values = x.values * likelihood.step
    form = gaussian_form(likelihood, prior)
    weights, bias = form.difference(positive=1, negative=0)
    odds = float(weights @ values + bias)
    scale = np.abs(joint).max() + np.abs(form.scores(x.ids, values)).max()

    assert same_differences(joint, form.scores(x.ids, values))
    if scale < 1e4:
        pair = joint[:2]
        logistic = 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0

        assert odds == pytest.approx(
            log_odds(pair, np.array([False, True])), rel=1e-6, abs=1e-6
        )
        assert math.exp(log_posterior(pair)[1]) == pytest.approx(logistic, abs=1e-6)


@given(measured, rows)
def test_the_discriminant_log_odds_are_linear(history, x):
    """The quadratic term is the same for every class."""
    state = train(history)
    likelihood = Discriminant().estimate(state)
    prior = PRIOR.log_prior(state.messages)
    form = discriminant_form(likelihood, prior)

    assert same_differences(
        likelihood(x) + prior, form.scores(x.ids, x.values * likelihood.step)
    )


def test_own_variances_have_no_linear_form():
    """The error suggests shared variances."""
    state = train([(Measurements.of({0: v}), c) for v, c in ((1, 0), (2, 0), (9, 1))])

    with pytest.raises(InvalidObservation, match='use variances="shared"'):
        gaussian_form(Gaussian().estimate(state), np.zeros(K))


def test_an_impossible_absence_has_no_linear_form():
    """An infinite weight and an infinite bias do not add up."""
    model = Bernoulli(smoothing=NoSmoothing())
    state = model.observe(SparseCounts.of({1: 1}), label=0, n_classes=2)

    with pytest.raises(InvalidObservation, match="infinite"):
        bernoulli_form(model, state, np.zeros(2))


@pytest.mark.parametrize(
    ("model", "form"),
    [
        (Multinomial(smoothing=NoSmoothing()), multinomial_form),
        (Bernoulli(smoothing=NoSmoothing()), bernoulli_form),
    ],
)
def test_a_probability_of_zero_has_no_linear_form(model, form):
    """Its weight would be infinite, and the bias no number."""
    messages = ((1, 0), (2, 0), (3, 1), (4, 1))
    state = FeatureCounts.sum(
        [
            model.observe(SparseCounts.of({word: 1}), label=label, n_classes=2)
            for word, label in messages
        ],
        n_classes=2,
    )

    with pytest.raises(InvalidObservation, match="would be infinite"):
        form(model, state, np.zeros(2))


def test_features_without_a_weight_are_left_out():
    """Features without a weight are left out, as in the model."""
    model = Multinomial()
    state = model.observe(SparseCounts.of({1: 1}), label=0, n_classes=2)
    form = multinomial_form(model, state, np.zeros(2))

    assert [0.0, 0.0] == form.scores(np.array([-4, 7]), np.ones(2)).tolist()


@pytest.mark.parametrize(
    ("model", "form"),
    [
        (Multinomial(counting="occurrences", vocabulary=3), multinomial_form),
        (Bernoulli(vocabulary=3), bernoulli_form),
    ],
)
def test_a_declared_feature_has_a_weight(model, form):
    """Feature 2 has a weight, although training never saw it."""
    state = FeatureCounts.of(SparseCounts.of({0: 1}), label=0, n_classes=2)
    state += FeatureCounts.of(SparseCounts.of({1: 2}), label=1, n_classes=2)
    found = form(model, state, np.log([0.5, 0.5]))
    x = SparseCounts.of({0: 1, 2: 1})
    scores = found.scores(x.ids, x.counts.astype(float))

    assert [0, 1, 2] == found.ids.tolist()
    assert np.allclose(scores, model.estimate(state)(x) + np.log(0.5))
