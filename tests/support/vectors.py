"""Strategies for the vectors of a message."""

from __future__ import annotations

from hypothesis import strategies as st

from app.bayes.sparse import SparseCounts
from app.ledger.vector import DROPPED

# Hypothesis draws words of the source as well, and these are left out where they are
# read.
view_names = st.text(max_size=20).filter(lambda name: name not in DROPPED)
feature_ids = st.integers(-(2**63), 2**63 - 1)


features = st.one_of(
    st.dictionaries(feature_ids, st.just(1), max_size=20),
    st.dictionaries(feature_ids, st.integers(1, 300), max_size=20),
    st.dictionaries(feature_ids, st.integers(1, 2**63 - 1), max_size=20),
).map(SparseCounts.of)
