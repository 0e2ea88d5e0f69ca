"""Moment sums survive a table of 64-bit integers, whoever adds its rows."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.moments import MomentSums
from app.bayes.sparse import LIMIT, Measurements
from app.ledger.sums import MomentRow, from_rows, rows

K = 2
deltas = st.builds(
    lambda values, label: MomentSums.of(
        Measurements.of(values, fraction_bits=0), label=label, n_classes=K
    ),
    st.dictionaries(
        st.sampled_from([-(2**63), -1, 0, 5, 2**63 - 1]),
        st.integers(-LIMIT, LIMIT),
        max_size=4,
    ),
    st.integers(0, K - 1),
)


@given(st.lists(deltas, max_size=6))
def test_a_state_survives_the_round_trip(history):
    """Rows hold all of it, and fit into 64 bits."""
    state = MomentSums.sum(history, n_classes=K)
    stored = rows(state)

    assert state == from_rows(stored, state.messages)
    assert all(-(2**63) <= n < 2**63 for row in stored for n in row)
    assert len({row[:4] for row in stored}) == len(stored)


@given(st.lists(deltas, max_size=6), st.lists(deltas, max_size=3))
def test_a_database_that_adds_columns_holds_the_sum(learned, unlearned):
    """Each delta is added to its rows; unlearning subtracts."""
    table = defaultdict(lambda: [0, 0, 0, 0])
    messages = np.zeros(K, np.int64)
    for delta in [*learned, *(-d for d in unlearned)]:
        messages = messages + delta.messages
        for row in rows(delta):
            for column, amount in enumerate(row[4:]):
                table[row[:4]][column] += amount
    stored = [MomentRow(*key, *amounts) for key, amounts in table.items()]
    expected = MomentSums.sum(learned, n_classes=K) - MomentSums.sum(
        unlearned, n_classes=K
    )

    assert expected == from_rows(stored, messages)


def test_rows_of_several_epochs_are_added():
    """Equal keys may come twice."""
    x = Measurements(np.array([1, 2]), np.array([3, 4]))
    state = MomentSums.of(x, label=0, n_classes=K)

    assert state + state == from_rows(rows(state) * 2, 2 * state.messages)


def test_no_row_is_no_state():
    """An empty table holds the statistics of no message."""
    assert [] == rows(MomentSums.zero(K))
    assert MomentSums.zero(K) == from_rows([], np.zeros(K, np.int64))
