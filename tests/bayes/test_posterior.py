"""Posterior and log-odds are right at every scale, ties and infinities too."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.posterior import log_odds, log_posterior, probability_of
from app.errors import InvalidObservation

INF = math.inf
logs = st.floats(-1e6, 100)
joints = st.lists(logs, min_size=2, max_size=5).map(np.array)


@given(joints)
def test_the_posterior_sums_to_one(log_joint):
    """Whatever the log-joint, the classes share one unit of probability."""
    assert 1 == pytest.approx(np.exp(log_posterior(log_joint)).sum(), abs=1e-12)


@given(joints, st.floats(-1e6, 1e6))
def test_evidence_for_all_classes_alike_changes_nothing(log_joint, shift):
    """The posterior depends on differences only."""
    assert np.allclose(
        log_posterior(log_joint), log_posterior(log_joint + shift), atol=1e-8
    )


def test_many_messages_have_the_posteriors_of_each():
    """The last axis holds the classes."""
    batch = np.array([[-3.0, -1.0], [-INF, -INF], [-2000.0, -1000.0], [-INF, 0]])

    assert [log_posterior(row).tolist() for row in batch] == log_posterior(
        batch
    ).tolist()


def test_probabilities_that_underflow_are_exact_in_log_space():
    """No double is that small, yet the posterior is right to the last digit."""
    log_joint = np.array([-10_000.0, -10_030.0])
    ham, spam = log_posterior(log_joint)

    assert -math.exp(-30) == pytest.approx(ham, rel=1e-12)
    assert -30 == pytest.approx(spam, rel=1e-12)


def test_classes_that_are_all_impossible_are_tied():
    """A tie at nothing is a uniform posterior, not a nan."""
    nothing = np.full(4, -INF)

    assert [-math.log(4)] * 4 == log_posterior(nothing).tolist()


def test_one_impossible_class_has_posterior_zero():
    """The other classes share the whole probability."""
    assert [0.0, -INF] == log_posterior(np.array([-900.0, -INF])).tolist()


@given(joints)
def test_log_odds_are_the_difference_of_two_classes(log_joint):
    """With two classes there is nothing to sum."""
    pair = log_joint[:2]

    assert pair[1] - pair[0] == pytest.approx(
        log_odds(pair, np.array([False, True])), rel=1e-9, abs=1e-9
    )


def test_log_odds_of_several_classes_sum_their_probabilities():
    """Spam and phishing together against ham and newsletter together."""
    joint = np.log([0.1, 0.2, 0.3, 0.4])
    spam = np.array([False, True, False, True])

    assert math.log(0.6 / 0.4) == pytest.approx(log_odds(joint, spam), rel=1e-14)


def test_log_odds_of_many_messages_are_those_of_each():
    """In the shape of the messages."""
    joints = np.arange(18.0).reshape(2, 3, 3) ** 2
    spam = np.array([False, True, True])
    found = log_odds(joints, spam)

    assert [[log_odds(each, spam) for each in row] for row in joints] == found.tolist()


@pytest.mark.parametrize(
    ("joint", "expected"),
    [
        ([-INF, -5.0, -5.0], INF),
        ([-5.0, -INF, -INF], -INF),
        ([-INF, -INF, -INF], math.log(2)),
        ([-5.0, -INF, -5.0], 0.0),
    ],
)
def test_log_odds_of_impossible_classes_are_no_nan(joint, expected):
    """One impossible side is infinite; two impossible sides are a tie."""
    spam = np.array([False, True, True])

    assert expected == pytest.approx(log_odds(np.array(joint), spam), abs=1e-12)


@pytest.mark.parametrize("spam", [[True, True], [False, False]])
def test_log_odds_need_a_class_on_either_side(spam):
    """All mail cannot be spam by definition."""
    with pytest.raises(InvalidObservation, match="a class on each side"):
        log_odds(np.zeros(2), np.array(spam))


@given(st.floats(-40, 40))
def test_the_probability_of_log_odds_gives_them_back(odds):
    """It is p where log p - log (1 - p) are the log-odds."""
    p, rest = probability_of(odds), probability_of(-odds)

    assert odds == pytest.approx(math.log(p) - math.log(rest), abs=1e-9)
    assert 1 == pytest.approx(p + rest, abs=1e-15)


@given(st.floats(allow_nan=False))
def test_log_odds_of_any_size_have_a_probability(odds):
    """No exponential overflows, and infinite log-odds are certain."""
    p = probability_of(odds)

    assert 0.5 <= p <= 1 if odds >= 0 else 0 <= p <= 0.5


@pytest.mark.parametrize("joint", [np.array([]), np.array(1.0), np.empty((3, 0))])
def test_a_posterior_needs_a_class(joint):
    """Without classes there is no posterior."""
    with pytest.raises(InvalidObservation, match="a number for each class, got shape"):
        log_posterior(joint)
