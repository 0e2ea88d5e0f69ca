"""The chain event model: symbols that depend on those before them."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.models.chain import (
    ORDER,
    SYMBOLS,
    Chain,
    require_runs,
    runs_of,
    with_beginnings,
)
from app.errors import InvalidObservation, InvalidSetting

texts = st.lists(st.integers(0, 3), max_size=12)


def of(text):
    """Return the runs of a text."""
    return runs_of(np.array(text, np.uint8))


def windows(text):
    """Return the different runs of a text as tuples; it is a ring."""
    ring = [*text, *text]
    places = range(len(text)) if len(text) >= ORDER else ()
    return sorted({tuple(ring[i : i + ORDER]) for i in places})


def beginnings(*learned):
    """Return how often each beginning of a run was learned."""
    return Counter(
        run[:length] for text in learned for run in windows(text) for length in range(5)
    )


def share(counts, context, symbol, strength):
    """Return the probability of a symbol after others, by the formula."""
    if context is None:
        return 1 / SYMBOLS
    shorter = context[1:] if context else None
    back = share(counts, shorter, symbol, strength)
    return (counts[(*context, symbol)] + strength * back) / (counts[context] + strength)


def fitted(ham, spam, strength=20.0):
    """Return the model fitted to some texts of each class."""
    model, state = Chain(strength=strength), FeatureCounts.zero(2)
    for label, learned in enumerate((ham, spam)):
        for text in learned:
            state += model.observe(of(text), label=label, n_classes=2)
    return model.estimate(state)


@given(
    st.lists(texts, max_size=4),
    st.lists(texts, max_size=4),
    texts,
    st.sampled_from([0.5, 20.0]),
)
def test_the_probability_of_each_run_follows_the_formula(ham, spam, text, strength):
    """A class without text has the counts of all."""
    every = beginnings(*ham, *spam)
    counts = [beginnings(*each) or every for each in (ham, spam)]
    expected = [
        [math.log(share(c, run[:-1], run[-1], strength)) for run in windows(text)]
        for c in counts
    ]

    found = fitted(ham, spam, strength).contributions(of(text))

    runs = len(windows(text))
    if every:
        assert found.terms[:, found.seen].tolist() == [
            pytest.approx(row) for row in expected
        ]
        assert runs == found.known
    else:
        assert not found.known
    assert found.totals[0].tolist() == pytest.approx(
        [sum(row) for row in expected] if every else [0.0, 0.0]
    )


@given(st.lists(texts, min_size=1, max_size=3), texts)
def test_probabilities_after_a_context_sum_to_one(learned, context):
    """Of all symbols of the alphabet, after any three."""
    context = (context + [0] * 3)[:3]
    state = FeatureCounts.zero(2)
    for text in learned:
        state += Chain().observe(of(text), label=0, n_classes=2)
    likelihood = Chain().estimate(state)
    a, b, c = context
    # With the runs that begin as the others go on.
    needed = {
        run
        for v in range(SYMBOLS)
        for run in ((a, b, c, v), (b, c, v, 0), (c, v, 0, 0), (v, 0, 0, 0))
    }
    runs = [np.ravel_multi_index(run, (SYMBOLS,) * ORDER) for run in sorted(needed)]

    found = likelihood.contributions(with_beginnings(np.array(runs)))

    if found.known:
        after = [run[:3] == (a, b, c) for run in sorted(needed)]
        shares = np.exp(found.terms[0, -len(after) :][after])
        assert 1.0 == pytest.approx(shares.sum())


def test_a_text_is_no_evidence_where_one_class_has_none():
    """After eight reports of spam, not every text is spam."""
    text = [1, 2, 3, 4, 5, 6]
    ham, spam = fitted([], [text] * 8)(of(text)).tolist()

    assert ham == spam != 0.0


def test_a_text_resembles_the_class_with_its_runs():
    """Also if no run of it is new to the other class."""
    ham, spam = [1, 2, 1, 2, 1, 3, 1, 3], [1, 2, 3, 1, 2, 3, 1, 2]
    said = fitted([ham], [spam])(of(spam))

    assert said[1] > said[0]


@given(texts)
def test_runs_are_found_again_among_their_beginnings(text):
    """The features of a text are a function of its runs."""
    x = of(text)

    assert len(windows(text)) == x.numbers.size
    assert with_beginnings(require_runs(x.numbers)) == x
    assert dict(beginnings(text)) == {
        symbols: count
        for symbols, count in beginnings(text).items()
        if count in x.counts
    }


@pytest.mark.parametrize("runs", [[-1], [SYMBOLS**ORDER], [3, 3], [2, 1]])
def test_other_numbers_are_no_runs(runs):
    """Out of range, or not in order."""
    with pytest.raises(InvalidObservation, match="runs of symbols"):
        require_runs(np.array(runs))


@pytest.mark.parametrize("strength", [0.0, -1.0, math.inf, math.nan])
def test_a_strength_that_defines_nothing_is_refused(strength):
    """The error has the number."""
    with pytest.raises(InvalidSetting, match=f"got {strength!r}"):
        Chain(strength=strength)
