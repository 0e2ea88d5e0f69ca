"""Two configurations on the same messages: who won, by how much, and how surely."""

from __future__ import annotations

import numpy as np
import pytest

from app.classifier.specification import Specification
from app.corpora.source import StreamSurvey
from app.evaluation.run import SCORED, Mistake, PartOutcome, Run, compare

GOLD = np.arange(200) % 2 == 1


def outcome(scores, messages):
    """Return what a filter said of some messages."""
    return PartOutcome(
        scored=np.array(
            [
                (message, score, 0.5, 2 * (score > 0), score > 0)
                for message, score in zip(messages, scores, strict=True)
            ],
            SCORED,
        ),
        seconds=1.0,
        learned=0,
        mistakes=tuple(
            Mistake(message=message, log_odds=score, reasons=())
            for message, score in zip(messages, scores, strict=True)
        ),
    )


def run_of(name, *outcomes, gold=GOLD):
    """Return the run of a configuration."""
    labels = tuple("spam" if spam else "ham" for spam in gold)
    return Run(
        stream="s",
        configuration=name,
        specification=Specification(),
        survey=StreamSurvey(
            labels=labels, where=labels, order=tuple(range(len(labels))), digest="00"
        ),
        in_time=True,
        outcomes=outcomes,
    )


def noisy(spread, seed):
    """Return scores of a filter that is worse the wider it spreads."""
    random = np.random.default_rng(seed)
    return np.where(GOLD, 1.0, -1.0) + random.normal(0, spread, GOLD.size)


def test_a_better_filter_wins_and_the_interval_says_so():
    """Below 0 is better; parts are counted by 1-ROCA."""
    halves = (range(100), range(100, 200))
    good, bad = noisy(0.5, 1), noisy(3.0, 2)
    comparison = compare(
        [run_of("new", *(outcome(good[list(half)], half) for half in halves))],
        [run_of("old", *(outcome(bad[list(half)], half) for half in halves))],
        seed=1,
    )
    low, high = comparison.roca.interval

    assert ("new", "old") == (comparison.configuration, comparison.against)
    assert (2, 0, 0) == (comparison.won, comparison.tied, comparison.lost)
    assert low < comparison.roca.value < high < 0
    assert comparison.lam.value < 0


def test_a_filter_ties_with_itself():
    """No difference, and no doubt about it."""
    same = [run_of("a", outcome(noisy(1.0, 1), range(200)))]
    comparison = compare(same, same, seed=1)

    assert (0, 1, 0) == (comparison.won, comparison.tied, comparison.lost)
    assert 0.0 == comparison.roca.value
    assert (0.0, 0.0) == comparison.roca.interval


def test_differences_are_averaged_over_streams():
    """Two streams, one won by 50 points and one lost by as many."""
    perfect, useless = np.where(GOLD, 1.0, -1.0), np.zeros(200)
    new = [run_of("n", outcome(each, range(200))) for each in (perfect, useless)]
    old = [run_of("o", outcome(each, range(200))) for each in (useless, perfect)]
    comparison = compare(new, old, seed=1)

    assert (1, 0, 1) == (comparison.won, comparison.tied, comparison.lost)
    assert 0.0 == comparison.roca.value
    assert (0.0, 0.0) == pytest.approx(comparison.roca.interval)


def test_streams_of_one_size_are_resampled_independently():
    """A second stream narrows the interval, though the same messages are hard there."""
    new, old = (
        [run_of(name, outcome(noisy(spread, 1), range(200)))] * 2
        for name, spread in (("n", 1.0), ("o", 2.0))
    )
    widths = [
        high - low
        for streams in (1, 2)
        for low, high in [compare(new[:streams], old[:streams], seed=1).roca.interval]
    ]
    again = compare(new, old, seed=1).roca.interval

    assert widths[0] / 2**0.5 == pytest.approx(widths[1], rel=0.1)
    assert again == compare(new, old, seed=1).roca.interval
    assert again != compare(new, old, seed=2).roca.interval


def test_a_stream_of_ham_alone_has_no_difference():
    """What no stream defines is None."""
    ham = run_of("a", outcome(np.zeros(5), range(5)), gold=[False] * 5)
    comparison = compare([ham], [ham], seed=1)

    assert (0, 0, 0) == (comparison.won, comparison.tied, comparison.lost)
    assert (None, None) == (comparison.roca.value, comparison.roca.interval)
    assert (None, None) == (comparison.lam.value, comparison.lam.interval)


def test_the_surest_mistake_of_each_kind_stands_first():
    """A missed spam that was unsure is nearer to spam than any that was taken for ham."""
    scores = [2.0, 5.0, -1.0, 1.9, -3.0]
    gold = [False, False, True, True, True]
    found = run_of("new", outcome(scores, range(5)), gold=gold).mistakes

    assert [1, 0, 4, 2, 3] == [mistake.message for mistake in found]
