"""Logistic regression: its maximum, where there is one, and a sentence where not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression as Oracle

from app.bayes.linear import gaussian_form
from app.bayes.models import logistic
from app.bayes.models.gaussian import Gaussian
from app.bayes.models.logistic import regress
from app.bayes.moments import MomentSums
from app.bayes.posterior import log_posterior
from app.bayes.sparse import Measurements
from app.errors import InvalidObservation


def made_up(seed, *, n=60, d=3, n_classes=3):
    """Return rows and labels that overlap."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n)])
    x = rng.normal(size=(labels.size, d)) * 10.0 ** rng.integers(-3, 4, d)
    return x * (1 + 0.3 * labels[:, np.newaxis]), labels


@pytest.mark.parametrize(
    ("ones", "zeros"), [((2, 3), (1, 3)), ((1, 5), (4, 6)), ((3, 4), (2, 7))]
)
def test_one_bit_has_the_log_odds_of_its_counts(ones, zeros):
    """By hand: b is the log-odds at 0, and w their increase at 1."""
    (k1, n1), (k0, n0) = ones, zeros
    x = np.array([1.0] * n1 + [0.0] * n0)[:, np.newaxis]
    labels = np.array([1] * k1 + [0] * (n1 - k1) + [1] * k0 + [0] * (n0 - k0))
    found = regress(x, labels, 2)
    at_0, at_1 = math.log(k0 / (n0 - k0)), math.log(k1 / (n1 - k1))
    height = sum(
        k * math.log(k / n) + (n - k) * math.log(1 - k / n) for k, n in (ones, zeros)
    )

    assert at_0 == pytest.approx(found.bias[1], rel=1e-12)
    assert at_1 - at_0 == pytest.approx(found.weights[0, 1], rel=1e-12)
    assert height == pytest.approx(found.log_likelihood, rel=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.booleans())
def test_the_gradient_is_zero_at_the_maximum(seed, n_classes, with_prior):
    """In any units, no step in any direction increases the likelihood."""
    x, labels = made_up(seed, n_classes=n_classes)
    found = regress(x, labels, n_classes, deviation=0.7 if with_prior else None)
    rng = np.random.default_rng(seed)

    def height(weights, bias):
        own = log_posterior(x @ weights + bias)[np.arange(labels.size), labels].sum()
        # Two classes: half of the square of the difference.
        apart = weights - weights.mean(axis=1)[:, None]
        return own - ((apart / 0.7) ** 2).sum() if with_prior else own

    top = height(found.weights, found.bias)
    for _ in range(10):
        shift = 1e-3 * rng.normal(size=found.weights.shape) / x.std(axis=0)[:, None]
        shift[:, 0] = 0
        moved = height(found.weights + shift, found.bias)

        assert moved <= top + 1e-9
    assert found.gradient < 1e-6 * (1 + np.abs(x).sum())


def test_the_prior_is_that_of_scikit_learn():
    """C is the variance of the prior, and the bias is not penalised."""
    x, labels = made_up(5, n_classes=2)
    x /= x.std(axis=0)
    found = regress(x, labels, 2, deviation=0.5)
    oracle = Oracle(C=0.25, tol=1e-12, max_iter=10_000).fit(x, labels)

    assert np.allclose(oracle.coef_[0], found.weights[:, 1], atol=1e-6)
    assert oracle.intercept_[0] == pytest.approx(found.bias[1], abs=1e-6)


def test_the_prior_of_three_classes_is_that_of_scikit_learn():
    """Each class has a weight, of variance C: half of that of a difference."""
    x, labels = made_up(5, n_classes=3)
    x /= x.std(axis=0)
    found = regress(x, labels, 3, deviation=1.0)
    oracle = Oracle(C=0.5, tol=1e-12, max_iter=10_000).fit(x, labels)

    assert np.allclose(oracle.coef_ - oracle.coef_[0], found.weights.T, atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.permutations(range(4)))
def test_the_names_of_the_classes_change_nothing(seed, order):
    """Whichever class is the first, the probabilities are the same."""
    x, labels = made_up(seed, n_classes=4)
    renamed = np.array(order)
    found = regress(x, labels, 4, deviation=0.7)
    other = regress(x, renamed[labels], 4, deviation=0.7)

    assert np.allclose(
        log_posterior(found.scores(x)),
        log_posterior(other.scores(x))[:, renamed],
        atol=1e-6,
    )


