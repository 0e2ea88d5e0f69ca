"""The Gaussian discriminant against scikit-learn and SciPy, singular or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from app.bayes.models.gaussian import Discriminant
from app.bayes.moments import MomentSums
from app.bayes.posterior import log_posterior
from app.bayes.prior import FittedPrior
from app.bayes.sparse import Measurements

BITS = 30
STEP = 2.0**-BITS
PLAIN = Discriminant(fraction_bits=BITS, shrinkage=0.0)


def message(row):
    """Return fields 0, 1, ... of a row."""
    return Measurements.of(dict(enumerate(row)), fraction_bits=BITS)


def train(rows, labels, n_classes):
    """Return the state after learning the rows one by one."""
    state = MomentSums.zero(n_classes)
    for row, label in zip(rows, labels, strict=True):
        state = state + PLAIN.observe(
            message(row), label=int(label), n_classes=n_classes
        )
    return state


def sample(seed, n_classes, n_fields):
    """Return correlated rows in steps, labels and queries."""
    rng = np.random.default_rng(seed)
    # Two of each class, at least: scikit-learn warns of a single one.
    each = np.tile(np.arange(n_classes), 2)
    labels = np.concatenate([each, rng.integers(0, n_classes, 30)])
    mix = np.eye(n_fields) + rng.normal(0, 0.3, (n_fields, n_fields))
    rows = rng.normal(size=(labels.size, n_fields)) @ mix + labels[:, np.newaxis]
    queries = rng.normal(1, 2, (5, n_fields))
    return (
        np.round(rows / STEP) * STEP,
        labels,
        np.round(queries / STEP) * STEP,
    )


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(1, 5))
def test_the_posterior_is_that_of_linear_discriminant_analysis(
    seed, n_classes, n_fields
):
    """Maximum likelihood, no shrinkage, single and in a batch."""
    rows, labels, queries = sample(seed, n_classes, n_fields)
    state = train(rows, labels, n_classes)
    oracle = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True)
    oracle.fit(rows, labels)
    # Near a singular matrix the oracle's least squares lose digits.
    assume(np.linalg.cond(oracle.covariance_) < 1e4)
    likelihood = PLAIN.estimate(state)
    joint = np.array([likelihood(message(q)) for q in queries])
    joint = joint + FittedPrior().log_prior(state.messages)

    assert np.allclose(oracle.covariance_, likelihood.covariance, rtol=1e-9, atol=1e-12)
    # Not predict_log_proba, which is a logarithm of probabilities and loses
    # the small ones.
    decisions = oracle.decision_function(queries)
    if n_classes == 2:
        assert np.allclose(decisions, joint[:, 1] - joint[:, 0], rtol=1e-7, atol=1e-7)
    else:
        assert np.allclose(
            log_posterior(decisions), log_posterior(joint), rtol=1e-7, atol=1e-7
        )


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 1.0))
def test_a_stated_shrinkage_is_that_of_linear_discriminant_analysis(seed, share):
    """On standardised fields, where its target is the same."""
    rows, labels, _ = sample(seed, 2, 4)
    within = rows - np.array([rows[labels == c].mean(axis=0) for c in (0, 1)])[labels]
    rows = rows / within.std(axis=0)
    oracle = LinearDiscriminantAnalysis(
        solver="lsqr", shrinkage=share, store_covariance=True
    ).fit(rows, labels)
    model = Discriminant(fraction_bits=BITS, shrinkage=share)
    likelihood = model.estimate(train(rows, labels, 2))

    assert np.allclose(oracle.covariance_, likelihood.covariance, atol=1e-7)


def test_densities_are_those_of_scipy():
    """The log-density of a correlated normal, contributions included."""
    rows, labels, queries = sample(5, 2, 3)
    likelihood = PLAIN.estimate(train(rows, labels, 2))
    for query in queries:
        expected = [
            multivariate_normal.logpdf(query, mean, likelihood.covariance)
            for mean in likelihood.means.T
        ]

        assert np.allclose(expected, likelihood(message(query)), rtol=1e-10)


def test_a_message_that_lacks_fields_is_scored_by_the_marginal():
    """The score uses the block of the covariance for the fields of the message."""
    rows, labels, _ = sample(6, 2, 3)
    likelihood = PLAIN.estimate(train(rows, labels, 2))
    partial = Measurements.of({-1: 5.0, 0: 0.5, 2: 1.5, 8: 1.0}, fraction_bits=BITS)
    block = likelihood.covariance[np.ix_([0, 2], [0, 2])]
    expected = [
        multivariate_normal.logpdf([0.5, 1.5], mean[[0, 2]], block)
        for mean in likelihood.means.T
    ]

    assert np.allclose(expected, likelihood(partial), rtol=1e-10)
    assert [False, True, True, False] == likelihood.contributions(partial).seen.tolist()
    assert [0.0, 0.0] == likelihood(Measurements.of({9: 1.0})).tolist()


def test_a_field_that_some_training_message_lacks_takes_no_part():
    """Its covariance with the others is not known for all of them."""
    state = train([[1, 2], [2, 4], [5, 1], [6, 3]], [0, 0, 1, 1], 2)
    state = state + PLAIN.observe(message([3]), label=0, n_classes=2)

    assert [0] == PLAIN.estimate(state).ids.tolist()


def test_fewer_messages_than_dimensions_are_enough():
    """Shrinkage makes the covariance regular; nearer means win."""
    rng = np.random.default_rng(3)
    rows = np.vstack([rng.normal(-1, 1, (3, 20)), rng.normal(1, 1, (3, 20))])
    state = train(rows, [0, 0, 0, 1, 1, 1], 2)
    for model in (PLAIN, Discriminant(fraction_bits=BITS)):
        likelihood = model.estimate(state)
        ham = likelihood(message([-1] * 20))
        spam = likelihood(message([1] * 20))

        assert np.isfinite([ham, spam]).all()
        assert ham[0] > ham[1]
        assert spam[1] > spam[0]


def test_the_estimated_shrinkage_has_a_degree_less_for_each_class_with_messages():
    """Four messages, two classes, a third one empty: two degrees, a half."""
    state = train([[0, 0], [2, 2], [5, 5], [7, 7]], [0, 0, 1, 1], 3)
    covariance = Discriminant(fraction_bits=BITS).estimate(state).covariance

    assert np.allclose([[1, 0.5], [0.5, 1]], covariance, rtol=1e-12)


def test_a_class_with_one_message_shares_the_covariance_of_the_others():
    """Its mean is that message; its scatter is zero."""
    state = train([[0, 0], [2, 0], [1, 3], [9, 9]], [0, 0, 0, 1], 2)
    likelihood = PLAIN.estimate(state)

    assert [9.0, 9.0] == likelihood.means[:, 1].tolist()
    assert np.allclose([[0.5, 0], [0, 1.5]], likelihood.covariance, atol=1e-12)


def test_one_message_in_all_is_no_error():
    """Nothing varies: the floor keeps the density finite."""
    state = train([[4, 4]], [1], 2)
    answer = Discriminant(fraction_bits=BITS).estimate(state)(message([4, 5]))

    assert np.isfinite(answer).all()
    assert answer[0] == answer[1]


def test_a_class_without_messages_is_given_the_mean_of_all():
    """It neither wins nor loses."""
    state = train([[0, 0], [2, 1], [4, 4], [6, 7]], [0, 0, 1, 1], 3)

    assert [3.0, 3.0] == PLAIN.estimate(state).means[:, 2].tolist()


def test_a_constant_field_gets_the_floor_or_is_dropped():
    """Constant within every class; between classes it may differ."""
    state = train([[1, 0], [1, 8], [5, 0], [5, 8]], [0, 0, 1, 1], 2)
    kept = PLAIN.estimate(state)
    dropped = Discriminant(fraction_bits=BITS, constant="drop").estimate(state)

    assert [0, 1] == kept.ids.tolist()
    assert 16e-9 == pytest.approx(kept.covariance[0, 0], rel=1e-9)
    assert [1] == dropped.ids.tolist()
    assert np.isfinite(kept(message([3, 3]))).all()


def test_before_the_first_message_every_class_is_alike():
    """No field was seen, so no field has evidence."""
    likelihood = Discriminant().estimate(MomentSums.zero(3))

    assert [0.0] * 3 == likelihood(Measurements.of({1: 2.0})).tolist()
