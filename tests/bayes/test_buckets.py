"""Places in sorted ids are found by their leading bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.table import FULLEST, Buckets

any_id = st.integers(-(2**63), 2**63 - 1)
EDGES = np.array([-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1])


@given(st.sets(any_id, min_size=2, max_size=FULLEST), st.lists(any_id, max_size=30))
def test_what_is_found_is_what_a_search_finds(known, others):
    """Whether it is there, and whatever its sign."""
    ids = np.array(sorted(known))
    asked = np.concatenate((ids[::-1], EDGES, np.array(others, np.int64)))

    found = Buckets.of(ids).find(ids, asked)

    assert ids.searchsorted(asked).tolist() == found.tolist()


def test_hashes_are_spread_evenly():
    """The fullest bucket of many has few of them, and each is found."""
    rng = np.random.default_rng(20261121)
    ids = np.unique(rng.integers(-(2**63), 2**63 - 1, 200_000))
    asked = np.concatenate((ids[::7], ids[::11] + 1, EDGES))
    buckets = Buckets.of(ids)

    assert buckets.steps <= FULLEST
    assert (ids.searchsorted(asked) == buckets.find(ids, asked)).all()


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(1000),
        np.concatenate(
            (np.arange(-(2**62), -(2**62) + 40), np.arange(2**61, 2**62, 2**50))
        ),
    ],
    ids=["small numbers", "some chosen ones"],
)
def test_ids_that_stand_close_have_no_buckets(ids):
    """Whoever chooses words that hash alike slows nobody down."""
    assert None is Buckets.of(ids)
