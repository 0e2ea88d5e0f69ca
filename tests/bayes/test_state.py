"""States and histories: groups by view and month, and their parts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.moments import MomentSums
from app.bayes.sparse import Measurements, SparseCounts
from app.bayes.state import History, State, total
from app.errors import InconsistentCounts

K = 2
COUNTS = FeatureCounts.of(SparseCounts.of({1: 1}), label=0, n_classes=K)
SUMS = MomentSums.of(Measurements.of({1: 3.0}), label=1, n_classes=K)
counted = st.builds(
    lambda x, label: FeatureCounts.of(SparseCounts.of(x), label=label, n_classes=K),
    st.dictionaries(st.integers(-3, 3), st.integers(1, 9), max_size=5),
    st.integers(0, K - 1),
)
measured = st.builds(
    lambda x, label: MomentSums.of(Measurements.of(x), label=label, n_classes=K),
    st.dictionaries(st.integers(0, 2), st.integers(-9, 9), max_size=3),
    st.integers(0, K - 1),
)
messages = st.fixed_dictionaries(
    {}, optional={"words": counted, "pairs": counted, "sizes": measured}
).map(State)
states = st.lists(messages, max_size=4).map(State.sum)
histories = st.dictionaries(st.sampled_from([202601, 202602]), states).map(History)


@pytest.mark.parametrize("part", [COUNTS, SUMS])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_total_is_of_the_kind_of_its_parts(part, n):
    """A total has the kind of its parts, however many there are."""
    found = total([part] * n)

    assert type(part) is type(found)
    assert n == found.messages.sum()
    assert part == found + -total([part] * n) + part


def test_features_and_measurements_have_no_sum():
    """A view of both kinds is refused, and the error counts the parts."""
    with pytest.raises(InconsistentCounts, match=r"features in 2 parts and .* in 1,"):
        State.sum([{"words": COUNTS}, {"words": SUMS}, {"words": COUNTS}])


def test_views_of_either_kind_are_summed_apart():
    """Each view has its own total."""
    found = State(words=COUNTS, sizes=SUMS) + State(sizes=SUMS)

    assert {"words": COUNTS, "sizes": SUMS + SUMS} == found
    assert {"words": COUNTS} == found.features
    assert {"sizes": SUMS + SUMS} == found.moments
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
    assert {"words": {1}} == History({202601: State(words=both)}).gained()
    assert both.negative
    assert (-SUMS).negative
    assert not COUNTS.negative
    assert not SUMS.negative


def test_a_magnitude_counts_each_number_once():
    """A product of two fields is in the arrays twice."""
    two = Measurements(np.array([1, 2]), np.array([3, -4]))

    assert 3 == COUNTS.magnitude
    # One message; 3 and 4; three pairs of fields; 9, 12 and 16.
    assert 1 + 7 + 3 + 37 == MomentSums.of(two, label=0, n_classes=K).magnitude
