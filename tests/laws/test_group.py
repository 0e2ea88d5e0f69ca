"""Training states are a group: what is learned can be taken back, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.moments import MomentSums
from app.bayes.sparse import LIMIT, Measurements, SparseCounts
from app.bayes.table import FeatureTable
from app.errors import InconsistentCounts, InvalidObservation

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
measured = st.dictionaries(
    st.integers(0, 4), st.integers(-LIMIT, LIMIT), max_size=4
).map(lambda values: Measurements.of(values, fraction_bits=0))
moments = st.builds(
    lambda x, label: MomentSums.of(x, label=label, n_classes=K),
    measured,
    st.integers(0, K - 1),
)
histories = st.lists(deltas, max_size=8)
any_history = st.one_of(
    st.tuples(st.just(FeatureCounts), histories),
    st.tuples(st.just(MomentSums), st.lists(moments, max_size=5)),
)


def total(history, group=FeatureCounts):
    """Return the sum of a history."""
    return group.sum(history, n_classes=K)


@st.composite
def elements(draw, number):
    """Return elements of one of the groups, negative ones among them."""
    group, delta = draw(
        st.sampled_from([(FeatureCounts, deltas), (MomentSums, moments)])
    )
    history = st.lists(delta, max_size=4)
    return [
        total(draw(history), group) - total(draw(history), group) for _ in range(number)
    ]


@given(elements(2), st.integers(-1024, 1024), st.integers(-1024, 1024))
def test_times_distributes_over_addition(two, m, n):
    """What is taken m times and n times is taken m + n times, together or apart."""
    x, y = two

    assert x * m + x * n == x * (m + n)
    assert (x + y) * m == x * m + y * m
    assert x == x * 1
    assert -x == x * -1


@given(st.integers(1, 2**62))
def test_a_count_that_is_too_large_is_not_taken_so_many_times(count):
    """It is refused, since 64-bit integers would wrap around."""
    x = FeatureCounts.of(SparseCounts.of({1: count}), label=0, n_classes=K)
    times = 2**63 // count + 1

    with pytest.raises(InvalidObservation, match=f"a count of {count} is too large"):
        x * times


@given(elements(3))
def test_addition_is_associative(three):
    """Parts may be summed in any grouping."""
    a, b, c = three

    assert (a + b) + c == a + (b + c)


@given(elements(2))
def test_addition_commutes(two):
    """Deltas of several workers may arrive in any order."""
    a, b = two

    assert a + b == b + a


@given(elements(1))
def test_zero_is_neutral_and_every_state_has_an_inverse(one):
    """Negative elements are part of the group, though no table holds them."""
    (a,) = one
    zero = type(a).zero(K)

    assert a == a + zero
    assert zero == a - a
    assert a == zero - (zero - a)
    assert zero - a == -a


@given(any_history, st.randoms(use_true_random=False))
def test_order_never_matters(group_history, random):
    """A shuffled history has the same sum, added one by one or at once."""
    group, history = group_history
    shuffled = list(history)
    random.shuffle(shuffled)
    one_by_one = group.zero(K)
    for delta in shuffled:
        one_by_one = one_by_one + delta

    assert total(history, group) == one_by_one


@given(any_history, st.integers(0, 5))
def test_unlearning_any_message_leaves_the_history_without_it(group_history, pick):
    """Also the first of many, with others learned since."""
    group, history = group_history
    rest = [delta for i, delta in enumerate(history) if i != pick]
    state = total(history, group)
    for delta in history[pick : pick + 1]:
        state = state - delta

    assert total(rest, group) == state
    if group is FeatureCounts:
        state.require_reachable()


@given(any_history, st.integers(0, 8))
def test_merging_equals_training_on_everything(group_history, cut):
    """The sum of two machines' states is one machine that saw it all."""
    group, history = group_history

    assert total(history, group) == (
        total(history[:cut], group) + total(history[cut:], group)
    )


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
    table, learned = FeatureTable(K), []
    for unlearn, pick, delta in steps:
        if unlearn and learned:
            table.add(-learned.pop(pick % len(learned)))
        else:
            learned.append(delta)
            table.add(delta)
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


@given(histories)
def test_a_table_of_a_state_is_the_table_that_learned_it(history):
    """Loading a sum equals learning its messages."""
    loaded = FeatureTable.of(total(history))
    grown = FeatureTable(K)
    for delta in history:
        grown.add(delta)

    assert loaded.flatten() == grown.flatten()
    assert loaded.vocabulary == grown.vocabulary


@given(histories, deltas)
def test_a_table_takes_back_exactly_what_can_be_taken_back(history, delta):
    """Counts that no messages have are refused; all others are reached."""
    table, change = FeatureTable.of(total(history)), -delta
    flat = total(history) + change
    # Those of the features that change: a table looks at no others.
    asked = (flat.look_up(delta.ids, each) for each in ("occurrences", "presence"))
    try:
        FeatureCounts.of_counts(flat.messages, delta.ids, *asked).require_reachable()
    except InconsistentCounts:
        with pytest.raises(InconsistentCounts):
            table.add(change)
        assert total(history) == table.flatten()
    else:
        table.add(change)
        assert flat == table.flatten()
