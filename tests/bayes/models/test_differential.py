"""The differential event model: what tells the classes apart, and how surely."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import Differential
from app.bayes.sparse import SparseCounts
from app.errors import InvalidSetting


def fitted(*counts, messages=(10, 10)):
    """Return the model fitted to the messages of each class with features 0, 1, ..."""
    rows = np.array(counts, np.int64)
    state = FeatureCounts(
        np.array(messages), np.arange(len(rows)), np.hstack([rows, rows])
    )
    return Differential().estimate(state)


def added(likelihood, feature):
    """Return what one feature adds to the log-odds of the second class."""
    ham, spam = likelihood(SparseCounts.of({feature: 1})).tolist()
    return spam - ham


def test_a_feature_that_all_classes_have_says_nothing():
    """The same holds for nearly equal shares, and for unseen features."""
    likelihood = fitted((5, 5), (5, 6), (0, 0))

    assert [0.0] * 3 == [added(likelihood, feature) for feature in (0, 1, 2)]
    assert 2 == likelihood.contributions(SparseCounts.of({0: 1, 1: 1, 2: 1})).known


def test_shares_are_compared_and_not_counts():
    """Four of forty messages are as many as one of ten."""
    likelihood = fitted((1, 4), (1, 8), messages=(10, 40))

    assert 0.0 == added(likelihood, 0)
    assert 0.0 < added(likelihood, 1)


def test_more_messages_are_more_trusted():
    """A feature of one class alone says more, the more messages have it."""
    likelihood = fitted((0, 1), (0, 2), (0, 8), (8, 0))
    one, two, eight, other = (added(likelihood, feature) for feature in range(4))

    assert 0.0 < one < two < eight == -other


def test_the_formula_by_hand():
    """Two hits of three: trust is (1 - 2/4) / 9, times 3 / (3 + 1/400)."""
    trust = (1 - 2 / 4) / 9 * 3 / (3 + 1 / 400)
    ham, spam = (1 - trust + trust * 2 * n / 10 for n in (1, 2))

    assert math.log(spam / ham) == pytest.approx(added(fitted((1, 2)), 0))


@pytest.mark.parametrize("kappa", [0.0, -1.0, 1e-20, math.inf, math.nan])
def test_kappa_must_be_finite_and_not_too_small(kappa):
    """Without it, a feature of one message would be certain."""
    with pytest.raises(InvalidSetting, match="kappa"):
        Differential(kappa=kappa)
