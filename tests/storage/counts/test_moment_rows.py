"""The sums of measurements in the tables: in, out, and nothing left behind."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from app.bayes.counts import FeatureCounts
from app.bayes.measurements import LIMIT
from app.bayes.moments import MomentSums
from app.bayes.state import State
from app.errors import InconsistentCounts
from app.storage import tables
from app.storage.counts import deltas
from app.storage.database.engine import reading, writing
from tests.support.builders import feature, measured, new_profile, rows_of, sparse
from tests.support.databases import on_sqlite

LABELS = ("ham", "spam")
TABLES = (tables.moment_sum, tables.class_count)

steps = st.one_of(
    st.integers(-2, 2),
    st.sampled_from([2**31, -(2**31), LIMIT, -LIMIT]),
    st.integers(-LIMIT, LIMIT),
)
sizes_of_messages = st.dictionaries(st.sampled_from("wxyz"), steps, max_size=4)
labelled = st.tuples(sizes_of_messages, st.sampled_from(LABELS))


def delta(sizes, label):
    """Return what a message of these measurements adds."""
    return MomentSums.of(measured(sizes), label=LABELS.index(label), n_classes=2)


def add(engine, profile, part, *, epoch=202603, view="sizes"):
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


def contents(engine, profile):
    """Return the rows of sums and of messages."""
    return [rows_of(engine, table, profile) for table in TABLES]


@on_sqlite
def test_sums_are_what_a_person_can_add_up(engine, tmp_path):
    """The value is low + middle * 2**32 + high * 2**64, all three of its sign."""
    profile = new_profile(engine)
    add(engine, profile, delta({"x": -(2**33) - 1}, "spam"))
    file = sqlite3.connect(tmp_path / "postbayes.db")
    sums = file.execute(
        "SELECT view, label, field, other, degree, messages, low, middle, high"
        " FROM moment_sum ORDER BY degree"
    ).fetchall()
    classes = file.execute("SELECT * FROM class_count").fetchall()
    file.close()
    x = feature("x")

    assert [
        ("sizes", "spam", x, x, 1, 1, -1, -2, 0),
        ("sizes", "spam", x, x, 2, 1, 1, 4, 4),
    ] == sums
    assert [(profile.id, 202603, "sizes", "spam", 1, "moments")] == classes


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(kept=st.lists(labelled, max_size=4), taken=st.lists(labelled, max_size=4))
@example(kept=[], taken=[({"x": 2**31}, "ham")] * 2)
@example(kept=[({"x": 5}, "ham")], taken=[({"x": -(2**31)}, "ham")] * 2)
def test_the_tables_equal_those_that_never_learned_it(engine, kept, taken):
    """Learn all at once, unlearn some one by one: the rest is left, cell by cell."""
    both, only = new_profile(engine), new_profile(engine)
    all_of_it = [delta(*message) for message in kept + taken]
    add(engine, both, MomentSums.sum(all_of_it, n_classes=2))
    for part in all_of_it[len(kept) :]:
        add(engine, both, -part)
    for part in all_of_it[: len(kept)]:
        add(engine, only, part)
    rest = MomentSums.sum(all_of_it[: len(kept)], n_classes=2)

    assert contents(engine, only) == contents(engine, both)
    assert rest == loaded(engine, both).get("sizes", MomentSums.zero(2))


def test_one_message_for_another_changes_no_number_of_messages(engine):
    """The sums change all the same."""
    profile = new_profile(engine)
    add(engine, profile, delta({"x": 1, "y": 2}, "spam"))
    swap = delta({"x": 5, "z": 0}, "spam") - delta({"x": 1, "y": 2}, "spam")
    add(engine, profile, swap)

    assert {"sizes": delta({"x": 5, "z": 0}, "spam")} == loaded(engine, profile)


def test_many_of_the_largest_values_fit(engine):
    """2**31 messages, which is what the columns of words are made for."""
    profile = new_profile(engine)
    one = delta({"x": LIMIT, "y": -LIMIT}, "ham")
    many = MomentSums.of_sums(
        one.messages * 2**31,
        one.ids,
        one.sums * 2**31,
        one.pairs * 2**31,
        one.products * 2**31,
    )
    add(engine, profile, many)

    assert {"sizes": many} == loaded(engine, profile)
    add(engine, profile, -many)
    assert [[], []] == contents(engine, profile)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(-delta({"y": 1}, "spam"), id="no such field"),
        pytest.param(-delta({"x": 3}, "ham"), id="no such label"),
        pytest.param(-delta({"x": 4}, "spam"), id="another value"),
        pytest.param(-delta({}, "spam"), id="a message without the field"),
    ],
)
def test_sums_that_no_messages_have_are_refused(engine, part):
    """It is an error, and everything of the transaction is rolled back."""
    profile = new_profile(engine)
    add(engine, profile, delta({"x": 3}, "spam"))
    before = contents(engine, profile)

    with pytest.raises(InconsistentCounts):
        add(engine, profile, delta({"z": 1}, "ham") + part)
    assert before == contents(engine, profile)


def test_the_error_says_which_sums(engine):
    """View, label and month, and what would be wrong."""
    profile = new_profile(engine)
    add(engine, profile, delta({"x": 3}, "spam") + delta({"x": 3}, "spam"))

    with pytest.raises(
        InconsistentCounts,
        match=r"The sums of sizes for spam in 202603 cannot .* field",
    ):
        add(engine, profile, -delta({"x": 4}, "spam"))


def test_messages_without_measurements_keep_the_kind_of_their_view(engine):
    """No row of sums, and the messages are loaded as those of measurements."""
    profile = new_profile(engine)
    add(engine, profile, delta({}, "ham"))

    assert [] == rows_of(engine, tables.moment_sum, profile)
    assert {"sizes": delta({}, "ham")} == loaded(engine, profile)


def test_views_of_both_kinds_are_loaded_beside_each_other(engine):
    """Epochs apart or summed, each in the statistics of its kind."""
    profile = new_profile(engine)
    words = FeatureCounts.of(sparse({"a": 1}), label=0, n_classes=2)
    add(engine, profile, words, view="words")
    add(engine, profile, delta({"x": 1}, "ham"))
    add(engine, profile, delta({"x": 2, "y": 3}, "spam"), epoch=202604)
    with reading(engine) as connection:
        epochs = deltas.load_by_epoch(connection, profile.id, LABELS)

    assert {
        202603: {"words": words, "sizes": delta({"x": 1}, "ham")},
        202604: {"sizes": delta({"x": 2, "y": 3}, "spam")},
    } == epochs
    assert {
        "words": words,
        "sizes": delta({"x": 1}, "ham") + delta({"x": 2, "y": 3}, "spam"),
    } == loaded(engine, profile)


def test_a_view_keeps_its_kind(engine):
    """Features cannot be added to measurements, nor be taken from them."""
    profile = new_profile(engine)
    words = FeatureCounts.of(sparse({"a": 1}), label=0, n_classes=2)
    add(engine, profile, delta({"x": 1}, "ham"))

    with pytest.raises(InconsistentCounts, match=r"sizes for ham .* 'features'"):
        add(engine, profile, words)
    with pytest.raises(InconsistentCounts, match="cannot be taken back"):
        add(engine, profile, -words)
    assert {"sizes": delta({"x": 1}, "ham")} == loaded(engine, profile)


def test_a_kind_from_the_future_is_refused(engine):
    """The sentence says which it is and which are known."""
    profile = new_profile(engine)
    add(engine, profile, delta({"x": 1}, "ham"))
    with writing(engine) as connection:
        connection.execute(update(tables.class_count).values(kind="trees"))

    with pytest.raises(InconsistentCounts, match="unknown kind 'trees'"):
        loaded(engine, profile)


@pytest.mark.parametrize(
    "changes",
    [{"messages": 0}, {"degree": 3}, {"degree": 1, "other": 9}, {"other": 7}],
)
def test_a_row_without_meaning_is_refused_by_the_database(engine, changes):
    """A sum of no messages, an unknown degree, a pair the wrong way round."""
    row = {"field": 8, "other": 8, "degree": 2, "messages": 1}
    words = {"low": 1, "middle": 0, "high": 0}
    key = {"profile_id": 1, "epoch": 202603, "view": "sizes", "label": "ham"}

    def insert(values):
        with engine.begin() as connection:
            connection.execute(tables.moment_sum.insert().values(**values))

    insert(key | row | words)
    with pytest.raises(IntegrityError):
        insert(key | {"label": "spam"} | row | words | changes)


def test_the_sums_of_a_column_stay_exact_integers(engine):
    """They come back as Python integers, which no sum overflows."""
    profile = new_profile(engine)
    add(engine, profile, delta({"x": LIMIT}, "ham"))
    found = loaded(engine, profile)["sizes"]

    assert np.object_ == found.products.dtype
    assert LIMIT**2 == found.products[0, 0, 0]
