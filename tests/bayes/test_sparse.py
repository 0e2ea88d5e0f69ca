"""A sparse vector refuses invalid input, and compares by value."""

from __future__ import annotations

import numpy as np
import pytest

from app.bayes.sparse import SparseCounts, one_hot
from app.errors import InvalidObservation


def vector(ids, counts):
    """Return a sparse vector of plain lists."""
    return SparseCounts(np.array(ids, np.int64), np.array(counts, np.int64))


def test_ids_and_counts_must_be_equally_long():
    """An id without a count is refused."""
    with pytest.raises(InvalidObservation, match="equally long"):
        vector([1, 2], [1])


def test_ids_must_be_one_dimensional():
    """A matrix of ids is refused."""
    with pytest.raises(InvalidObservation, match="one-dimensional"):
        vector([[1, 2]], [[1, 1]])


@pytest.mark.parametrize("ids", [[2, 1], [1, 1], [2**63 - 1, -(2**63)]])
def test_ids_must_increase_strictly(ids):
    """Unsorted and repeated ids are refused, also where a difference overflows."""
    with pytest.raises(InvalidObservation, match="strictly increasing"):
        vector(ids, [1, 1])


@pytest.mark.parametrize("count", [0, -1])
def test_counts_must_be_at_least_one(count):
    """A feature that does not occur is not listed."""
    with pytest.raises(InvalidObservation, match=f"got {count}"):
        vector([1], [count])


def test_ids_use_all_64_bits():
    """The smallest and the largest 64-bit id can be in one vector."""
    x = SparseCounts.of({2**63 - 1: 1, -(2**63): 2})

    assert [-(2**63), 2**63 - 1] == x.ids.tolist()
    assert [2, 1] == x.counts.tolist()


def test_vectors_compare_by_value_only_with_vectors():
    """Equality looks at ids and counts, and at nothing else."""
    x = SparseCounts.of({1: 1})

    assert x != SparseCounts.of({1: 2})
    assert x != SparseCounts.of({2: 1})
    assert x != {1: 1}


def test_a_vector_has_no_hash():
    """Its arrays are mutable, so a vector cannot be a key."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(SparseCounts.of({}))


@pytest.mark.parametrize("counts", [{1: True}, {True: 1}])
def test_true_is_no_number(counts):
    """A boolean is refused, with an error that says so."""
    with pytest.raises(InvalidObservation, match="whole number of 64 bits, got True"):
        SparseCounts.of(counts)


@pytest.mark.parametrize("label", [1.0, "a", None, True])
def test_a_label_is_a_whole_number(label):
    """A label is an integer: no float, no name and no boolean."""
    with pytest.raises(InvalidObservation, match=r"a label is a whole number in range"):
        one_hot(label, 2)
