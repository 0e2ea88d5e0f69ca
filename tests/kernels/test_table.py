"""A hash table of counts holds what a mapping of ids to counts would hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kernels import counts as slots

# Few, so that they meet; with 0, which has a slot of its own, and both ends.
IDS = st.sampled_from([0, 1, 2, 3, -1, 2**63 - 1, -(2**63)]) | st.integers(-40, 40)
ROWS = st.dictionaries(IDS, st.tuples(*[st.integers(0, 5)] * 4), max_size=12)


def arrays(rows):
    """Return the ids and counts of a mapping."""
    return (
        np.array(list(rows), np.int64),
        np.array(list(rows.values()), np.int64).reshape(-1, 4),
    )


def empty(size, dtype=np.int32):
    """Return a table of so many slots."""
    return np.zeros(size + 1, np.int64), np.zeros((size + 1, 4), dtype)


def look_up(table, key, asked, first, k):
    """Return the counts of ids in `k` columns."""
    found = np.zeros((1, asked.size, k), np.int64)
    slots.look_up(*table, key, asked, first, 1, found)
    return found[0].tolist()


@given(st.lists(ROWS, max_size=6), st.integers(0, 2**63 - 1), st.booleans())
def test_counts_are_added_where_their_id_is(parts, secret, wide):
    """Looked up, they are the sum; an id that was never added has none."""
    table = empty(128, np.int64 if wide else np.int32)
    key = np.uint64(2 * secret + 1)
    expected, totals, taken = {}, np.zeros(4, np.int64), 0
    for rows in parts:
        ids, delta = arrays(rows)
        taken += slots.add(*table, key, ids, delta, totals)
        for number, counts in rows.items():
            old = expected.get(number, (0, 0, 0, 0))
            expected[number] = tuple(map(sum, zip(old, counts, strict=True)))

    asked = np.array([*expected, 77, 0], np.int64)
    found = [expected.get(int(number), (0, 0, 0, 0)) for number in asked]
    assert found == [*map(tuple, look_up(table, key, asked, 0, 4))]
    assert [row[1:3] for row in found] == [
        *map(tuple, look_up(table, key, asked, 1, 2))
    ]
    sums = np.ones((2, asked.size, 4), np.int64)
    slots.look_up(*table, key, asked, 0, 7, sums)
    assert [(1 + 7 * np.array(found)).tolist()] * 2 == sums.tolist()
    assert len(expected.keys() - {0}) == taken
    assert np.sum([*expected.values()], axis=0).tolist() == totals.tolist() or (
        not expected and not totals.any()
    )
    kept = {number: row for number, row in sorted(expected.items()) if any(row)}
    ids, columns = slots.rows(*table)
    assert kept == dict(zip(ids.tolist(), map(tuple, columns.tolist()), strict=True))


@given(ROWS, st.integers(0, 2**63 - 1))
def test_a_table_moves_with_all_that_is_not_zero(rows, secret):
    """Rows of zeros are left behind, and their slots are free again."""
    key = np.uint64(2 * secret + 1)
    old, new = empty(64), empty(31, np.int64)
    slots.add(*old, key, *arrays(rows), np.zeros(4, np.int64))

    moved = slots.move(*old, key, *new)

    kept = {number for number, counts in rows.items() if any(counts)}
    assert len(kept - {0}) == moved == np.count_nonzero(new[0])
    for before, after in zip(slots.rows(*old), slots.rows(*new), strict=True):
        assert before.tolist() == after.tolist()


def test_a_full_table_ends_a_search():
    """No slot is free, and the search for what is not there ends all the same."""
    table = empty(4)
    key = np.uint64(1)
    ids = np.arange(1, 5)
    slots.add(*table, key, ids, np.ones((4, 4), np.int64), np.zeros(4, np.int64))

    assert [[0, 0, 0, 0]] == look_up(table, key, np.array([9]), 0, 4)


def plain_survey(have, rows, messages):
    """Return what `survey` does of a mapping, in plain lines."""
    gained, largest = 0, 0
    for place, (number, delta) in enumerate(rows.items()):
        old = have.get(number, (0, 0, 0, 0))
        new = [a + b for a, b in zip(old, delta, strict=True)]
        for c in range(2):
            occurrences, documents = new[c], new[2 + c]
            if not 0 <= documents <= min(occurrences, messages[c]):
                return place, gained, largest
            if (documents > 0) != (occurrences > 0):
                return place, gained, largest
            largest = max(largest, occurrences)
        gained += any(new[2:]) - any(old[2:])
    return -1, gained, largest


CHANGES = st.dictionaries(IDS, st.tuples(*[st.integers(-2, 3)] * 4), max_size=6)


@given(ROWS, CHANGES, st.tuples(st.integers(0, 8), st.integers(0, 8)))
def test_a_survey_says_what_a_sum_will_be(rows, change, messages):
    """The first contradiction, what the vocabulary gains, and the largest count."""
    table, key = empty(64), np.uint64(3)
    slots.add(*table, key, *arrays(rows), np.zeros(4, np.int64))

    found = slots.survey(*table, key, *arrays(change), np.array(messages, np.int64))

    assert plain_survey(rows, change, messages) == found


@pytest.mark.parametrize("kernel", [slots.look_up, slots.survey, slots.add, slots.move])
def test_no_sender_can_choose_ids_that_meet(kernel):
    """Every kernel is given the secret that decides which ids share a slot."""
    assert "secret" in kernel.py_func.__annotations__


def test_ids_that_meet_in_one_table_do_not_meet_in_another():
    """Of ids with one home under one secret, few have one under another."""
    key, other = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)

    def home(number, secret):
        keys, counts = empty(256)
        ids = np.array([number], np.int64)
        one = np.ones((1, 4), np.int64)
        slots.add(keys, counts, secret, ids, one, np.zeros(4, np.int64))
        return int(keys.nonzero()[0][0])

    meeting = [number for number in range(1, 4000) if home(number, key) == 7]
    assert len(meeting) > 5
    assert len({home(number, other) for number in meeting}) > len(meeting) / 2
