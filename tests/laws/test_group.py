"""Training states are a group: what is learned can be taken back, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.sparse import SparseCounts
from app.bayes.statistics import FeatureCounts
from app.bayes.table import FeatureTable
from app.errors import InconsistentCounts

K = 3
feature_ids = st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))
messages = st.dictionaries(feature_ids, st.integers(1, 50), max_size=8).map(
    SparseCounts.of
)
deltas = st.builds(
    lambda x, label: FeatureCounts.of(x, label=label, n_classes=K),
    messages,
    st.integers(0, K - 1),
)
histories = st.lists(deltas, max_size=8)
states = st.builds(
    lambda gained, lost: total(gained) - total(lost), histories, histories
)


def total(history):
    """Return the sum of a history."""
    return FeatureCounts.sum(history, n_classes=K)


@given(states, states, states)
def test_addition_is_associative(a, b, c):
    """Parts may be summed in any grouping."""
    assert (a + b) + c == a + (b + c)


@given(states, states)
def test_addition_commutes(a, b):
    """Deltas of several workers may arrive in any order."""
    assert a + b == b + a


@given(states)
def test_zero_is_neutral_and_every_state_has_an_inverse(a):
    """Negative elements are part of the group, though no table holds them."""
    zero = FeatureCounts.zero(K)

    assert a == a + zero
    assert zero == a - a
    assert a == zero - (zero - a)
    assert zero - a == -a


@given(histories, deltas)
def test_unlearning_is_the_exact_inverse_of_learning(history, delta):
    """Learning a message and taking it back leaves no trace."""
    assert total(history) == total(history) + delta - delta


@given(histories, st.randoms(use_true_random=False))
def test_order_never_matters(history, random):
    """A shuffled history has the same sum, added one by one or at once."""
    shuffled = list(history)
    random.shuffle(shuffled)
    one_by_one = FeatureCounts.zero(K)
    for delta in shuffled:
        one_by_one = one_by_one + delta

    assert total(history) == one_by_one


@given(histories, histories)
def test_merging_equals_training_on_everything(here, there):
    """The sum of two machines' states is one machine that saw it all."""
    assert total(here + there) == total(here) + total(there)


@given(histories, deltas, st.integers(0, K - 1))
def test_relabelling_is_unlearning_and_learning(history, delta, label):
    """A moved message leaves the state of a history that had the new label."""
    x = SparseCounts(delta.ids, delta.occurrences.sum(axis=1))
    moved = FeatureCounts.of(x, label=label, n_classes=K)
    change = moved - delta

    assert total([*history, moved]) == total([*history, delta]) + change


@given(histories)
def test_a_state_is_the_sum_of_its_messages_and_nothing_else(history):
    """Every count can be read off the messages by hand."""
    state = total(history)
    for row, feature in enumerate(state.ids.tolist()):
        holders = [d for d in history if feature in d.ids.tolist()]

        assert (
            sum(d.documents[d.ids == feature][0] for d in holders).tolist()
            == state.documents[row].tolist()
        )
    assert [sum(int(d.messages[c]) for d in history) for c in range(K)] == (
        state.messages.tolist()
    )


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 2**16), deltas), max_size=30)


@given(steps)
def test_a_table_is_the_flat_sum_under_any_history(steps):
    """Counts, totals, vocabulary and histograms agree after every step."""
    table, learned = FeatureTable.empty(K), []
    for unlearn, pick, delta in steps:
        if unlearn and learned:
            table = table.add(-learned.pop(pick % len(learned)))
        else:
            learned.append(delta)
            table = table.add(delta)
        flat = total(learned)
        asked = np.unique(np.append(delta.ids, [0, 1, 2]))

        assert flat == table.flatten()
        assert flat.messages.tolist() == table.messages.tolist()
        assert flat.vocabulary == table.vocabulary
        for counting in ("occurrences", "presence"):
            assert flat.totals(counting).tolist() == table.totals(counting).tolist()
            assert np.array_equal(
                flat.look_up(asked, counting), table.look_up(asked, counting)
            )
        for c in range(K):
            assert flat.document_frequencies(c) == table.document_frequencies(c)


@given(histories)
def test_a_table_of_a_state_is_the_table_that_learned_it(history):
    """Loading a sum equals learning its messages."""
    loaded, grown = FeatureTable.of(total(history)), FeatureTable.empty(K)
    for delta in history:
        grown = grown.add(delta)

    assert loaded.flatten() == grown.flatten()
    assert loaded.vocabulary == grown.vocabulary
    assert loaded.frequencies == grown.frequencies


@given(histories, deltas)
def test_a_table_takes_back_exactly_what_can_be_taken_back(history, delta):
    """A sum that no messages have is refused; any other is reached."""
    table, change = FeatureTable.of(total(history)), -delta
    flat = total(history) + change
    try:
        flat.require_reachable()
    except InconsistentCounts:
        with pytest.raises(InconsistentCounts):
            table.add(change)
    else:
        assert flat == table.add(change).flatten()
