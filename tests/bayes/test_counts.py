"""Feature statistics: what one message adds, and what no messages can have."""

from __future__ import annotations

import numpy as np
import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.errors import InconsistentCounts, InvalidObservation

ONE = FeatureCounts.of(SparseCounts.of({1: 3, 5: 1}), label=1, n_classes=3)


def test_one_message_adds_its_counts_to_its_class_only():
    """Messages, occurrences and documents go to the column of the label."""
    assert [0, 1, 0] == ONE.messages.tolist()
    assert [1, 5] == ONE.ids.tolist()
    assert [[0, 3, 0], [0, 1, 0]] == ONE.occurrences.tolist()
    assert [[0, 1, 0], [0, 1, 0]] == ONE.documents.tolist()


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_out_of_range_is_refused(label):
    """Negative indices do not count from the end."""
    with pytest.raises(InvalidObservation, match=f"label {label} is not"):
        FeatureCounts.of(SparseCounts.of({}), label=label, n_classes=3)


def test_look_up_finds_counts_and_zeros():
    """Ids below, between and beyond those that were seen have zero counts."""
    ids = np.array([-9, 1, 3, 5, 9])

    assert [0, 3, 0, 1, 0] == ONE.look_up(ids, "occurrences")[:, 1].tolist()
    assert [0, 1, 0, 1, 0] == ONE.look_up(ids, "presence")[:, 1].tolist()
    assert not ONE.look_up(ids, "presence")[:, [0, 2]].any()


def test_nothing_was_seen_before_the_first_message():
    """The zero has no counts, in arrays of the right shape."""
    found = FeatureCounts.zero(3).look_up(np.array([1, 2]), "presence")

    assert np.zeros((2, 3), np.int64).tolist() == found.tolist()


def test_the_sum_of_no_parts_is_zero():
    """An empty history has the statistics of no message."""
    assert FeatureCounts.zero(2) == FeatureCounts.sum([], n_classes=2)


def test_the_sum_of_messages_without_features_counts_messages():
    """A message without a single feature is still a message."""
    empty = FeatureCounts.of(SparseCounts.of({}), label=0, n_classes=2)

    assert [2, 0] == (empty + empty).messages.tolist()
    assert 0 == (empty + empty).vocabulary


def test_a_feature_without_counts_leaves_no_row():
    """Equal statistics are equal arrays, whatever was learned in between."""
    other = FeatureCounts.of(SparseCounts.of({2: 1}), label=0, n_classes=3)

    assert 3 == (ONE + other).vocabulary
    assert 2 == (ONE + other - other).vocabulary
    assert ONE == ONE + other - other


def test_a_large_state_takes_in_a_small_one():
    """Rows are inserted, added to and removed, at both ends and between."""
    large = FeatureCounts.of(
        SparseCounts.of(dict.fromkeys(range(0, 100, 2), 2)), label=0, n_classes=2
    )
    for small in ({-1: 1}, {4: 2, 5: 1, 99: 1, 100: 3}, {0: 1}, {}):
        delta = FeatureCounts.of(SparseCounts.of(small), label=1, n_classes=2)
        whole = large + delta

        assert FeatureCounts.sum([large, delta], n_classes=2) == whole
        assert whole == delta + large
        assert large == whole - delta
        assert sorted({*range(0, 100, 2), *small}) == whole.ids.tolist()


def test_statistics_compare_only_with_statistics():
    """Equality is exact and looks at every array."""
    more = FeatureCounts.of(SparseCounts.of({1: 4, 5: 1}), label=1, n_classes=3)

    assert more != ONE
    assert FeatureCounts.zero(3) != ONE
    assert ONE != "statistics"
    with pytest.raises(TypeError, match="unhashable"):
        hash(ONE)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"messages": [0, -1]}, "messages would be negative: -1"),
        ({"occurrences": [[0, -2]]}, "occurrences would be negative: -2"),
        ({"documents": [[0, -3]]}, "documents would be negative: -3"),
        ({"occurrences": [[0, 0]]}, "occur 0 times in 1 messages"),
        ({"documents": [[0, 0]]}, "occur 2 times in 0 messages"),
        ({"messages": [1, 0]}, "in 1 messages of class 1, which has 0"),
    ],
)
def test_statistics_of_no_set_of_messages_are_refused(change, sentence):
    """Negative and contradicting counts raise, with the value."""
    arrays = {
        "messages": [0, 1],
        "ids": [7],
        "occurrences": [[0, 2]],
        "documents": [[0, 1]],
    }
    FeatureCounts.of_counts(
        **{k: np.array(v, np.int64) for k, v in arrays.items()}
    ).require_reachable()
    wrong = FeatureCounts.of_counts(
        **{k: np.array(v, np.int64) for k, v in (arrays | change).items()}
    )

    with pytest.raises(InconsistentCounts, match=sentence):
        wrong.require_reachable()
