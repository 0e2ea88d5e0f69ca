"""Bulk reads: all of it, in order, in values of bounded size."""

from __future__ import annotations

import threading

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.state import State
from app.storage.counts import deltas
from app.storage.counts import features as feature_columns
from app.storage.counts.features import Key
from app.storage.database import sqlite
from app.storage.database.dialect import LEAST, MOST
from app.storage.database.engine import reading, writing
from tests.support.builders import new_profile
from tests.support.databases import on_sqlite

EPOCHS = range(202601, 202611)


def learned(engine, profile, ids, *, epoch=202601):
    """Count features once each, and return the key of their rows."""
    features = np.unique(np.array(ids, np.int64))
    once = np.outer(np.ones(features.size, np.int64), [1, 0])
    delta = FeatureCounts.of_counts(np.array([1, 0]), features, once, once)
    with writing(engine) as connection:
        deltas.add(
            connection,
            profile.id,
            epoch=epoch,
            labels=profile.labels,
            delta=State(words=delta),
        )
    return Key(profile.id, epoch, "words", profile.labels[0])


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    batches=st.lists(
        st.sets(
            st.one_of(
                st.integers(LEAST, LEAST + 9),
                st.integers(-9, 9),
                st.integers(MOST - 9, MOST),
                st.integers(LEAST, MOST),
            ),
            max_size=60,
        ),
        min_size=1,
        max_size=8,
    )
)
def test_many_keys_are_read_whole_and_in_their_order(engine, monkeypatch, batches):
    """Wherever their ids lie: thickly, at both ends, or nowhere."""
    monkeypatch.setattr(sqlite, "AT_ONCE", 64)
    profile = new_profile(engine)
    keys = [
        learned(engine, profile, sorted(batch), epoch=202601 + n)
        for n, batch in enumerate(batches)
    ]
    with reading(engine) as connection:
        read = [
            found.features.tolist()
            for found in feature_columns.read_each(connection, keys)
        ]

    assert [sorted(batch) for batch in batches] == read


@on_sqlite
def test_no_value_is_much_longer_than_what_is_read_at_once(engine, monkeypatch):
    """Features are hashes, so slices of a key follow from the one before."""
    monkeypatch.setattr(sqlite, "AT_ONCE", 64)
    lengths = []
    parse = np.fromstring

    def noted(text, *given, **named):
        found = parse(text, *given, **named)
        lengths.append(found.size)
        return found

    random = np.random.default_rng(20261122)
    profile = new_profile(engine)
    key = learned(engine, profile, random.integers(LEAST, MOST, 3000))
    monkeypatch.setattr(np, "fromstring", noted)
    with reading(engine) as connection:
        found = feature_columns.read(connection, key)

    assert 3000 == found.features.size
    assert 3 * 3000 == sum(lengths)
    assert max(lengths) < 3 * 64
    # Nor are they as short as the first has to be.
    assert len(lengths) < 3 * 2 * 3000 / 64


def test_who_leaves_before_the_end_can_go_on_with_the_connection(engine):
    """The other thread has ended, and what it had not begun is not read."""
    profile = new_profile(engine)
    keys = [learned(engine, profile, [1, epoch], epoch=epoch) for epoch in EPOCHS]
    with reading(engine) as connection:
        several = feature_columns.read_each(connection, keys)
        first = next(several).features.tolist()
        several.close()
        others = [t.name for t in threading.enumerate() if t.name.startswith("counts")]
        second = feature_columns.read(connection, keys[1]).features.tolist()

    assert [1, EPOCHS[0]] == first
    assert [1, EPOCHS[1]] == second
    assert [] == others


def test_of_no_key_nothing_is_read(engine):
    """As where a profile has never learned."""
    with reading(engine) as connection:
        assert [] == list(feature_columns.read_each(connection, []))
