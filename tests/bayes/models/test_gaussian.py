"""Gaussian naive Bayes against scikit-learn, SciPy and exact fractions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.naive_bayes import GaussianNB

from app.bayes.models.discrete import Multinomial
from app.bayes.models.gaussian import Discriminant, Gaussian
from app.bayes.moments import MomentSums
from app.bayes.posterior import log_posterior
from app.bayes.prior import FittedPrior
from app.bayes.sparse import LIMIT, Measurements
from app.errors import InvalidObservation

STEP = 2.0**-16
ROUNDING = STEP**2 / 12


def train(rows, labels, n_classes):
    """Return the state after learning rows of fields 0, 1, ... one by one."""
    state = MomentSums.zero(n_classes)
    for row, label in zip(rows, labels, strict=True):
        x = Measurements.of(dict(enumerate(row)))
        state = state + Gaussian().observe(x, label=int(label), n_classes=n_classes)
    return state


@given(
    seed=st.integers(0, 2**32 - 1),
    n_classes=st.integers(2, 4),
    n_fields=st.integers(1, 5),
)
def test_the_posterior_is_that_of_scikit_learn(seed, n_classes, n_fields):
    """One dimension and many, single and in a batch."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate(
        [np.arange(n_classes)] * 2 + [rng.integers(0, n_classes, 9)]
    )
    # Multiples of the step, so that both see the same numbers.
    rows = np.round(rng.normal(labels[:, np.newaxis], 2, (labels.size, n_fields)), 1)
    rows = np.round(rows / STEP) * STEP
    queries = np.round(rng.normal(1, 3, (5, n_fields)) / STEP) * STEP
    # The oracle adds its floor to every variance instead of taking a maximum.
    oracle = GaussianNB(var_smoothing=1e-30).fit(rows, labels)
    assume((oracle.var_ > 1e-6).all())
    state = train(rows, labels, n_classes)
    likelihood = Gaussian(floor=0.0).estimate(state)
    log_joint = np.array(
        [likelihood(Measurements.of(dict(enumerate(q)))) for q in queries]
    )
    log_joint = log_joint + FittedPrior().log_prior(state.messages)

    assert np.allclose(oracle.theta_.T, likelihood.means, rtol=1e-12, atol=1e-12)
    assert np.allclose(oracle.var_.T, likelihood.variances, rtol=1e-9)
    assert np.allclose(oracle.predict_joint_log_proba(queries), log_joint, rtol=1e-9)
    assert np.allclose(
        oracle.predict_log_proba(queries), log_posterior(log_joint), atol=1e-8
    )


def test_densities_are_those_of_scipy():
    """Each contribution is the log-density of one field."""
    state = train([[1, 10], [3, 14], [2, 0], [8, 1]], [0, 0, 1, 1], 2)
    parts = Gaussian().estimate(state).contributions(Measurements.of({0: 2.5, 1: 3}))
    expected = [
        [norm.logpdf(2.5, 2, 1), norm.logpdf(2.5, 5, 3)],
        [norm.logpdf(3, 12, 2), norm.logpdf(3, 0.5, 0.5)],
    ]

    assert np.allclose(expected, parts.features, rtol=1e-12)
    assert [True, True] == parts.seen.tolist()


def test_a_large_mean_does_not_drown_a_small_variance():
    """Integers lose no digit where floating-point sums would lose all."""
    state = train([[1e9 + i] for i in (1, 2, 3)], [0, 0, 0], 2)
    likelihood = Gaussian().estimate(state)

    assert 1e9 + 2 == likelihood.means[0, 0]
    assert 2 / 3 == pytest.approx(likelihood.variances[0, 0], rel=1e-15)


def test_measurements_of_the_largest_size_are_finite_and_right():
    """Means and variances of sums beyond 64 bits."""
    top = LIMIT * STEP
    state = train([[top], [-top]] * 50, [0] * 100, 2)
    likelihood = Gaussian().estimate(state)

    assert 0 == likelihood.means[0, 0]
    assert top**2 == pytest.approx(likelihood.variances[0, 0], rel=1e-15)
    assert np.isfinite(likelihood(Measurements.of({0: top}))).all()


def test_a_feature_constant_in_one_class_gets_the_floor():
    """The floor is a fraction of the largest variance over all messages."""
    state = train([[1, 0], [1, 8], [5, 0], [7, 8]], [0, 0, 1, 1], 2)
    likelihood = Gaussian(floor=0.01).estimate(state)

    assert 16 == np.var([0, 8, 0, 8])
    assert [0.16, 1.0] == pytest.approx(likelihood.variances[0].tolist(), rel=1e-12)