def test_a_column_of_tiny_numbers_takes_nothing_from_the_others():
    """The other columns keep the weights that exact arithmetic gives."""
    first = np.array([4, 5, 6, 7, 5, 4, 6]) * 1e-7
    x = np.stack([first, [0, 1, 3, 2, 4, 5, 2]], axis=1)
    found = regress(x, np.array([0, 0, 0, 1, 1, 1, 1]), 2, deviation=1.0)
    alone = regress(x[:, 1:], np.array([0, 0, 0, 1, 1, 1, 1]), 2, deviation=1.0)

    assert alone.weights[0, 1] == pytest.approx(found.weights[1, 1], abs=1e-9)
    assert (0.718, -1.358) == (
        pytest.approx(found.weights[1, 1], abs=5e-4),
        pytest.approx(found.bias[1], abs=5e-4),
    )
    # The way there was 0 before: all that this column says, at its scale.
    p = np.exp(log_posterior(found.scores(x)))[:, 1]
    assert first @ ([0, 0, 0, 1, 1, 1, 1] - p) == pytest.approx(
        found.weights[0, 1], rel=1e-6
    )


@pytest.mark.parametrize("deviation", [1e-7, 1e-12, 1e-100])
def test_a_prior_that_allows_no_weight_leaves_the_bias(deviation):
    """Only the bias remains: the log-odds of two rows against three."""
    x = np.array([0.0, 1, 3, 2, 0.5])[:, np.newaxis]
    found = regress(x, np.array([0, 0, 0, 1, 1]), 2, deviation=deviation)

    assert math.log(2 / 3) == pytest.approx(found.bias[1], rel=1e-9)


@pytest.mark.parametrize("unit", [1e-30, 1e-7, 1.0, 1e9])
@pytest.mark.parametrize("deviation", [1e-100, 1e-9, 1.0, 1e6])
def test_the_prior_and_the_rows_are_in_balance(unit, deviation):
    """At the maximum the two pull equally, however well the classes separate."""
    x = np.arange(4.0)
    found = regress(
        (unit * x)[:, np.newaxis], np.array([0, 0, 1, 1]), 2, deviation=deviation
    )
    w = found.weights[0, 1] * unit
    # By symmetry the plane is in the middle; the rows are at w / 2 and 3 w / 2.
    pull = 1 / (1 + math.exp(w / 2)) + 3 / (1 + math.exp(3 * w / 2))

    assert pull == pytest.approx(w / (deviation * unit) / (deviation * unit), rel=1e-5)


def test_a_fit_that_does_not_end_is_refused(monkeypatch):
    """A fit that does not converge is an error, because its weights mean nothing."""
    monkeypatch.setattr(logistic, "STEPS", 1)
    x, labels = made_up(1)
    with pytest.raises(InvalidObservation, match="the maximum was not reached"):
        regress(x, labels, 3)


@pytest.mark.parametrize(
    ("x", "labels"),
    [
        ([0, 1, 2, 3], [0, 0, 1, 1]),
        ([0, 1, 1, 2], [0, 0, 1, 1]),
        ([0, 0, 0, 1], [0, 1, 0, 1]),
        ([0, 1, 2, 3, 2.5], [0, 0, 1, 1, 2]),
        ([1e9, 2e9, 3e9, 4e9], [0, 0, 1, 1]),
    ],
)
def test_classes_that_can_be_separated_are_said(x, labels):
    """Separable classes are reported, because their weights would have no limit."""
    rows = np.array(x, float)[:, np.newaxis]
    n_classes = max(labels) + 1
    with pytest.raises(InvalidObservation, match="a plane separates the classes"):
        regress(rows, np.array(labels), n_classes)
    found = regress(rows, np.array(labels), n_classes, deviation=1.0)

    assert np.isfinite(found.bias).all()


def test_a_plane_that_only_one_row_is_off_is_found():
    """A category of one row in two thousand can separate the classes."""
    rng = np.random.default_rng(1)
    x = np.stack([rng.normal(size=2000), np.arange(2000) == 7], axis=1)
    labels = (x[:, 0] + rng.logistic(size=2000) > 0).astype(int)
    with pytest.raises(InvalidObservation, match="a plane separates the classes"):
        regress(x, labels, 2)

    assert regress(x[:, :1], labels, 2).gradient < 1e-6


