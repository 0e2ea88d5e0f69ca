"""The state: tables and unfolded rows, in one snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.errors import UnknownProfile
from app.features.observation import Observation
from app.ledger.entry import ScoredRow, sum_by_epoch
from app.storage import fold as folding
from app.storage import ledger, tables
from app.storage.database.engine import reading, writing
from app.storage.fold import audit, load
from app.storage.ledger import batches_after
from tests.support.builders import (
    APRIL,
    MARCH,
    digest,
    fold,
    fold_all,
    folded,
    new_profile,
    sparse,
    taught,
    teach,
)
from tests.support.databases import on_one_database

LABELS = ("ham", "spam", "newsletter")

words = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 3), max_size=4)
pairs = st.dictionaries(
    st.sampled_from("xyz"),
    st.integers(1, 2) | st.just(2**31),
    max_size=3,
)
messages = st.integers(0, 4)
acts = st.one_of(
    st.tuples(st.just("teach"), messages, st.sampled_from(LABELS), words, pairs),
    st.tuples(st.just("forget"), messages),
    st.tuples(st.just("fold"), st.integers(1, 4)),
)


def loaded(engine, profile):
    """Return the state of a profile."""
    with reading(engine) as connection:
        return load(connection, profile)


def test_nothing_learned_is_an_empty_state(engine):
    """No view, revision zero."""
    found = loaded(engine, new_profile(engine))

    assert ({}, 0) == (found.tables, found.revision)


@on_one_database
@given(history=st.lists(acts, max_size=15))
def test_the_state_is_the_sum_of_what_is_learned_now(engine, history):
    """Whatever was moved, forgotten and folded on the way."""
    profile = new_profile(engine, labels=LABELS)
    learned = {}
    for act, *arguments in history:
        if act == "teach":
            message, label, *views = arguments
            teach(engine, profile, taught(message, label, *views))
            learned[message] = (label, learned.get(message, (label, views))[1])
        elif act == "forget":
            teach(engine, profile, taught(arguments[0], None))
            learned.pop(arguments[0], None)
        else:
            with writing(engine) as connection:
                fold(connection, profile, limit=arguments[0])
    expected = {"words": FeatureCounts.zero(3), "pairs": FeatureCounts.zero(3)}
    for label, (text, fields) in learned.values():
        y = LABELS.index(label)
        expected["words"] += FeatureCounts.of(sparse(text), label=y, n_classes=3)
        expected["pairs"] += FeatureCounts.of(sparse(fields), label=y, n_classes=3)
    found = loaded(engine, profile).tables

    for view, statistics in expected.items():
        assert statistics == found.get(view, statistics + -statistics)


def test_a_state_is_one_snapshot(engine):
    """A fold and a feedback between its queries change nothing."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    before = loaded(engine, profile)
    with reading(engine) as connection:
        connection.execute(tables.profile.select()).all()
        with writing(engine) as other:
            fold(other, profile, limit=9)
        teach(engine, profile, taught(2, "spam", {"b": 1}, time=APRIL))
        during = load(connection, profile)
    after = loaded(engine, profile)

    assert before == during
    assert (2, 1) == (after.revision, folded(engine, profile))


def test_many_rows_are_read_a_part_at_a_time(engine, monkeypatch):
    """In order, without a gap, and the last part may be short."""
    monkeypatch.setattr(ledger, "ROWS_AT_ONCE", 3)
    profile = new_profile(engine)
    teach(engine, profile, *(taught(m, "ham", {"a": 1}) for m in range(7)))
    with reading(engine) as connection:
        batches = [
            [row.revision for row in rows]
            for rows in batches_after(connection, profile.id, revision=0)
        ]

    assert [[1, 2, 3], [4, 5, 6], [7]] == batches


def test_few_large_rows_are_decoded_at_once(engine, monkeypatch):
    """A thousand of the largest messages took 10 GB, at a start and in an audit."""
    summed = []

    def sum_some(rows, labels):
        summed.append(len(rows))
        return sum_by_epoch(rows, labels)

    monkeypatch.setattr(folding, "sum_by_epoch", sum_some)
    monkeypatch.setattr(ledger, "BYTES_AT_ONCE", 1)
    monkeypatch.setattr(ledger, "ROWS_OF_QUERY", 3)
    profile = new_profile(engine)
    teach(engine, profile, *(taught(m, "ham", {"a": 1}) for m in range(7)))
    with reading(engine) as connection:
        found = load(connection, profile).tables, audit(connection, profile).sound

    assert ([3, 3, 1] * 3, True) == (summed, found[1])
    assert [7, 0] == found[0]["words"].messages.tolist()


def test_a_profile_that_is_gone_is_an_error(engine):
    """It has no state."""
    profile = new_profile(engine)
    with writing(engine) as connection:
        connection.execute(tables.fold.delete())
        connection.execute(tables.profile.delete())

    with reading(engine) as connection, pytest.raises(UnknownProfile):
        load(connection, profile)


def test_views_of_a_later_feature_set_count_their_own_messages(engine):
    """A message learned before a view existed has no part in it."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    later = replace(
        taught(2, "ham"),
        evidence=ScoredRow.of(
            Observation(
                digest(2), 2, {"words": sparse({"a": 1}), "pairs": sparse({"ab": 1})}
            ),
            time=MARCH,
        ),
    )
    teach(engine, profile, later)
    fold_all(engine, profile)
    found = loaded(engine, profile)

    assert [2, 0] == found.tables["words"].messages.tolist()
    assert [1, 0] == found.tables["pairs"].messages.tolist()
