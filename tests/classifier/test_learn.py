"""The statistics of one labelled message."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes import moments
from app.bayes.counts import FeatureCounts
from app.bayes.moments import MomentSums
from app.bayes.sparse import LIMIT, Measurements, SparseCounts
from app.classifier.learn import MOST_TAUGHT, Move, bounded, delta, sum_of_moves
from app.errors import InconsistentCounts, InvalidObservation

ids = st.integers(-(2**63), 2**63 - 1)


def measured(steps):
    """Return measurements of a mapping from field to steps."""
    fields = sorted(steps)
    return Measurements(
        np.array(fields, np.int64), np.array([steps[f] for f in fields], np.int64)
    )


messages = st.one_of(
    st.dictionaries(ids, st.integers(1, 9), max_size=6).map(SparseCounts.of),
    st.dictionaries(ids, st.integers(-LIMIT, LIMIT), max_size=4).map(measured),
)
classes = st.none() | st.integers(0, 2)


def plain(x, label):
    """Return the textbook delta of one message."""
    kind = MomentSums if isinstance(x, Measurements) else FeatureCounts
    if label is None:
        return kind.zero(3)
    return kind.of(x, label=label, n_classes=3)


@given(messages, classes, classes)
def test_a_move_is_unlearning_and_learning(x, before, after):
    """The delta of a move is the new label's delta less the old one's."""
    expected = plain(x, after) - plain(x, before)

    moved = delta({"words": x}, before=before, after=after, n_classes=3)

    assert {"words": expected} == moved


@given(messages, classes, classes, classes)
def test_moves_compose(x, first, second, third):
    """Moving twice is moving once from the first label to the last."""
    steps = [
        delta({"v": x}, before=a, after=b, n_classes=3)["v"]
        for a, b in ((first, second), (second, third))
    ]

    assert delta({"v": x}, before=first, after=third, n_classes=3)["v"] == (
        steps[0] + steps[1]
    )


sparse = st.dictionaries(st.integers(-3, 3), st.integers(1, 9), max_size=6)
measures = st.dictionaries(
    st.integers(0, 3),
    st.integers(-LIMIT, LIMIT) | st.sampled_from([-LIMIT, -1, 0, LIMIT]),
    max_size=4,
)
moves = st.lists(
    st.builds(
        Move,
        views=st.fixed_dictionaries(
            {},
            optional={
                "words": sparse.map(SparseCounts.of),
                "sizes": measures.map(measured),
            },
        ),
        before=classes,
        after=classes,
    ),
    max_size=8,
)


@given(moves, st.integers(1, 9))
def test_many_moves_add_what_they_add_one_by_one(many, at_once):
    """The sums agree to the last bit, for the largest measurements and any fields."""
    expected = {}
    for move in many:
        one = delta(move.views, before=move.before, after=move.after, n_classes=3)
        for view, statistics in one.items():
            expected[view] = (
                expected[view] + statistics if view in expected else statistics
            )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "AT_ONCE", at_once)
        found = sum_of_moves(many, n_classes=3)

    assert expected == found


def test_a_view_of_two_kinds_has_no_sum():
    """The error says what is wrong with the rows."""
    mixed = [
        Move(views={"v": x}, before=None, after=0)
        for x in (SparseCounts.of({1: 1}), measured({1: 1}))
    ]

    with pytest.raises(
        InconsistentCounts, match=r"features in 1 messages and .* in 1,"
    ):
        sum_of_moves(mixed, n_classes=2)


def test_views_of_both_kinds_move_together():
    """Features are counted and measurements summed, each as its own."""
    views = {"words": SparseCounts.of({1: 2}), "sizes": measured({1: -LIMIT})}

    moved = delta(views, before=2, after=0, n_classes=3)

    assert {view: plain(x, 0) - plain(x, 2) for view, x in views.items()} == moved
    assert LIMIT**2 == moved["sizes"].products[0, 0, 0]


def test_a_label_out_of_range_is_refused():
    """The error names the class index."""
    with pytest.raises(InvalidObservation, match=r"label 2 is not in range\(2\)"):
        delta({"v": SparseCounts.of({1: 1})}, before=None, after=2, n_classes=2)


@given(st.integers(-2, 2), st.integers(1, 3))
def test_a_message_teaches_a_view_a_bounded_number_of_features(more, times):
    """Those with the first ids, as often as it has them; no more the second time."""
    size = MOST_TAUGHT + more
    x = SparseCounts.of(dict.fromkeys(range(-5, size - 5), times))
    views = {"words": x, "sizes": Measurements.of({1: 0.5})}
    first = bounded(views)

    assert min(size, MOST_TAUGHT) == first["words"].size
    assert x.ids[:MOST_TAUGHT].tolist() == first["words"].ids.tolist()
    assert {times} == set(first["words"].counts.tolist())
    assert views["sizes"] == first["sizes"]
    assert first == bounded(first)