def test_a_tiny_overlap_has_a_maximum():
    """The maximum is found after the steps that look for a separating plane."""
    x = np.array([0.0, 1, 2, 3, 1.5 + 1e-8, 1.5 - 1e-8])[:, np.newaxis]
    found = regress(x, np.array([0, 0, 1, 1, 0, 1]), 2)

    # The two that overlap are as good as at one place, and the others sure.
    assert -2 * math.log(2) == pytest.approx(found.log_likelihood, abs=1e-6)
    assert found.gradient < 1e-6


def test_sure_rows_alone_are_no_plane():
    """Rows of 60 nats separate nothing if two other rows overlap."""
    x = np.array([0.0, 1, 40, 41, 20.2, 19.8])[:, np.newaxis]
    found = regress(x, np.array([0, 0, 1, 1, 0, 1]), 2)

    assert found.log_likelihood < -1
    assert found.gradient < 1e-6


def test_classes_that_just_overlap_have_a_maximum():
    """One row on the wrong side, far from the others, is enough."""
    x = np.array([0.0, 1.0, 2.0, 3.0, 2.5])[:, np.newaxis]
    found = regress(x, np.array([0, 0, 1, 1, 0]), 2)

    assert found.gradient < 1e-6


def test_columns_that_depend_on_each_other_share_their_weight():
    """Two equal columns get half the weight each, and the result reports it."""
    x, labels = made_up(3, d=1, n_classes=2)
    one, two = regress(x, labels, 2), regress(np.hstack([x, x]), labels, 2)

    assert (True, False) == (one.unique, two.unique)
    assert np.allclose(one.weights[0] / 2, two.weights, rtol=1e-6)
    assert one.log_likelihood == pytest.approx(two.log_likelihood)


def test_a_column_that_does_not_vary_has_no_weight():
    """A constant column gets no weight, because the bias does the same."""
    x, labels = made_up(3, d=1, n_classes=2)
    found = regress(np.hstack([x, np.full_like(x, 0.1)]), labels, 2)

    assert [0.0, 0.0] == found.weights[1].tolist()
    assert not found.unique


@pytest.mark.parametrize(
    ("x", "labels", "deviation", "sentence"),
    [
        ([[math.nan], [1]], [0, 1], None, "takes finite numbers"),
        ([[math.inf], [1]], [0, 1], None, "takes finite numbers"),
        ([[0], [1]], [0, 2], None, r"label 2 is not in range\(2\)"),
        ([[0], [1]], [-1, 1], None, "label -1 is not in"),
        ([[0], [1]], [0, 0], None, r"rows of each class, got \[2, 0\]"),
        ([[0], [1]], [0, 1], 1e8, "1e-100 to 1e.06, got 100000000.0"),
        ([[0], [1]], [0, 1], 1e-155, "got 1e-155; leave it out"),
        ([[0], [1e155]], [0, 1], None, "finite numbers up to 1e.100"),
        ([[0], [1]], [0, 1], 0.0, "positive, from 1e-100"),
        ([[0], [1]], [0, 1], math.nan, "got nan"),
    ],
)
def test_what_cannot_be_used_is_refused(x, labels, deviation, sentence):
    """Unusable input is refused, and nothing is guessed."""
    with pytest.raises(InvalidObservation, match=sentence):
        regress(np.array(x, float), np.array(labels), 2, deviation=deviation)


def test_naive_bayes_with_shared_variances_is_a_logistic_function():
    """Of a linear one; but maximum likelihood of that function gains on it."""
    rng = np.random.default_rng(1)
    labels = np.arange(200) % 2
    x = rng.normal(size=(200, 2)) + np.outer(labels, [1.0, -0.5])
    model = Gaussian(fraction_bits=16, variances="shared")
    state = MomentSums.sum(
        [
            model.observe(
                Measurements.of(dict(enumerate(row))), label=int(c), n_classes=2
            )
            for row, c in zip(x, labels, strict=True)
        ],
        n_classes=2,
    )
    w, b = gaussian_form(model.estimate(state), np.log([0.5, 0.5])).difference(
        positive=1, negative=0
    )
    z = x @ w + b
    own = -np.log1p(np.exp(-np.where(labels == 1, z, -z))).sum()
    found = regress(x, labels, 2)

    assert own < found.log_likelihood
    assert np.allclose(w, found.weights[:, 1], atol=0.3)
