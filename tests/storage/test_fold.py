"""The fold: from the ledger into the counts, in steps."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from app.errors import CorruptVector, InconsistentCounts
from app.storage import fold as folding
from app.storage import tables
from app.storage.database.engine import reading, writing
from app.storage.fold import audit, folded_revision, load, prepare, write
from app.storage.ledger import append
from tests.support.builders import (
    APRIL,
    MARCH,
    counts_of,
    fold,
    fold_all,
    folded,
    new_profile,
    rows_of,
    taught,
    teach,
)
from tests.support.databases import on_one_database, on_postgresql

# What may happen to a few messages of a few words and fields, in any order.
words = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 3), max_size=4)
pairs = st.dictionaries(st.sampled_from("xyz"), st.integers(1, 2**31), max_size=3)
teachings = st.builds(
    taught,
    st.integers(0, 4),
    st.sampled_from(["ham", "spam", None]),
    st.none() | words,
    st.none() | pairs,
    time=st.sampled_from([MARCH, APRIL]),
)
histories = st.lists(teachings, max_size=12)


def contents(engine, profile):
    """Return all that a fold changes."""
    return [
        counts_of(engine, profile),
        rows_of(engine, tables.class_count, profile),
    ]


def state(engine, profile):
    """Return tables and unfolded rows together."""
    with reading(engine) as connection:
        return load(connection, profile)


def audited(engine, profile):
    """Return the audit."""
    with reading(engine) as connection:
        return audit(connection, profile)


def step(engine, profile, limit):
    """Fold once and return how many rows that were."""
    with writing(engine) as connection:
        return fold(connection, profile, limit=limit)


def test_a_fold_moves_a_few_rows_and_its_mark(engine):
    """It returns how many, and zero once nothing is left."""
    profile = new_profile(engine)
    teach(engine, profile, *(taught(m, "ham", {"a": 1}) for m in range(5)))
    steps = []
    for _ in range(4):
        n = step(engine, profile, 2)
        with reading(engine) as connection:
            steps.append((n, folded_revision(connection, profile.id)))

    assert [(2, 2), (2, 4), (1, 5), (0, 5)] == steps


def test_folding_changes_no_state(engine):
    """Tables and unfolded rows together are the same before and after."""
    profile = new_profile(engine)
    teach(
        engine,
        profile,
        taught(1, "ham", {"a": 2, "b": 1}, {"x": 5, "y": 2**40}),
        taught(2, "spam", {"b": 3}, {"y": 1}, time=APRIL),
        taught(1, "spam", time=APRIL),
        taught(2, None),
    )
    before = state(engine, profile).tables
    for _ in range(4):
        step(engine, profile, 1)

        assert before == state(engine, profile).tables
        assert audited(engine, profile).sound


def test_a_forgotten_message_leaves_nothing(engine):
    """The counts are those of a profile that never learned it."""
    profile, never = new_profile(engine), new_profile(engine)
    for p in (profile, never):
        teach(engine, p, taught(1, "ham", {"meeting": 1, "monday": 1}, {"size": 7}))
    teach(
        engine,
        profile,
        taught(2, "spam", {"monday": 1, "secret": 1}, {"size": 9, "skew": 3}),
    )
    fold_all(engine, profile)
    teach(engine, profile, taught(2, None))
    fold_all(engine, profile)
    fold_all(engine, never)

    assert contents(engine, never) == contents(engine, profile)


def next_step(engine, profile, limit):
    """Return what has to be folded next, as another process would see it."""
    with reading(engine) as connection:
        return prepare(connection, profile, limit=limit)


def test_a_thread_that_sums_many_rows_rests(engine, monkeypatch):
    """Between some of them."""
    rests = []
    monkeypatch.setattr(folding.time, "sleep", rests.append)
    monkeypatch.setattr(folding, "ROWS_AT_ONCE", 3)
    profile = new_profile(engine)
    teach(engine, profile, *(taught(n, "ham", {"a": 1, f"w{n}": 1}) for n in range(8)))
    alone = next_step(engine, profile, 3)
    none = list(rests)
    first = next_step(engine, profile, 7)

    assert (3, []) == (alone.rows, none)
    assert [folding.PAUSE] * 2 == rests
    assert (7, 0, 7) == (first.rows, first.after, first.upto)


@on_one_database
@given(history=histories, limit=st.integers(1, 5))
def test_folding_in_steps_or_at_once_gives_the_same_tables(engine, history, limit):
    """Wherever the steps fall, the rows are the same and the audit is zero."""
    steps, once, live = (new_profile(engine) for _ in range(3))
    for teaching in history:
        teach(engine, steps, teaching)
        teach(engine, live, teaching)
        step(engine, live, limit)
    teach(engine, once, *history)
    fold_all(engine, steps, limit=limit)
    fold_all(engine, once)
    fold_all(engine, live)

    assert contents(engine, once) == contents(engine, steps)
    assert contents(engine, once) == contents(engine, live)
    for profile in (steps, once, live):
        assert audited(engine, profile).sound


def test_a_fold_that_is_killed_halfway_did_nothing(engine):
    """Counts, names and mark are rolled back together."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}), taught(2, "spam", {"b": 1}))
    step(engine, profile, 1)
    before = contents(engine, profile)

    class KilledError(Exception):
        """Something that happens before the commit."""

    def killed():
        with writing(engine) as connection:
            assert 1 == fold(connection, profile, limit=1)
            raise KilledError

    with pytest.raises(KilledError):
        killed()
    assert before == contents(engine, profile)
    assert 1 == folded(engine, profile)
    assert audited(engine, profile).sound
    assert 1 == step(engine, profile, 9)
    assert audited(engine, profile).sound


