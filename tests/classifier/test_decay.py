"""What is learned counts less as it grows old, and everything else is as before."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.bayes.models.discrete import Bernoulli, Multinomial
from app.bayes.prior import (
    FadingPrior,
    FittedPrior,
    FixedPrior,
    SmoothedPrior,
    UniformPrior,
)
from app.bayes.smoothing import Epsilon, NoSmoothing
from app.bayes.sparse import SparseCounts
from app.classifier.learn import confident, delta
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import (
    PARTS,
    Decay,
    Specification,
    in_parts,
    prior_in_parts,
    weighted,
)
from app.settings import Settings

MARCH = 202603
epochs = st.builds(
    lambda year, month: 100 * year + month, st.integers(1990, 2060), st.integers(1, 12)
)
half_lives = st.floats(0.25, 1200.0)
SPECIFICATION = Specification()
VIEWS = ("words", "headers", "pairs", "corrections")
features = st.dictionaries(st.integers(0, 9), st.integers(1, 3), max_size=5)
messages = st.builds(
    lambda by_view: {
        view: SparseCounts.of(words)
        for view, words in zip(VIEWS, by_view, strict=True)
        if words is not None
    },
    st.tuples(*[st.none() | features] * len(VIEWS)),
)
histories = st.lists(st.tuples(messages, st.integers(0, 1)), max_size=8)


def learned(specification, history, *, epoch=MARCH):
    """Return the snapshot of messages that were learned one by one in one month."""
    snapshot = Snapshot.empty(specification)
    for revision, (views, label) in enumerate(history, 1):
        [added] = weighted(
            {epoch: delta(views, before=None, after=label, n_classes=2)},
            specification.decay,
        )
        snapshot.learn(added, revision=revision)
    return snapshot


@given(half_lives, epochs, epochs)
def test_what_is_older_never_counts_more(half_life, one, other):
    """Weights fall with age, from a whole message to nothing."""
    decay = Decay(half_life, MARCH)
    older, newer = sorted((one, other))

    assert 0 <= decay.weight(older) <= decay.weight(newer) <= PARTS


@given(half_lives, epochs)
def test_the_newest_month_counts_whole(half_life, epoch):
    """A future month counts in full, too."""
    assert PARTS == Decay(half_life, epoch).weight(epoch)
    assert PARTS == Decay(half_life, MARCH).weight(max(epoch, MARCH))


@given(st.integers(1, 24), st.integers(0, 9))
def test_after_each_half_life_a_message_counts_half(months, halvings):
    """Years count twelve months."""
    year, month = divmod(2026 * 12 + 2 - months * halvings, 12)

    assert PARTS >> halvings == Decay(months, MARCH).weight(100 * year + month + 1)


def test_nothing_has_an_age_before_anything_was_learned():
    """There is no month to count from."""
    assert PARTS == Decay(1.0).weight(199001)


@pytest.mark.parametrize("half_life", [0.0, -1.0, math.inf, math.nan])
def test_a_half_life_is_positive_and_finite(half_life):
    """No other number of months makes a weight."""
    with pytest.raises(ValidationError, match="half_life_months"):
        Settings(half_life_months=half_life)


@given(histories, messages)
def test_mail_of_one_month_is_scored_as_without_decay(history, views):
    """Bit for bit, because counts and pseudo-counts have the same unit."""
    whole = learned(SPECIFICATION, history)
    parts = learned(SPECIFICATION.decaying(6.0).as_of(MARCH), history)
    expected, found = score(whole, views), score(parts, views)

    assert expected.log_odds == found.log_odds
    assert expected.decision == found.decision
    assert np.array_equal(expected.log_posterior, found.log_posterior)
    assert {name: said.log_odds for name, said in expected.views.items()} == {
        name: said.log_odds for name, said in found.views.items()
    }


def test_a_word_that_turned_speaks_for_what_it_is_now():
    """Twenty spam a year ago weigh less than ten ham of this month."""
    word = {"words": SparseCounts.of({1: 1, 2: 1})}
    other = {"words": SparseCounts.of({2: 1, 3: 1})}
    old = [(word, 1)] * 20 + [(other, 0)] * 10
    new = [(word, 0)] * 10 + [(other, 1)] * 10

    def log_odds(specification):
        snapshot = learned(specification, old, epoch=MARCH - 100)
        for views, label in new:
            [added] = weighted(
                {MARCH: delta(views, before=None, after=label, n_classes=2)},
                specification.decay,
            )
            snapshot.learn(added, revision=snapshot.revision + 1)
        return score(snapshot, word).log_odds

    assert (
        log_odds(SPECIFICATION) > 0 > log_odds(SPECIFICATION.decaying(3).as_of(MARCH))
    )


def test_what_counts_as_nothing_leaves_nothing():
    """After eleven half-lives a feature is as if it had never been seen."""
    specification = SPECIFICATION.decaying(1.0).as_of(MARCH)
    views = {"words": SparseCounts.of({1: 1})}
    snapshot = learned(specification, [(views, 1)], epoch=MARCH - 100)

    assert Snapshot.empty(specification).tables["words"].flatten() == (
        snapshot.tables["words"].flatten()
    )


def test_messages_are_told_as_people_count_them():
    """Two of this month and one of half a weight are two and a half, so three."""
    specification = SPECIFICATION.decaying(6.0)

    assert [3, 2] == specification.in_messages(
        np.array([2 * PARTS + PARTS // 2, 2 * PARTS + PARTS // 2 - 1])
    ).tolist()
    assert [7] == SPECIFICATION.in_messages(np.array([7])).tolist()


def test_a_filter_trusts_itself_by_what_it_still_knows():
    """Twenty messages of each side that count half are ten."""
    views = {"words": SparseCounts.of({1: 1})}
    history = [(views, 0), (views, 1)] * 20
    specification = SPECIFICATION.decaying(12.0).as_of(MARCH)
    new = learned(specification, history)
    old = learned(specification, history, epoch=MARCH - 100)
    sure = replace(score(new, views), decision="spam", log_odds=9.0)

    assert confident(sure, new, own_from=0.0)
    assert not confident(sure, old, own_from=0.0)


@pytest.mark.parametrize("smoothing", [Epsilon(1e-6), NoSmoothing()])
def test_what_has_no_pseudo_count_has_no_unit(smoothing):
    """Shares are shares of anything."""
    for model in (Multinomial, Bernoulli):
        assert model(smoothing=smoothing) == in_parts(model(smoothing=smoothing))


def test_the_fading_prior_in_parts_is_the_same_prior():
    """They agree bit for bit, whatever was learned and whatever arrived."""
    counts, came = np.array([3, 17]), np.array([4.5, 20.5])
    spam = np.array([False, True])

    assert FadingPrior().log_prior(counts, came, spam).tolist() == (
        FadingPrior()
        .in_parts(PARTS)
        .log_prior(counts * PARTS, came * PARTS, spam)
        .tolist()
    )


@pytest.mark.parametrize(
    "prior",
    [
        SmoothedPrior(0.5),
        FittedPrior(),
        UniformPrior(),
        FixedPrior((0.25, 0.75)),
    ],
)
def test_a_prior_in_parts_is_the_same_prior(prior):
    """They agree bit for bit, whatever was learned."""
    counts = np.array([3, 17])

    assert prior.log_prior(counts).tolist() == (
        prior_in_parts(prior).log_prior(counts * PARTS).tolist()
    )
