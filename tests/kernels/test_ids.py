"""Ids are sorted, counted and paired as a few plain lines of Python do it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.kernels.ids import distinct, joined, mixed, neighbours, paired, unpaired

NUMBERS = st.lists(
    st.integers(-3, 300) | st.sampled_from([2**32, -(2**63), 2**63 - 1]), max_size=300
)


@given(NUMBERS)
def test_distinct_ids_are_counted_in_order(ids):
    """Signed, each with the place where it is first."""
    room = np.empty((8, max(256, len(ids))), np.int64)
    size = distinct(np.array(ids, np.int64), np.array([0, len(ids)]), room)
    counts = Counter(ids)

    assert sorted(counts) == room[0, :size].tolist()
    assert [counts[i] for i in sorted(counts)] == room[1, :size].tolist()
    assert [ids.index(i) for i in sorted(counts)] == room[2, :size].tolist()


def test_ids_that_someone_made_alike_are_sorted():
    """By chance the upper bits of hashes differ; a sender can search for others."""
    ids = np.arange(20_000, 0, -1)
    room = np.empty((8, ids.size), np.int64)

    assert ids.size == distinct(ids, np.array([0, ids.size]), room)
    assert ids[::-1].tolist() == room[0].tolist()


@given(
    st.lists(st.sampled_from([5, 7, -(2**63), 2**63 - 1]), max_size=30),
    st.lists(st.integers(-2, 40), max_size=4).map(sorted),
)
def test_neighbours_are_those_of_one_text(ids, ends):
    """None goes from one text to the next; each is there once, where it is first."""
    first = {}
    begin = 0
    for end in ends:
        for at in range(max(begin, 0), min(end, len(ids)) - 1):
            first.setdefault(plain_mixed(ids[at], ids[at + 1]), at)
        begin = max(begin, min(end, len(ids)))
    room = np.empty((8, 256), np.int64)
    found = neighbours(np.array(ids, np.int64), np.array(ends, np.int64), room)

    assert sorted(first) == room[0, :found].tolist()
    assert [first[pair] for pair in sorted(first)] == room[2, :found].tolist()


def plain_mixed(left, right):
    """Return the hash of a pair."""
    most = 2**64 - 1
    found = left + right * 0xBF58476D1CE4E5B9 & most
    found = (found ^ found >> 31) * 0x94D049BB133111EB & most
    found ^= found >> 31
    return found - 2**64 if found >> 63 else found


@given(NUMBERS, st.data())
def test_pairs_are_put_together_again(words, data):
    """By the places that tell them apart."""
    ids = np.unique(np.array(words, np.int64))
    chosen = st.lists(st.integers(-1, ids.size**2), max_size=9)
    places = np.array(data.draw(chosen), np.int64)
    left, right, made, again = np.zeros((4, places.size), np.int64)

    whole = unpaired(ids, places, left, right, made)
    assert whole == all(0 <= place < ids.size**2 for place in places.tolist())
    if whole:
        assert paired(ids, left, right, again)
        assert places.tolist() == again.tolist()
        assert [*map(mixed, left.tolist(), right.tolist())] == made.tolist()


@given(
    st.lists(st.integers(-9, 99), max_size=9),
    st.integers(0, 10),
    st.sampled_from([2, 256]),
)
def test_ids_are_read_and_written_inside_the_arrays(places, rows, columns):
    """Ranges that are nowhere, and rooms that are too small."""
    ids = np.array(places, np.int64)
    room = np.empty((rows, columns), np.int64)

    assert distinct(ids, ids, room) <= columns
    assert neighbours(ids, ids, room) <= ids.size
    made = np.zeros(2, np.int64)
    joined(ids, ids[1:], made)
    expected = [plain_mixed(*pair) for pair in pairwise(places)][:2]
    assert [*expected, 0, 0][:2] == made.tolist()
