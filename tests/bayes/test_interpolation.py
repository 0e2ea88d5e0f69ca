"""Classes that few messages have taught."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import Multinomial
from app.bayes.smoothing import Interpolation, Lidstone, NoSmoothing
from app.bayes.sparse import SparseCounts
from app.errors import InvalidObservation

MODEL = Multinomial(smoothing=Lidstone(0.1), interpolation=Interpolation(3.0))
texts = st.dictionaries(st.integers(0, 6), st.just(1), max_size=7).map(SparseCounts.of)


def state(spam, ham):
    """Return the sum of some spam and some ham."""
    counted = [FeatureCounts.of(x, label=1, n_classes=2) for x in spam]
    counted += [FeatureCounts.of(x, label=0, n_classes=2) for x in ham]
    return FeatureCounts.sum(counted, n_classes=2)


@given(st.lists(texts, max_size=9), texts)
def test_nothing_speaks_while_one_class_alone_was_taught(spam, x):
    """A class without messages has the estimates of all classes together."""
    ham, junk = MODEL.estimate(state(spam, []))(x)

    assert ham == pytest.approx(junk, abs=1e-12)


@given(st.lists(texts, max_size=40), st.lists(texts, max_size=9), st.integers(0, 6))
def test_a_feature_speaks_no_louder_than_the_messages_allow(spam, ham, feature):
    """Against n ham: log(1 + n / s), and the share of spam in all the text."""
    taught = state(spam, ham)
    _, of_spam = taught.totals("presence")
    whole = taught.totals("presence").sum()
    loudest = math.log1p(len(ham) / 3.0) + math.log((whole or 1) / (of_spam or 1))

    for_ham, for_spam = MODEL.estimate(taught)(SparseCounts.of({feature: 1}))

    assert for_spam - for_ham <= loudest + 1e-9


def log_odds(model, taught, x):
    """Return the log-likelihood of spam less that of ham."""
    ham, spam = model.estimate(taught)(x)
    return spam - ham


def test_classes_of_one_size_differ_as_in_the_textbook():
    """The share of the whole vanishes, and the denominators are equal."""
    x = SparseCounts.of({1: 1, 2: 1})
    taught = state([x] * 9, [SparseCounts.of({2: 1, 3: 1})] * 9)
    few = Multinomial(smoothing=Lidstone(0.1), interpolation=Interpolation(1e-9))
    textbook = Multinomial(smoothing=Lidstone(0.1))

    expected = log_odds(textbook, taught, x)

    assert expected == pytest.approx(log_odds(few, taught, x), abs=1e-7)


def test_a_rare_feature_says_little_against_a_small_class():
    """Three ham lack what one spam of a thousand has, and what half of them have."""
    spam = [SparseCounts.of({i: 1, 2000 + i % 2: 1}) for i in range(1000)]
    taught = state(spam, [SparseCounts.of({5000: 1, 5001: 1})] * 3)

    rare = log_odds(MODEL, taught, SparseCounts.of({7: 1}))
    common = log_odds(MODEL, taught, SparseCounts.of({2000: 1}))

    def expected(count):
        whole, trust = count / 2006, 1000 / 1003
        of_spam = (count + 0.1) / (2000 + 0.1 * 2006 / count)
        of_ham = 0.1 / (6 + 0.1 * 2006 / count)
        return math.log(
            (trust * of_spam + (1 - trust) * whole) / (of_ham / 2 + whole / 2)
        )

    assert rare == pytest.approx(expected(1), abs=1e-12)
    assert common == pytest.approx(expected(500), abs=1e-12)
    assert 0 < rare < 0.02
    assert 0.6 < common < math.log(2)


def test_what_is_impossible_in_both_is_impossible_in_the_mixture():
    """Without smoothing a probability may be zero."""
    taught = state([SparseCounts.of({1: 1})], [SparseCounts.of({2: 1})])
    model = Multinomial(smoothing=NoSmoothing(), interpolation=Interpolation(1.0))

    logs = model.estimate(taught)(SparseCounts.of({1: 1}))

    assert [0.25, 0.75] == np.exp(logs).round(12).tolist()


@pytest.mark.parametrize("messages", [0.0, -1.0, math.inf, math.nan])
def test_messages_must_be_positive_and_finite(messages):
    """The number of messages of an interpolation is positive and finite."""
    with pytest.raises(InvalidObservation, match="of an interpolation must be"):
        Interpolation(messages)
