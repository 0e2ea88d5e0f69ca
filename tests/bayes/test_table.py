"""A table of counts grows by small steps and refuses impossible ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.bayes.table import TIER_RATIO, FeatureTable
from app.errors import InconsistentCounts


def delta(counts, label=0):
    """Return what a message of a two-class profile adds."""
    return FeatureCounts.of(SparseCounts.of(counts), label=label, n_classes=2)


def test_adding_leaves_the_old_table_as_it_was():
    """A reader of the old table is never disturbed."""
    old = FeatureTable.empty(2).add(delta({1: 2}))
    new = old.add(delta({1: 1, 2: 1}, label=1))

    assert delta({1: 2}) == old.flatten()
    assert delta({1: 2}) + delta({1: 1, 2: 1}, label=1) == new.flatten()


@pytest.mark.parametrize("same", [True, False], ids=["same", "equal"])
def test_what_was_just_looked_up_is_learned_as_if_it_was_not(same):
    """The answer that a table keeps is of those ids in that table, and stays so."""
    more = delta({1: 1, 2: 1}, label=1)
    ids = more.ids if same else more.ids.copy()
    table = FeatureTable.of(delta({1: 2})).with_spectra()
    expected = table.add(more).add(more)

    grown = table
    for _ in range(2):
        found = grown.look_up(ids, "presence")
        assert grown.look_up(more.ids, "presence").base is found.base
        grown = grown.add(more)
        with pytest.raises(ValueError, match="read-only"):
            found += 1

    assert expected.flatten() == grown.flatten()
    assert 2 == grown.vocabulary
    for c in range(2):
        assert expected.document_frequencies(c) == grown.document_frequencies(c)
    assert [[0, 0], [1, 2]] == grown.look_up(np.array([9, 1]), "presence").tolist()
    assert [[1, 2], [0, 0]] == grown.look_up(np.array([1, 9]), "presence").tolist()


def test_tiers_fall_in_size():
    """Each tier is many times the next, so there are few of them."""
    table = FeatureTable.empty(2)
    for i in range(600):
        table = table.add(delta({i * 3 + j: 1 for j in range(9)}))
    sizes = [tier.size for tier in table.tiers]

    assert len(sizes) >= 2
    assert all(big >= TIER_RATIO * small for big, small in itertools.pairwise(sizes))


def test_a_small_table_is_one_tier():
    """To merge a few hundred rows takes less than to search them apart."""
    table = FeatureTable.empty(2)
    for i in range(100):
        table = table.add(delta({i * 3 + j: 1 for j in range(9)}))

    assert 1 == len(table.tiers)


def test_a_small_message_is_not_merged_into_a_large_table():
    """Learning does not rewrite the vocabulary."""
    large = FeatureTable.of(delta(dict.fromkeys(range(2000), 1)))
    grown = large.add(delta({5: 1}))

    assert grown.tiers[0] is large.tiers[0]
    assert [2] == grown.look_up(np.array([5]), "presence")[:, 0].tolist()


@pytest.mark.parametrize(
    "taken",
    [
        delta({1: 1}, label=1),
        delta({2: 1}),
        delta({1: 3}),
        delta({1: 1}),
        delta({}),
    ],
    ids=["other class", "other feature", "more", "fewer", "empty message"],
)
def test_unlearning_what_was_not_learned_is_refused(taken):
    """Counts are never clamped; the table stays as it is."""
    table = FeatureTable.of(delta({1: 2})).with_spectra()

    with pytest.raises(InconsistentCounts):
        table.add(-taken)

    assert delta({1: 2}) == table.flatten()


def test_what_takes_nothing_back_is_added_as_anything_else():
    """It is only not looked at whether any messages have such counts."""
    table = FeatureTable.of(delta({1: 2})).with_spectra()
    more = delta({1: 1, 2: 3}, label=1)
    looked, trusted = (table.add(more, takes_back=each) for each in (True, False))

    assert looked.flatten() == trusted.flatten()
    assert looked.vocabulary == trusted.vocabulary
    assert looked.document_frequencies(1) == trusted.document_frequencies(1)


def test_a_table_of_impossible_statistics_is_refused():
    """What is loaded is checked before it is scored with."""
    with pytest.raises(InconsistentCounts, match="messages would be negative"):
        FeatureTable.of(-delta({1: 1}))
