"""Intervals by resampling: exact per sample, repeatable, and of the right width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.figures import (
    Errors,
    interval,
    lam_replicates,
    roca_interval,
    roca_pct,
    roca_replicates,
)

SCORES = st.lists(
    st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30
).filter(lambda pairs: len({gold for _, gold in pairs}) > 1)


def arrays(pairs):
    """Return scores and labels as arrays."""
    scores, gold = zip(*pairs, strict=True)
    return np.array(scores, np.float64), np.array(gold, np.bool_)


@given(SCORES, st.integers(0, 5))
def test_each_sample_has_the_figure_of_its_messages(pairs, seed):
    """One resample's figure is what the plain metric says of the drawn messages."""
    scores, gold = arrays(pairs)
    random = np.random.default_rng(seed)
    ham, spam = scores[~gold], scores[gold]
    drawn_ham = ham[random.integers(0, ham.size, size=(1, ham.size))[0]]
    drawn_spam = spam[random.integers(0, spam.size, size=(1, spam.size))[0]]
    expected = roca_pct(
        np.concatenate((drawn_ham, drawn_spam)),
        np.arange(gold.size) >= ham.size,
    )

    low, high = interval(roca_replicates(scores, gold, seed=seed, resamples=1))

    assert low == high == pytest.approx(expected)


@given(SCORES)
def test_the_same_seed_gives_the_same_interval(pairs):
    """Repeated calls give the same answer."""
    scores, gold = arrays(pairs)

    one, other = (
        interval(roca_replicates(scores, gold, seed=3, resamples=70)) for _ in range(2)
    )

    assert one == other


def test_the_interval_has_the_width_of_the_sampling_error():
    """It is near the spread of the figure over samples from the same source."""
    random = np.random.default_rng(7)
    gold = np.arange(400) < 200
    samples = [random.normal(gold * 2.0, 1.0) for _ in range(300)]
    spread = np.percentile([roca_pct(x, gold) for x in samples], (2.5, 97.5))
    widths = [
        np.subtract(*interval(roca_replicates(x, gold, seed=1))[::-1])
        for x in samples[:20]
    ]

    assert np.mean(widths) == pytest.approx(spread[1] - spread[0], rel=0.2)


@pytest.mark.parametrize("spam", [True, False])
def test_one_side_alone_has_no_interval(spam):
    """Without ham or without spam nothing is ranked."""
    gold = np.full(5, spam)

    assert interval(roca_replicates(np.arange(5.0), gold, seed=1)) is None
    assert roca_interval(np.arange(5.0), gold, seed=1) is None


def test_an_order_without_an_error_has_no_interval():
    """All samples would be without one too, and more messages might not."""
    gold = np.array([False, False, True, True])

    assert roca_interval(np.arange(4.0), gold, seed=1) is None
    low, high = roca_interval(np.array([0.0, 2.0, 1.0, 3.0]), gold, seed=1)
    assert 0 <= low < 25 < high <= 100


@given(SCORES, st.integers(0, 5))
def test_lam_of_a_sample_is_the_metric_of_its_messages(pairs, seed):
    """The same messages are drawn as for 1-ROCA: ham, then spam."""
    scores, gold = arrays(pairs)
    decided = scores > 0
    random = np.random.default_rng(seed)
    lost, missed = decided[~gold], ~decided[gold]
    errors = Errors(
        ham=lost.size,
        ham_lost=int(lost[random.integers(0, lost.size, size=(1, lost.size))].sum()),
        spam=missed.size,
        spam_missed=int(
            missed[random.integers(0, missed.size, size=(1, missed.size))].sum()
        ),
    )

    assert [pytest.approx(errors.lam_pct)] == lam_replicates(
        decided, gold, seed=seed, resamples=1
    ).tolist()


@pytest.mark.parametrize("spam", [True, False])
def test_one_side_alone_has_no_replicates(spam):
    """Undefined figures are NaN, without an interval."""
    gold = np.full(5, spam)
    replicates = lam_replicates(gold, gold, seed=1, resamples=3)

    assert np.isnan(replicates).all()
    assert interval(replicates) is None


def test_what_two_filters_share_cancels_out():
    """The paired difference of nearly equal filters is far surer than each figure."""
    random = np.random.default_rng(3)
    gold = np.arange(600) < 300
    scores = random.normal(gold * 2.0, 1.0)
    better = scores + 0.05 * np.where(gold, 1, -1)
    here = roca_replicates(better, gold, seed=1)
    there = roca_replicates(scores, gold, seed=1)
    low, high = interval(here - there)

    assert high < 0
    assert high - low < np.subtract(*interval(there)[::-1]) / 5
