"""The statistics of one labelled message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.classifier.learn import MOST_TAUGHT, Move, bounded, delta, sum_of_moves
from app.errors import InvalidObservation

ids = st.integers(-(2**63), 2**63 - 1)


messages = st.dictionaries(ids, st.integers(1, 9), max_size=6).map(SparseCounts.of)
classes = st.none() | st.integers(0, 2)


def plain(x, label):
    """Return the textbook delta of one message."""
    if label is None:
        return FeatureCounts.zero(3)
    return FeatureCounts.of(x, label=label, n_classes=3)


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
moves = st.lists(
    st.builds(
        Move,
        views=st.fixed_dictionaries(
            {},
            optional={
                "words": sparse.map(SparseCounts.of),
                "pairs": sparse.map(SparseCounts.of),
            },
        ),
        before=classes,
        after=classes,
    ),
    max_size=8,
)


@given(moves)
def test_many_moves_add_what_they_add_one_by_one(many):
    """The sums agree, whatever views the messages have."""
    expected = {}
    for move in many:
        one = delta(move.views, before=move.before, after=move.after, n_classes=3)
        for view, statistics in one.items():
            expected[view] = (
                expected[view] + statistics if view in expected else statistics
            )
    assert expected == sum_of_moves(many, n_classes=3)


def test_a_label_out_of_range_is_refused():
    """The error names the class index."""
    with pytest.raises(InvalidObservation, match=r"label 2 is not in range\(2\)"):
        delta({"v": SparseCounts.of({1: 1})}, before=None, after=2, n_classes=2)


@given(st.integers(-2, 2), st.integers(1, 3))
def test_a_message_teaches_a_view_a_bounded_number_of_features(more, times):
    """Those with the first ids, as often as it has them; no more the second time."""
    size = MOST_TAUGHT + more
    x = SparseCounts.of(dict.fromkeys(range(-5, size - 5), times))
    views = {"words": x, "pairs": SparseCounts.of({1: 2})}
    first = bounded(views)

    assert min(size, MOST_TAUGHT) == first["words"].size
    assert x.ids[:MOST_TAUGHT].tolist() == first["words"].ids.tolist()
    assert {times} == set(first["words"].counts.tolist())
    assert views["pairs"] == first["pairs"]
    assert first == bounded(first)
