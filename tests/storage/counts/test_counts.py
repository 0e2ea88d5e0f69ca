"""The count tables: deltas in, deltas out, and nothing left behind."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.bayes.state import State
from app.errors import InconsistentCounts
from app.storage import tables
from app.storage.counts import deltas
from app.storage.database import sqlite
from app.storage.database.engine import reading, writing
from tests.support.builders import feature, new_profile, rows_of, sparse
from tests.support.databases import on_sqlite

LABELS = ("ham", "spam")
LEAST, MOST = -(2**63), 2**63 - 1

feature_ids = st.one_of(st.integers(-3, 3), st.integers(LEAST, MOST))
labelled = st.tuples(
    st.dictionaries(feature_ids, st.integers(1, 1000), max_size=6).map(SparseCounts.of),
    st.integers(0, 1),
)


def delta(words, label):
    """Return what a message of these words adds."""
    return FeatureCounts.of(sparse(words), label=LABELS.index(label), n_classes=2)


def add(engine, profile, part, *, epoch=202603, view="words"):
    """Add a delta in a transaction of its own."""
    with writing(engine) as connection:
        deltas.add(
            connection,
            profile.id,
            epoch=epoch,
            labels=LABELS,
            delta=State({view: part}),
        )


def loaded(engine, profile):
    """Return the sum of all epochs."""
    with reading(engine) as connection:
        return deltas.load(connection, profile.id, LABELS)


@pytest.mark.parametrize("features", [sqlite.AT_ONCE, sqlite.AT_ONCE + 9])
def test_more_features_are_read_than_fit_into_one_value(engine, features):
    """Up to the last page, whether it is full or not, and the largest id."""
    ids = np.linspace(LEAST, 0, features, dtype=np.int64)
    ids[-1] = MOST
    occurrences = np.arange(1, features + 1)[:, np.newaxis] * [1, 0]
    whole = FeatureCounts.of_counts(
        np.array([2, 0]), ids, occurrences, np.minimum(occurrences, 2)
    )
    profile = new_profile(engine)
    add(engine, profile, whole)

    assert {"words": whole} == loaded(engine, profile)


@on_sqlite
def test_counts_are_what_a_person_expects_to_read(engine, tmp_path):
    """Labels and views as text, the counts beside them."""
    profile = new_profile(engine)
    add(engine, profile, delta({"money": 3}, "spam"))
    file = sqlite3.connect(tmp_path / "postbayes.db")
    features = file.execute("SELECT * FROM feature_count").fetchall()
    classes = file.execute("SELECT * FROM class_count").fetchall()
    file.close()

    assert [(profile.id, 202603, "words", "spam", feature("money"), 3, 1)] == features
    assert [(profile.id, 202603, "words", "spam", 1, "features")] == classes


def test_a_delta_is_taken_back_to_the_last_row(engine):
    """Rows that become zero are deleted, those of others stay as they are."""
    profile = new_profile(engine)
    add(engine, profile, delta({"money": 2, "now": 1}, "spam"))
    before = [
        rows_of(engine, table, profile)
        for table in (tables.feature_count, tables.class_count)
    ]
    add(engine, profile, delta({"now": 5, "then": 1}, "spam"))
    add(engine, profile, -delta({"now": 5, "then": 1}, "spam"))
    after = [
        rows_of(engine, table, profile)
        for table in (tables.feature_count, tables.class_count)
    ]

    assert before == after
    add(engine, profile, -delta({"money": 2, "now": 1}, "spam"))
    assert [] == rows_of(engine, tables.feature_count, profile)
    assert [] == rows_of(engine, tables.class_count, profile)


def test_gains_and_losses_of_one_feature_may_differ(engine):
    """More occurrences in fewer messages is no contradiction."""
    profile = new_profile(engine)
    add(engine, profile, delta({"money": 1}, "spam") + delta({"money": 1}, "spam"))
    moved = delta({"money": 9}, "spam") - delta({"money": 1}, "spam")
    add(engine, profile, moved - delta({"money": 1}, "spam"))

    assert {"words": delta({"money": 9}, "spam")} == loaded(engine, profile)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(-delta({"money": 2}, "spam"), id="fewer occurrences"),
        pytest.param(-delta({"never": 1}, "spam"), id="no such feature"),
        pytest.param(-delta({"money": 1}, "ham"), id="no such label"),
        pytest.param(
            -delta({}, "spam") - delta({}, "spam") - delta({}, "spam"),
            id="fewer messages",
        ),
    ],
)
def test_a_count_never_becomes_negative(engine, part):
    """It is an error, and everything of the transaction is rolled back."""
    profile = new_profile(engine)
    add(engine, profile, delta({"money": 1}, "spam") + delta({"now": 1}, "spam"))
    before = loaded(engine, profile)

    with pytest.raises(InconsistentCounts):
        add(engine, profile, delta({"fresh": 1}, "ham") + part)
    assert before == loaded(engine, profile)


def test_counts_are_taken_back_from_their_own_epoch(engine):
    """What was learned in March is not in the counts of April."""
    profile = new_profile(engine)
    add(engine, profile, delta({"money": 1}, "spam"), epoch=202603)

    with pytest.raises(InconsistentCounts, match="spam in 202604 cannot be taken"):
        add(engine, profile, -delta({"money": 1}, "spam"), epoch=202604)


def test_epochs_and_views_are_kept_apart_and_summed(engine):
    """Loading gives the sum of the months, per view."""
    profile = new_profile(engine)
    add(engine, profile, delta({"money": 1}, "spam"), epoch=202603)
    add(engine, profile, delta({"money": 2}, "ham"), epoch=202604)
    add(engine, profile, delta({"pair": 1}, "ham"), epoch=202604, view="pairs")
    with reading(engine) as connection:
        epochs = deltas.load_by_epoch(connection, profile.id, LABELS)

    assert {
        202603: {"words": delta({"money": 1}, "spam")},
        202604: {
            "words": delta({"money": 2}, "ham"),
            "pairs": delta({"pair": 1}, "ham"),
        },
    } == epochs
    assert {
        "words": delta({"money": 1}, "spam") + delta({"money": 2}, "ham"),
        "pairs": delta({"pair": 1}, "ham"),
    } == loaded(engine, profile)


def test_a_message_without_features_is_counted(engine):
    """It has a class all the same."""
    profile = new_profile(engine)
    add(engine, profile, delta({}, "ham"))

    assert {"words": delta({}, "ham")} == loaded(engine, profile)


def test_nothing_learned_is_no_view(engine):
    """An empty profile has empty counts."""
    assert {} == loaded(engine, new_profile(engine))


def test_profiles_do_not_see_each_other(engine):
    """The counts of one are not those of another."""
    one, other = new_profile(engine), new_profile(engine)
    add(engine, one, delta({"money": 1}, "spam"))

    assert {} == loaded(engine, other)


def test_a_label_that_the_profile_lacks_is_inconsistent(engine):
    """Its counts would have no class to go to."""
    profile = new_profile(engine)
    add(engine, profile, delta({"money": 1}, "spam"))

    with (
        reading(engine) as connection,
        pytest.raises(InconsistentCounts, match="have the label 'spam'"),
    ):
        deltas.load(connection, profile.id, ("ham", "junk"))


def test_the_largest_ids_and_counts_are_kept(engine):
    """All of int64 goes in and comes out."""
    profile = new_profile(engine)
    part = FeatureCounts.of_counts(
        np.array([0, MOST]),
        np.array([LEAST, -1, 0, MOST]),
        np.array([[0, MOST]] * 4),
        np.array([[0, MOST]] * 4),
    )
    add(engine, profile, part)

    assert {"words": part} == loaded(engine, profile)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(kept=st.lists(labelled, max_size=4), taken=st.lists(labelled, max_size=4))
def test_the_tables_equal_those_that_never_learned_it(engine, kept, taken):
    """Learn all, take some back: the rows are those of the rest, cell by cell."""
    both, only = new_profile(engine), new_profile(engine)
    parts = [FeatureCounts.of(x, label=y, n_classes=2) for x, y in kept + taken]
    add(engine, both, FeatureCounts.sum(parts, n_classes=2))
    add(engine, both, -FeatureCounts.sum(parts[len(kept) :], n_classes=2))
    add(engine, only, FeatureCounts.sum(parts[: len(kept)], n_classes=2))

    for table in (tables.feature_count, tables.class_count):
        assert rows_of(engine, table, only) == rows_of(engine, table, both)
