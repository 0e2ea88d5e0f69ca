"""Sorted rows of counts are added in one pass, whichever way it is done."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.sparse import Rows, any_of, beside, collected

K = 3
columns = st.tuples(*[st.integers(-2, 2)] * K)
parts = st.dictionaries(
    st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9),
    st.tuples(columns, columns).filter(lambda both: any(both[0] + both[1])),
    max_size=12,
)


def rows(part):
    """Return a mapping of id to both counts as rows."""
    ids = sorted(part)
    counts = np.array([part[i] for i in ids], np.int64).reshape(len(ids), 2 * K)
    return Rows(np.array(ids, np.int64), counts)


def listed(found):
    """Return rows as a mapping of id to both counts."""
    return {
        i: (tuple(counts[:K]), tuple(counts[K:]))
        for i, counts in zip(found.ids.tolist(), found.counts.tolist(), strict=True)
    }


def added(*mappings):
    """Return the sum of mappings, one entry after the other."""
    total = {}
    for mapping in mappings:
        for i, both in mapping.items():
            old = total.get(i, ((0,) * K, (0,) * K))
            total[i] = tuple(
                tuple(a + b for a, b in zip(x, y, strict=True))
                for x, y in zip(old, both, strict=True)
            )
    return {i: both for i, both in sorted(total.items()) if any(both[0] + both[1])}


@given(st.lists(parts, min_size=1, max_size=5))
def test_many_parts_are_collected_to_their_sum(several):
    """One pass over all rows gives what adding one by one gives; no part is changed."""
    given_rows = [rows(part) for part in several]
    found = collected(given_rows)

    assert added(*several) == listed(found)
    assert sorted(found.ids.tolist()) == found.ids.tolist()
    assert several == [*map(listed, given_rows)]


@given(parts, st.randoms())
def test_a_row_has_a_count_if_any_of_its_counts_is_not_zero(part, random):
    """A row is kept even if its counts sum to zero."""
    found = rows(part)
    blank = np.array([random.random() < 0.5 for _ in part], np.bool_)
    found.counts[blank] = 0

    assert (~blank).tolist() == (any_of(found.counts) != 0).tolist()


alone = st.dictionaries(
    st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    max_size=12,
)


@given(st.tuples(*[alone] * K))
def test_classes_that_were_summed_alone_are_put_side_by_side(classes):
    """The same as the sum of parts that are zero in every class but their own."""
    apart = [
        {
            i: tuple(
                tuple(n if c == own else 0 for c in range(K)) for n in (first, second)
            )
            for i, (first, second) in part.items()
        }
        for own, part in enumerate(classes)
    ]
    found = beside([rows_of_one(part) for part in classes])

    assert added(*apart) == listed(found)
    assert sorted(found.ids.tolist()) == found.ids.tolist()


def rows_of_one(part):
    """Return a mapping of id to both counts as the rows of one class."""
    ids = sorted(part)
    counts = np.array([part[i] for i in ids], np.int64).reshape(len(ids), 2)
    return Rows(np.array(ids, np.int64), counts)
