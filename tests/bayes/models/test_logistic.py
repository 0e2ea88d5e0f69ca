"""Logistic regression with a Gaussian pull."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from app.bayes.models.logistic import STEP_OF_WEIGHTS, GaussianPull, fit
from app.errors import InvalidObservation


def drawn(n, n_opinions, n_classes, seed=20240501):
    """Return opinions, offsets and labels of n examples."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    opinions = rng.normal(size=(n, n_opinions, n_classes))
    opinions[np.arange(n), 0, labels] += 1.0
    return opinions, rng.normal(size=(n, n_classes)), labels


def minus_log_posterior(weights, opinions, offset, labels, pull, mislabelled=0.0):
    """Return what the fit makes least, written out."""
    n_opinions = opinions.shape[1]
    joint = (
        offset
        + weights[n_opinions:]
        + np.einsum("t,itk->ik", weights[:n_opinions], opinions)
    )
    chances = log_softmax(joint, axis=1)[np.arange(labels.size), labels]
    if mislabelled:
        honest = (1 - mislabelled) * np.exp(chances)
        chances = np.log(honest + mislabelled / joint.shape[1])
    fitness = chances.sum()
    away = (weights[:n_opinions] - pull.weights) / pull.weight_deviation
    bias = weights[n_opinions:] / pull.bias_deviation
    return -fitness + (away**2).sum() / 2 + (bias**2).sum() / 2


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_it_finds_the_maximum_that_a_general_optimiser_finds(n_classes):
    """Weights and biases agree with those that BFGS finds."""
    examples = drawn(200, 3, n_classes)
    pull = GaussianPull(weights=(1.0, 0.5, 0.0), weight_deviation=0.7, bias_deviation=2)

    expected = minimize(
        minus_log_posterior, np.zeros(3 + n_classes), (*examples, pull), tol=1e-10
    ).x
    found = fit(*examples, pull)

    assert expected == pytest.approx(
        np.concatenate([found.opinions, found.bias]), abs=1e-4
    )


def test_an_example_that_counts_twice_is_two_examples():
    """An example with weight 0 has no effect."""
    opinions, offset, labels = drawn(60, 2, 2)
    counts = np.arange(60) % 3
    pull = GaussianPull(weights=(1.0, 0.5), weight_deviation=0.7, bias_deviation=2)

    repeated = [x.repeat(counts, axis=0) for x in (opinions, offset, labels)]
    of_counts = fit(opinions, offset, labels, pull, mislabelled=0.1, counts=counts)
    of_all = fit(*repeated, pull, mislabelled=0.1)

    assert of_all.opinions.tolist() == of_counts.opinions.tolist()
    assert of_all.bias.tolist() == of_counts.bias.tolist()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_with_wrong_labels_it_finds_the_maximum_near_the_pull(n_classes):
    """BFGS, started at the pull, finds the same maximum."""
    opinions, offset, labels = drawn(300, 3, n_classes)
    labels[:15] = (labels[:15] + 1) % n_classes
    examples = opinions, offset, labels
    pull = GaussianPull(weights=(1.0, 0.5, 0.0), weight_deviation=0.7, bias_deviation=2)

    expected = minimize(
        minus_log_posterior,
        np.array([1.0, 0.5, 0.0] + [0.0] * n_classes),
        (*examples, pull, 0.1),
        tol=1e-10,
    ).x
    found = fit(*examples, pull, mislabelled=0.1)

    assert expected == pytest.approx(
        np.concatenate([found.opinions, found.bias]), abs=1e-4
    )