def test_a_feature_constant_in_all_classes_says_nothing():
    """Its density is finite and the same for every class."""
    state = train([[1], [1], [1]], [0, 1, 1], 2)
    likelihood = Gaussian().estimate(state)
    ham, spam = likelihood(Measurements.of({0: 40.0}))

    assert [ROUNDING, ROUNDING] == likelihood.variances[0].tolist()
    assert np.isfinite(ham)
    assert ham == spam


def test_a_constant_feature_can_be_dropped():
    """Constant in one class is enough: there the floor would decide alone."""
    state = train([[1, 0], [1, 8], [5, 0], [7, 8]], [0, 0, 1, 1], 2)
    likelihood = Gaussian(constant="drop").estimate(state)
    parts = likelihood.contributions(Measurements.of({0: 1, 1: 2}))

    assert [1] == likelihood.ids.tolist()
    assert [False, True] == parts.seen.tolist()
    assert not parts.features[0].any()


def test_everything_constant_and_dropped_leaves_the_prior():
    """A class with one message has nothing that varies."""
    state = train([[1, 0], [5, 2]], [0, 1], 2)
    likelihood = Gaussian(constant="drop").estimate(state)

    assert [0.0, 0.0] == likelihood(Measurements.of({0: 3, 1: 3})).tolist()


def test_a_class_without_messages_neither_wins_nor_loses():
    """It is given mean and variance of all the messages."""
    state = train([[1], [3], [2], [8]], [0, 0, 1, 1], 3)
    likelihood = Gaussian().estimate(state)

    assert 3.5 == likelihood.means[0, 2]
    assert np.var([1, 3, 2, 8]) == likelihood.variances[0, 2]
    assert 1 == Gaussian(constant="drop").estimate(state).ids.size


def test_fields_unseen_in_training_are_ignored():
    """And a field that a message lacks adds nothing."""
    likelihood = Gaussian().estimate(train([[1, 2], [3, 5], [4, 9]], [0, 1, 1], 2))
    parts = likelihood.contributions(Measurements.of({-5: 1.0, 1: 2.0, 9: 1.0}))

    assert [False, True, False] == parts.seen.tolist()
    assert likelihood(Measurements.of({1: 2.0})).tolist() == parts.features[1].tolist()


def test_before_the_first_message_every_class_is_alike():
    """No field was seen, so no field has evidence."""
    likelihood = Gaussian().estimate(MomentSums.zero(3))

    assert [0.0] * 3 == likelihood(Measurements.of({1: 2.0})).tolist()


def test_shared_variances_are_pooled_within_the_classes():
    """The mean squared distance to the own mean, over all messages."""
    state = train([[1], [3], [2], [8], [5]], [0, 0, 1, 1, 1], 2)
    likelihood = Gaussian(variances="shared").estimate(state)
    pooled = (1 + 1 + 9 + 9 + 0) / 5

    assert [pooled, pooled] == pytest.approx(likelihood.variances[0].tolist())
    assert 1 == Gaussian(variances="shared", constant="drop").estimate(state).ids.size


def test_the_result_does_not_depend_on_how_the_data_was_cut():
    """scikit-learn's partial_fit does; here sums are sums."""
    rng = np.random.default_rng(7)
    rows = rng.normal(0, [1, 100], (40, 2))
    labels = rng.integers(0, 2, 40)
    whole = train(rows, labels, 2)
    parts = MomentSums.sum(
        [train(rows[i : i + 7], labels[i : i + 7], 2) for i in range(0, 40, 7)],
        n_classes=2,
    )
    model = Gaussian(floor=0.5)

    assert whole == parts
    assert (
        model.estimate(whole).variances.tobytes()
        == model.estimate(parts).variances.tobytes()
    )


@pytest.mark.parametrize("fraction", [-0.1, 1.5, math.nan])
def test_a_floor_that_is_no_share_is_refused(fraction):
    """A floor is a share from 0 to 1."""
    with pytest.raises(InvalidObservation, match="must be from 0 to 1"):
        Gaussian(floor=fraction)


@pytest.mark.parametrize("amount", [0.0, -1.0, math.inf, math.nan])
def test_what_is_added_to_a_variance_is_positive(amount):
    """A variance must not fall, or become no number."""
    with pytest.raises(InvalidObservation, match="must be positive and finite"):
        Gaussian(added={0: amount})


@pytest.mark.parametrize(
    ("model", "choice"),
    [
        (Gaussian, {"variances": "pooled"}),
        (Gaussian, {"constant": "skip"}),
        (Discriminant, {"constant": "skip"}),
        (Multinomial, {"counting": "occurrence"}),
    ],
)
def test_an_unknown_choice_is_refused(model, choice):
    """A wrong choice is not taken for the other one."""
    [(parameter, given)] = choice.items()
    with pytest.raises(
        InvalidObservation, match=rf"{parameter} must be '.*' or '.*', got '{given}'"
    ):
        model(**choice)