def test_a_fold_that_finds_a_contradiction_stops_before_it(engine):
    """Nothing of the step is stored, and the audit says what is wrong."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}), taught(2, "ham", {"b": 1}))
    fold_all(engine, profile)
    with writing(engine) as connection:
        connection.execute(tables.class_count.update().values(messages=0))
    teach(engine, profile, taught(1, None))
    before = contents(engine, profile)

    with pytest.raises(InconsistentCounts, match="would be negative"):
        step(engine, profile, 9)
    assert before == contents(engine, profile)
    assert 2 == audited(engine, profile).difference


def test_what_was_never_learned_is_not_taken_back(engine):
    """A profile whose counts would be below zero is not served, and audited."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}), taught(2, "ham", {"b": 1}))
    fold_all(engine, profile)
    with writing(engine) as connection:
        connection.execute(tables.run.delete())
    teach(engine, profile, taught(1, None))

    with pytest.raises(InconsistentCounts, match="never learned"):
        state(engine, profile)
    assert not audited(engine, profile).sound


def test_a_vector_that_cannot_be_read_stops_the_fold(engine):
    """It is never skipped: the tables would differ from the ledger for good."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    with writing(engine) as connection:
        connection.execute(
            update(tables.ledger)
            .where(tables.ledger.c.profile_id == profile.id)
            .values(vector=b"junk")
        )

    with pytest.raises(CorruptVector):
        step(engine, profile, 9)
    assert [{}, []] == contents(engine, profile)


def test_of_folds_at_once_one_takes_each_row(engine):
    """Every row is folded exactly once, whoever does it."""
    profile = new_profile(engine)
    batch = [taught(m, "ham", {"a": 1, f"w{m}": 1}) for m in range(60)]
    teach(engine, profile, *batch)
    barrier = Barrier(3)
    folded = []

    def run():
        barrier.wait()
        # Who finds another at work has nothing to do at the moment.
        while next_step(engine, profile, 1) is not None:
            folded.append(step(engine, profile, 3))

    threads = [Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 60 == sum(folded)
    assert audited(engine, profile).sound
    assert [(202603, "words", "ham", 60)] == rows_of(
        engine, tables.class_count, profile
    )


@on_postgresql
def test_feedback_does_not_wait_for_a_fold(engine):
    """On PostgreSQL a row is appended while a fold is under way."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    with writing(engine) as connection:
        fold(connection, profile, limit=9)
        (outcome,) = teach(engine, profile, taught(2, "ham", {"a": 1}))

    assert 2 == outcome.row.revision
    assert audited(engine, profile).sound


@on_postgresql
def test_a_fold_does_not_wait_for_feedback(engine):
    """On PostgreSQL rows are folded while another one is appended."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    with writing(engine) as connection:
        append(connection, profile, [taught(2, "ham", {"a": 1})])

        assert 1 == step(engine, profile, 9)
    assert audited(engine, profile).sound


def test_rows_that_are_summed_before_the_lock_are_written_under_it(engine):
    """Both halves do what the whole does."""
    halves, whole = new_profile(engine), new_profile(engine)
    for profile in (halves, whole):
        teach(engine, profile, taught(1, "ham", {"a": 1, "b": 2}, {"x": 3}))
        step(engine, profile, 1)
        teach(engine, profile, taught(2, "spam", {"b": 1, "c": 1}), taught(1, None))
    with reading(engine) as connection:
        prepared = prepare(connection, halves, limit=9)
    # Taught after it was prepared: the next fold takes it.
    teach(engine, halves, taught(3, "ham", {"d": 1}))
    with writing(engine) as connection:
        written = write(connection, halves, prepared)
    step(engine, whole, 9)

    assert (2, 1, 3) == (prepared.rows, prepared.after, prepared.upto)
    assert written
    assert contents(engine, whole) == contents(engine, halves)
    assert audited(engine, halves).sound


def test_rows_that_another_fold_took_are_not_written_twice(engine):
    """A prepared step is of use only while the mark stands where it stood."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}), taught(2, "ham", {"b": 1}))
    with reading(engine) as connection:
        prepared = prepare(connection, profile, limit=1)
    step(engine, profile, 2)
    before = contents(engine, profile)
    with writing(engine) as connection:
        written = write(connection, profile, prepared)

    assert not written
    assert before == contents(engine, profile)
    assert audited(engine, profile).sound


@on_postgresql
def test_a_prepared_fold_waits_for_no_other(engine):
    """Where another process folds, there is nothing to do."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    with reading(engine) as connection:
        prepared = prepare(connection, profile, limit=9)
    with writing(engine) as connection:
        fold(connection, profile, limit=9)
        with writing(engine) as other:
            written = write(other, profile, prepared)

    assert not written
    assert audited(engine, profile).sound