def test_a_few_wrong_labels_shrink_no_weights():
    """One wrong label in twenty, on clear messages, shrinks no weight."""
    labels = np.arange(2000) % 2
    says = np.where(labels == 1, 2.0, -2.0) + np.linspace(-1.0, 1.0, 2000)
    opinions = np.stack([np.zeros(2000), says], axis=1)[:, np.newaxis]
    labels[-100:] = 1 - labels[-100:]
    pull = GaussianPull(weights=(5.0,), weight_deviation=0.5, bias_deviation=0.28)

    trusting = fit(opinions, np.zeros((2000, 2)), labels, pull)
    wary = fit(opinions, np.zeros((2000, 2)), labels, pull, mislabelled=0.1)

    assert trusting.opinions[0] < 2.5
    assert wary.opinions[0] > 3.5


def test_with_two_classes_it_is_ordinary_logistic_regression():
    """scikit-learn's ridge penalty is a pull to nought."""
    opinions, _, labels = drawn(300, 4, 2)
    pull = GaussianPull(weights=(0.0,) * 4, weight_deviation=2.0, bias_deviation=1e-6)
    oracle = LogisticRegression(C=4.0, fit_intercept=False, tol=1e-10)

    expected = oracle.fit(opinions[:, :, 1] - opinions[:, :, 0], labels).coef_[0]

    assert expected == pytest.approx(
        fit(opinions, np.zeros((300, 2)), labels, pull).opinions, abs=1e-4
    )


def test_without_examples_the_weights_are_those_that_are_believed_in():
    """Without examples, the fit returns the weights of the prior."""
    pull = GaussianPull(weights=(5.0, 2.5), weight_deviation=1.0, bias_deviation=1.0)

    found = fit(np.zeros((0, 2, 3)), np.zeros((0, 3)), np.zeros(0, np.int64), pull)

    assert [5.0, 2.5] == found.opinions.tolist()
    assert [0.0, 0.0, 0.0] == found.bias.tolist()


@given(
    st.lists(
        st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.integers(0, 1)),
        max_size=30,
    ),
    st.floats(0.1, 30.0),
)
@example([(0.0, -809.0, 1), (105.0, -770.0, 0)], 0.1015625)
def test_it_converges_whatever_it_is_given(examples, deviation):
    """Whatever the examples, the weights are finite, and no others are better."""
    opinions = np.array([[[0.0, a], [0.0, b]] for a, b, _ in examples]).reshape(
        -1, 2, 2
    )
    offset = np.zeros((len(examples), 2))
    labels = np.array([label for *_, label in examples], np.int64)
    pull = GaussianPull(
        weights=(5.0, 5.0), weight_deviation=deviation, bias_deviation=1
    )

    found = fit(opinions, offset, labels, pull)
    best = np.concatenate([found.opinions, found.bias])
    least = minus_log_posterior(best, opinions, offset, labels, pull)

    assert np.isfinite(best).all()
    for number in range(best.size):
        for step in (-1e-2, 1e-2):
            other = best.copy()
            other[number] += step
            assert least <= 1e-6 + minus_log_posterior(
                other, opinions, offset, labels, pull
            )


def test_weights_are_multiples_of_a_step_that_no_rounding_error_reaches():
    """Two processors that round differently come to the same bits."""
    opinions, offset, labels = drawn(100, 2, 2)
    pull = GaussianPull(weights=(1.0, 1.0), weight_deviation=1.0, bias_deviation=1.0)

    found = fit(opinions, offset, labels, pull)
    nearly = fit(opinions * (1 + 1e-15), offset, labels, pull)

    assert (found.opinions / STEP_OF_WEIGHTS % 1 == 0).all()
    assert found.opinions.tolist() == nearly.opinions.tolist()
    assert found.bias.tolist() == nearly.bias.tolist()


@pytest.mark.parametrize("deviation", [0.0, -1.0, np.inf, np.nan])
def test_a_deviation_must_be_positive_and_finite(deviation):
    """A Gaussian without width would be a point."""
    with pytest.raises(InvalidObservation, match="deviation"):
        GaussianPull(weights=(), weight_deviation=deviation, bias_deviation=1.0)
    with pytest.raises(InvalidObservation, match="deviation"):
        GaussianPull(weights=(), weight_deviation=1.0, bias_deviation=deviation)
