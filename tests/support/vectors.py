"""Strategies for the vectors of a message."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from app.bayes.sparse import LIMIT, Measurements, SparseCounts

feature_ids = st.integers(-(2**63), 2**63 - 1)


features = st.one_of(
    st.dictionaries(feature_ids, st.just(1), max_size=20),
    st.dictionaries(feature_ids, st.integers(1, 300), max_size=20),
    st.dictionaries(feature_ids, st.integers(1, 2**63 - 1), max_size=20),
).map(SparseCounts.of)


def measured(steps):
    """Return measurements of a mapping from field to steps."""
    ids = sorted(steps)
    return Measurements(
        np.array(ids, np.int64), np.array([steps[i] for i in ids], np.int64)
    )


measurements = st.dictionaries(
    feature_ids, st.integers(-LIMIT, LIMIT), max_size=20
).map(measured)
