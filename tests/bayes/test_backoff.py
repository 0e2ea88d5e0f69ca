"""Classes that few messages have taught."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.models.multinomial import Multinomial
from app.bayes.smoothing import Backoff, Lidstone, NoSmoothing
from app.bayes.sparse import SparseCounts
from app.errors import InvalidObservation

MODEL = Multinomial(smoothing=Lidstone(0.1), backoff=Backoff(3.0))
texts = st.dictionaries(st.integers(0, 6), st.just(1), max_size=7).map(SparseCounts.of)


def state(spam, ham):
    """Return the sum of some spam and some ham."""
    counted = [FeatureCounts.of(x, label=1, n_classes=2) for x in spam]
    counted += [FeatureCounts.of(x, label=0, n_classes=2) for x in ham]
    return FeatureCounts.sum(counted, n_classes=2)


@given(st.lists(texts, max_size=9), texts)
def test_nothing_speaks_while_one_class_alone_was_taught(spam, x):
    """A class without messages is the whole, which is the other class."""
    ham, junk = MODEL.estimate(state(spam, []))(x)

    assert ham == pytest.approx(junk, abs=1e-12)


@given(st.lists(texts, max_size=40), st.lists(texts, max_size=9), st.integers(0, 6))
def test_a_feature_speaks_no_louder_than_the_messages_allow(spam, ham, feature):
    """Against n ham: log(1 + n / s), and the share of spam in all the text."""
    taught = state(spam, ham)
    spread = 0.1 * taught.vocabulary
    _, of_spam = taught.totals("presence") + spread
    whole = taught.totals("presence").sum() + spread
    loudest = math.log1p(len(ham) / 3.0) + math.log((whole or 1) / (of_spam or 1))

    for_ham, for_spam = MODEL.estimate(taught)(SparseCounts.of({feature: 1}))

    assert for_spam - for_ham <= loudest + 1e-9


def test_with_many_messages_it_is_the_textbook():
    """The share of the whole goes to nothing."""
    x = SparseCounts.of({1: 1, 2: 1})
    taught = state([x] * 9, [SparseCounts.of({2: 1, 3: 1})] * 9)
    few = Multinomial(smoothing=Lidstone(0.1), backoff=Backoff(1e-9))

    expected = Multinomial(smoothing=Lidstone(0.1)).estimate(taught)(x)

    assert expected == pytest.approx(few.estimate(taught)(x), abs=1e-7)


def test_what_is_impossible_in_both_is_impossible_in_the_mixture():
    """Without smoothing a probability may be zero."""
    taught = state([SparseCounts.of({1: 1})], [SparseCounts.of({2: 1})])
    model = Multinomial(smoothing=NoSmoothing(), backoff=Backoff(1.0))

    logs = model.estimate(taught)(SparseCounts.of({1: 1}))

    assert [0.25, 0.75] == np.exp(logs).round(12).tolist()


@pytest.mark.parametrize("messages", [0.0, -1.0, math.inf, math.nan])
def test_messages_must_be_positive_and_finite(messages):
    """Anything else is no mixture."""
    with pytest.raises(InvalidObservation, match="backs off"):
        Backoff(messages)
