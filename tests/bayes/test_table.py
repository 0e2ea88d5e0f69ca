"""A table of counts grows in place, and refuses impossible sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.bayes.table import SMALLEST, FeatureTable
from app.errors import InconsistentCounts

COUNTS = st.dictionaries(
    st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    st.integers(1, 9),
    max_size=40,
)
MESSAGES = st.lists(st.tuples(COUNTS, st.integers(0, 1)), max_size=8)


def delta(counts, label=0):
    """Return what a message of a two-class profile adds."""
    return FeatureCounts.of(SparseCounts.of(counts), label=label, n_classes=2)


def require_equal(table, state):
    """Check that a table answers as the state of the same messages."""
    asked = np.concatenate([state.ids, np.array([5, 0, -1])])
    assert state == table.flatten()
    assert state.vocabulary == table.vocabulary
    for counting in ("occurrences", "presence"):
        assert state.totals(counting).tolist() == table.totals(counting).tolist()
        for found, expected in zip(
            table.look_up(asked, counting), state.look_up(asked, counting), strict=True
        ):
            assert expected.tolist() == found.tolist()


@given(MESSAGES)
def test_a_table_is_the_sum_of_what_was_added(messages):
    """So it is after each message, and after each is taken back."""
    table, state = FeatureTable(2), FeatureCounts.zero(2)
    parts = [delta(counts, label) for counts, label in messages]
    for part in parts:
        table.add(part)
        state += part
    require_equal(table, state)
    require_equal(FeatureTable.of(state), state)
    for part in parts:
        table.add(-part)
    require_equal(table, FeatureCounts.zero(2))


def test_features_that_are_gone_give_their_places_back():
    """A table that learns and forgets does not grow."""
    table = FeatureTable(2)
    for i in range(100):
        part = delta({i * 50 + j: 1 for j in range(50)})
        table.add(part)
        table.add(-part)

    assert 0 == table.vocabulary
    assert table.room < 4 * SMALLEST


def test_a_feature_of_two_classes_has_at_most_forty_bytes():
    """The limit holds at every size of the table."""
    for size in (1_000, 2_500, 9_000, 40_000):
        table = FeatureTable(2)
        for start in range(0, size, 500):
            ids = np.arange(start + 1, start + 501)
            table.add(delta(dict.fromkeys(ids.tolist(), 1)))
        assert table.nbytes <= 40 * size


def test_a_count_outgrows_32_bits():
    """One count beyond 32 bits gives all counts of the table 64."""
    table = FeatureTable.of(delta({1: 2**31 - 1}))
    narrow = table.nbytes
    table.add(delta({1: 2**40, 2: 1}))

    assert [[2**40 + 2**31 - 1, 0]] == table.look_up(
        np.array([1]), "occurrences"
    ).tolist()
    assert table.nbytes > narrow


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (-delta({1: 3}), "a feature would occur -1 times|negative"),
        (-delta({2: 1}), "negative"),
        (-delta({1: 1}) + delta({2: 1}), "a feature would occur 1 times in 0 messages"),
        (-delta({1: 2}, label=1), "a count of messages would be negative"),
    ],
)
def test_a_table_that_refuses_a_sum_is_as_it_was(change, sentence):
    """A refused sum adds nothing to the table."""
    table = FeatureTable.of(delta({1: 2}))
    with pytest.raises(InconsistentCounts, match=sentence):
        table.add(change)

    require_equal(table, delta({1: 2}))


def test_a_feature_is_in_no_more_messages_than_there_are():
    """The limit also holds if one message replaces another."""
    table = FeatureTable.of(delta({1: 1}) + delta({1: 1, 2: 1}))
    with pytest.raises(InconsistentCounts, match="a feature would be in 3 messages"):
        table.add(delta({1: 1}) - delta({2: 1}))
    assert [2, 0] == table.messages.tolist()


def test_a_state_that_no_messages_have_makes_no_table():
    """A state that no messages can have is refused."""
    with pytest.raises(InconsistentCounts, match="negative"):
        FeatureTable.of(-delta({1: 1}))
