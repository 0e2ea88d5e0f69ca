"""Runs of rows that are merged in one pass equal a few plain lines of numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kernels.counts import merged, summed

WIDTH = 3
# Few, so that they meet, and both ends; counts that wrap are added modulo 2**64.
IDS = st.integers(-4, 4) | st.sampled_from([-(2**63), 2**63 - 1])
COUNTS = st.tuples(*[st.integers(-2, 2) | st.just(2**62)] * WIDTH)
ROWS = st.lists(st.tuples(IDS, COUNTS), max_size=30)
RUNS = st.lists(
    st.dictionaries(IDS | st.integers(-(2**63), 2**63 - 1), COUNTS).map(
        lambda run: sorted(run.items())
    ),
    max_size=20,
).map(lambda runs: [row for run in runs for row in run])


def arrays(rows):
    """Return the ids and the counts of rows."""
    return (
        np.array([number for number, _ in rows], np.int64),
        np.array([counts for _, counts in rows], np.int64).reshape(-1, WIDTH),
    )


def plain(ids, counts):
    """Return the sum of rows, by a sort."""
    found, place = np.unique(ids, return_inverse=True)
    sums = np.zeros((found.size, counts.shape[1]), np.int64)
    np.add.at(sums, place, counts)
    left = sums.any(axis=1)
    return found[left], sums[left]


@pytest.mark.parametrize("add", [summed, summed.py_func], ids=["compiled", "checked"])
@given(RUNS | ROWS)
def test_rows_are_added_by_their_id(add, rows):
    """In runs or in any order; what cancels is left out.

    As plain Python, each index is checked.
    """
    ids, counts = arrays(rows)
    with np.errstate(over="ignore"):
        found, sums = add(ids, counts, ids.argsort(kind="stable"))
    expected, expected_sums = plain(ids, counts)

    assert expected.tolist() == found.tolist()
    assert expected_sums.tolist() == sums.tolist()
    assert (ids.tolist(), counts.tolist()) == tuple(
        map(np.ndarray.tolist, arrays(rows))
    )


@pytest.mark.parametrize("order", [[0, 2], [-1, 0], [2**63 - 1]])
def test_places_of_no_row_are_not_read(order):
    """Whoever wrote them: there are two rows."""
    ids, counts = arrays([(1, (1,) * WIDTH), (2, (1,) * WIDTH)])

    assert (0, 0) == tuple(map(len, summed(ids, counts, np.array(order))))
    assert 2 == len(merged(ids, counts)[0])


def test_other_threads_run_while_large_sums_are_merged():
    """Or each request would wait for every merge: 80 ms for 800,000 rows."""
    made = getattr(summed, "dispatcher", summed)

    assert made.targetoptions["nogil"]
