"""States and histories: groups by view and month, and their parts."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.bayes.state import History, State

K = 2
COUNTS = FeatureCounts.of(SparseCounts.of({1: 1}), label=0, n_classes=K)
OTHERS = FeatureCounts.of(SparseCounts.of({1: 3}), label=1, n_classes=K)
counted = st.builds(
    lambda x, label: FeatureCounts.of(SparseCounts.of(x), label=label, n_classes=K),
    st.dictionaries(st.integers(-3, 3), st.integers(1, 9), max_size=5),
    st.integers(0, K - 1),
)
messages = st.fixed_dictionaries(
    {}, optional={"words": counted, "pairs": counted, "headers": counted}
).map(State)
states = st.lists(messages, max_size=4).map(State.sum)
histories = st.dictionaries(st.sampled_from([202601, 202602]), states).map(History)


def test_views_are_summed_apart():
    """Each view has its own total."""
    found = State(words=COUNTS, pairs=OTHERS) + State(pairs=OTHERS)

    assert {"words": COUNTS, "pairs": OTHERS + OTHERS} == found
    assert 2 == found.size


@given(st.tuples(states, states, states), st.integers(0, 3))
def test_states_are_a_group_and_weights_distribute(three, times):
    """Sums do not depend on their order, and what was added can be taken back."""
    a, b, c = three

    assert a + b == b + a
    assert (a + b) + c == State.sum(three)
    assert (a + b) * times == a * times + b * times
    assert all(part.magnitude == 0 for part in (a - a).values())


@given(histories, histories)
def test_histories_are_a_group_month_by_month(a, b):
    """A month that only one of them has counts as zero in the other."""
    assert a + b == b + a
    assert all(part.magnitude == 0 for _, _, part in (a + b - b - a).parts())
    assert {
        month: a.get(month, State()) + b.get(month, State()) for month in {*a, *b}
    } == a + b


@given(histories, st.lists(st.integers(-4, 4), max_size=3))
def test_parts_between_features_add_up_to_the_whole(history, cuts):
    """The sum of the first parts is one that some messages can have."""
    bounds = [None, *sorted(cuts), None]
    reached = History()
    for first, end in pairwise(bounds):
        reached += history.between(first, end)
        for _, _, part in reached.parts():
            part.require_reachable()

    assert history == reached


def test_what_was_gained_and_lost_is_told_by_messages():
    """A feature that one class lost and another gained counts as gained."""
    moved = FeatureCounts.of(SparseCounts.of({1: 1}), label=1, n_classes=K) - COUNTS
    gone = -FeatureCounts.of(SparseCounts.of({2: 1}), label=0, n_classes=K)
    both = moved + gone

    assert [1] == both.gained.tolist()
    assert [2] == both.lost.tolist()
    assert both.negative
    assert not COUNTS.negative
    assert 3 == COUNTS.magnitude
