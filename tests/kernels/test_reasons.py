"""Kernels of reasons equal a few plain lines, and stay inside their arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.kernels import reasons as kernel

ints = st.lists(st.integers(-2, 12), max_size=12)
worth = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0])


def plain_rows(pairs, most):
    """Return the rows of more than one word, by their first words."""
    rows = {word: [word] for pair in pairs for word in pair}
    for one, other in pairs:
        before = next((row for row in rows.values() if row[-1] == one), None)
        after = rows.get(other)
        if before and after and before is not after and len(before + after) <= most:
            rows[before[0]] = before + after
            del rows[other]
    return [row for _, row in sorted(rows.items()) if len(row) > 1]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30),
    st.integers(0, 6),
)
def test_words_are_put_in_rows(pairs, most):
    """Each pair joins the end of a row to the beginning of another one."""
    left, right = np.array(pairs, np.int64).reshape(-1, 2).T
    room = np.empty((6, 10), np.int64)
    size = kernel.rows(left, right, most, room)
    expected = plain_rows(pairs, most)

    assert [word for row in expected for word in row] == room[0, :size].tolist()
    assert [row[0] for row in expected for _ in row] == room[1, :size].tolist()


@given(
    st.lists(st.tuples(st.integers(0, 4), worth), max_size=30),
    st.lists(worth, min_size=5, max_size=5),
    st.permutations(range(5)),
    st.integers(0, 4),
)
def test_the_strongest_features_of_a_reason_come_first(features, totals, listed, most):
    """By what they add to its side; of equal ones the first."""
    reason, values = zip(*features, strict=True) if features else ((), ())
    into = np.empty((4, most), np.int64)
    kernel.strongest(
        np.array(reason, np.int64),
        np.array(values, np.float64),
        np.array(totals),
        np.array(listed[:4]),
        np.empty(5, np.int64),
        into,
    )
    for number, found in zip(listed[:4], into.tolist(), strict=True):
        side = 1 if totals[number] > 0 else -1
        own = [at for at, other in enumerate(reason) if other == number]
        own.sort(key=lambda at: -side * values[at])

        assert (own[:most] + [-1] * most)[:most] == found


@given(
    ints, ints, ints, st.lists(worth, max_size=9), st.tuples(*[st.integers(0, 9)] * 3)
)
def test_any_arguments_are_read_and_written_inside_the_arrays(
    left, right, more, values, sizes
):
    """Words that are not there, and rooms that are too small."""
    high, wide, most = sizes
    left, right, more = (np.array(each, np.int64) for each in (left, right, more))
    count = kernel.rows(left, right, most, np.empty((high, wide), np.int64))
    place, into = np.empty(wide, np.int64), np.empty((high, most), np.int64)
    values = np.array(values, np.float64)
    kernel.strongest(left, values, values[:most], more, place, into)

    assert count <= wide
    assert into[: more.size].max(initial=-1) < max(1, min(left.size, values.size))
