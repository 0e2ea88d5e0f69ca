"""The fold: from the ledger into the count tables, in steps."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from app.bayes.measurements import LIMIT
from app.errors import CorruptVector, InconsistentCounts
from app.storage import tables
from app.storage.counts import names
from app.storage.database.engine import reading, writing
from app.storage.fold import fold as folding
from app.storage.fold import state as mark
from app.storage.fold.fold import prepare, write
from app.storage.fold.state import folded_revision, load
from app.storage.ledger import append
from app.storage.upkeep.audit import audit
from tests.support.builders import (
    APRIL,
    MARCH,
    feature,
    fold,
    fold_all,
    new_profile,
    rows_of,
    taught,
    teach,
)
from tests.support.databases import on_postgresql

COUNT_TABLES = (
    tables.feature_count,
    tables.moment_sum,
    tables.class_count,
    tables.feature_name,
)

# What may happen to a few messages of a few words and fields, in any order.
words = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 3), max_size=4)
steps_of_size = st.one_of(
    st.integers(-2, 2),
    st.sampled_from([-LIMIT, 2**31, LIMIT]),
    st.integers(-LIMIT, LIMIT),
)
sizes = st.dictionaries(st.sampled_from("xyz"), steps_of_size, max_size=3)
teachings = st.builds(
    taught,
    st.integers(0, 4),
    st.sampled_from(["ham", "spam", None]),
    st.none() | words,
    st.none() | sizes,
    time=st.sampled_from([MARCH, APRIL]),
)
histories = st.lists(teachings, max_size=12)


def contents(engine, profile):
    """Return the rows of all count tables."""
    return [rows_of(engine, table, profile) for table in COUNT_TABLES]


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
        taught(1, "ham", {"a": 2, "b": 1}, {"x": 5, "y": -LIMIT}),
        taught(2, "spam", {"b": 3}, {"y": 0}, time=APRIL),
        taught(1, "spam", time=APRIL),
        taught(2, None),
    )
    before = state(engine, profile).tables
    for _ in range(4):
        step(engine, profile, 1)

        assert before == state(engine, profile).tables
        assert audited(engine, profile).sound


def test_a_relabelled_message_stays_in_its_epoch(engine):
    """What was learned in March and moved in April counts in March."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    teach(engine, profile, taught(1, "spam", time=APRIL))
    fold_all(engine, profile)

    assert [(202603, "words", "spam", 1, "features")] == rows_of(
        engine, tables.class_count, profile
    )


def test_a_forgotten_message_leaves_nothing(engine):
    """Not even the text of the words that only it had."""
    profile, never = new_profile(engine), new_profile(engine)
    for p in (profile, never):
        teach(engine, p, taught(1, "ham", {"meeting": 1, "monday": 1}, {"size": 7}))
    teach(
        engine,
        profile,
        taught(2, "spam", {"monday": 1, "secret": 1}, {"size": 9, "skew": -3}),
    )
    fold_all(engine, profile)
    teach(engine, profile, taught(2, None))
    fold_all(engine, profile)
    fold_all(engine, never)

    assert contents(engine, never) == contents(engine, profile)
    assert {"meeting", "monday", "size"} == {
        row[-1] for row in rows_of(engine, tables.feature_name, profile)
    }


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(history=histories, later=histories, limit=st.integers(1, 9), size=st.integers(1))
def test_folding_in_parts_changes_nothing_but_the_tables(
    engine, history, later, limit, size
):
    """Whatever is taught between two parts, and whoever writes the next."""
    parts, once = new_profile(engine), new_profile(engine)
    for teaching in history:
        teach(engine, parts, teaching)
        teach(engine, once, teaching)
    left = list(later)
    while (prepared := next_step(engine, parts, limit)) is not None:
        if left:
            teaching = left.pop()
            teach(engine, parts, teaching)
            teach(engine, once, teaching)
        with writing(engine) as connection:
            written = write(connection, parts, prepared, size=size)
        with reading(engine) as connection:
            here = mark.read(connection, parts.id)

        assert written.written == (here.rest is None)
        assert here.complete == (prepared.upto if written.written else prepared.after)
        assert audited(engine, parts).sound
        assert learned(engine, once) == learned(engine, parts)
        if written.written:
            # A message that is forgotten between two parts loses its names at once.
            assert named(engine, parts).keys() <= counted(engine, parts)
    for teaching in left:
        teach(engine, once, teaching)
    fold_all(engine, once)
    for teaching in left:
        teach(engine, parts, teaching)
    fold_all(engine, parts)

    assert contents(engine, once)[:3] == contents(engine, parts)[:3]
    assert_names_are_those_of_the_counts(engine, parts)


def learned(engine, profile):
    """Return the views of which something is learned."""
    views = state(engine, profile).tables
    return {view: table for view, table in views.items() if table.messages.any()}


def next_step(engine, profile, limit):
    """Return what has to be folded next, as another process would see it."""
    with reading(engine) as connection:
        return prepare(connection, profile, limit=limit)


def test_a_feature_is_in_one_part_with_all_that_it_has(engine):
    """In every view, month and label: its name is dropped by what is counted."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1, "b": 1}))
    fold_all(engine, profile)
    teach(
        engine,
        profile,
        taught(1, None),
        taught(2, "spam", {"a": 2, "c": 1}, time=APRIL),
        taught(3, "ham", {"c": 1, "a": 1}, time=APRIL),
    )
    prepared = next_step(engine, profile, 9)
    sizes = []
    while not prepared.written:
        with writing(engine) as connection:
            written = write(connection, profile, prepared, size=1)
        sizes.append(written.done - prepared.done)
        prepared = written

        assert audited(engine, profile).sound
    # March takes "a" back, and April adds it.
    assert [1, 1, 2] == sorted(sizes)
    assert_names_are_those_of_the_counts(engine, profile)


def test_messages_are_counted_as_long_as_a_part_of_theirs_is(engine):
    """They lead to the counts: first to come, and last to go."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1, "b": 1}))
    fold_all(engine, profile)
    teach(engine, profile, taught(1, None), taught(2, "spam", {"c": 1, "d": 1}))
    prepared = next_step(engine, profile, 9)
    labels = []
    while not prepared.written:
        with writing(engine) as connection:
            prepared = write(connection, profile, prepared, size=1)
        labels.append([row[2] for row in rows_of(engine, tables.class_count, profile)])

    assert [["ham", "spam"]] * 3 + [["spam"]] == labels


def test_a_part_of_what_another_fold_began_is_written(engine):
    """Both have summed the same rows, and each goes on where the other stands."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1, "b": 1, "c": 1, "d": 1}))
    one, other = next_step(engine, profile, 9), next_step(engine, profile, 9)
    done = []
    for step in (one, other, one):
        with writing(engine) as connection:
            written = write(connection, profile, step, size=1)
        done.append(written.done)
    teach(engine, profile, taught(2, "ham", {"e": 1}))
    with writing(engine) as connection:
        last = write(connection, profile, other)
        late = write(connection, profile, one)

    assert [1, 2, 3] == done
    assert (True, None) == (last.written, late)
    assert audited(engine, profile).sound


def test_a_thread_that_sums_many_rows_rests(engine, monkeypatch):
    """Between some of them, and so does who goes on with them."""
    rests = []
    monkeypatch.setattr(folding.time, "sleep", rests.append)
    monkeypatch.setattr(folding, "ROWS_AT_ONCE", 3)
    profile = new_profile(engine)
    teach(engine, profile, *(taught(n, "ham", {"a": 1, f"w{n}": 1}) for n in range(8)))
    alone = next_step(engine, profile, 3)
    none = list(rests)
    first = next_step(engine, profile, 7)
    with writing(engine) as connection:
        write(connection, profile, first, size=2)
    again = next_step(engine, profile, 1)

    assert (3, []) == (alone.rows, none)
    assert [folding.PAUSE] * 4 == rests
    assert (7, 0, 7) == (first.rows, first.after, first.upto)
    assert (7, 0, 7) == (again.rows, again.after, again.upto)
    assert first.features.tolist() == again.features.tolist()


@pytest.mark.parametrize("later", [0, 2])
def test_rows_that_are_gone_while_they_are_written_are_told(engine, later):
    """What is left of them cannot be added; nobody waits for it for ever.

    Nor are they taken for those that follow.
    """
    profile = new_profile(engine)
    teach(engine, profile, *(taught(n, "ham", {"a": 1, f"w{n}": 1}) for n in range(3)))
    with writing(engine) as connection:
        write(connection, profile, prepare(connection, profile, limit=9), size=1)
        connection.execute(
            tables.ledger.delete().where(
                tables.ledger.c.profile_id == profile.id, tables.ledger.c.revision == 2
            )
        )

    for n in range(later):
        teach(engine, profile, taught(f"later {n}", "ham", {"a": 1}))

    with pytest.raises(InconsistentCounts, match=r"rows 1 to 3 .* 2 are there"):
        next_step(engine, profile, 9)


def test_what_is_written_in_part_goes_with_its_profile(engine):
    """Also where older code, which does not know of it, deletes the mark."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1, "b": 1}))
    with writing(engine) as connection:
        write(connection, profile, prepare(connection, profile, limit=9), size=1)
    before = rows_of(engine, tables.fold_rest, profile)
    with writing(engine) as connection:
        connection.execute(
            tables.fold.delete().where(tables.fold.c.profile_id == profile.id)
        )

    assert (1, []) == (len(before), rows_of(engine, tables.fold_rest, profile))


def test_older_code_that_folds_beside_a_part_counts_nothing_twice(engine):
    """It takes the batch for written, and goes on after it."""
    profile, once = new_profile(engine), new_profile(engine)
    for each in (profile, once):
        teach(engine, each, taught(1, "ham", {"a": 1, "b": 1}))
    with writing(engine) as connection:
        write(connection, profile, prepare(connection, profile, limit=9), size=1)
    for each in (profile, once):
        teach(engine, each, taught(2, "ham", {"b": 1, "c": 1}))
    rest = rows_of(engine, tables.fold_rest, profile)
    # What it knows of: the mark, and the counts.
    with writing(engine) as connection:
        connection.execute(
            tables.fold_rest.delete().where(tables.fold_rest.c.profile_id == profile.id)
        )
        fold(connection, profile, limit=9)
        connection.execute(tables.fold_rest.insert().values((profile.id, *rest[0])))
    during = audited(engine, profile)
    fold_all(engine, profile)
    fold_all(engine, once)

    assert during.sound
    assert contents(engine, once) == contents(engine, profile)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
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

    assert contents(engine, once)[:3] == contents(engine, steps)[:3]
    assert contents(engine, once)[:3] == contents(engine, live)[:3]
    for profile in (steps, once, live):
        assert audited(engine, profile).sound
        assert_names_are_those_of_the_counts(engine, profile)


def counted(engine, profile):
    """Return the features and fields that have counts."""
    return {
        (row[1], row[3])
        for table in (tables.feature_count, tables.moment_sum)
        for row in rows_of(engine, table, profile)
    }


def named(engine, profile):
    """Return the text of features and fields."""
    return {row[:2]: row[2] for row in rows_of(engine, tables.feature_name, profile)}


def assert_names_are_those_of_the_counts(engine, profile):
    """Every counted feature has its text, and no other has."""
    texts = named(engine, profile)

    assert counted(engine, profile) == texts.keys()
    assert all(feature(name) == number for (_, number), name in texts.items())


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
    assert 1 == state(engine, profile).folded_revision
    assert audited(engine, profile).sound
    assert 1 == step(engine, profile, 9)
    assert audited(engine, profile).sound


def test_a_fold_that_finds_a_contradiction_stops_before_it(engine):
    """Nothing of the step is stored, and the audit says what is wrong."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}), taught(2, "ham", {"b": 1}))
    fold_all(engine, profile)
    with writing(engine) as connection:
        connection.execute(
            tables.feature_count.delete().where(
                tables.feature_count.c.feature == feature("a")
            )
        )
    teach(engine, profile, taught(1, None))
    before = contents(engine, profile)

    with pytest.raises(InconsistentCounts, match="1 of 1 counts of words for ham"):
        step(engine, profile, 9)
    assert before == contents(engine, profile)
    assert 2 == audited(engine, profile).difference


def test_a_fold_that_finds_impossible_sums_stops_before_it(engine):
    """Words and measurements of the step are rolled back together."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}, {"x": 3}))
    fold_all(engine, profile)
    with writing(engine) as connection:
        connection.execute(tables.moment_sum.update().values(low=4))
    teach(engine, profile, taught(2, "ham", {"b": 1}, {"x": 3}))
    before = contents(engine, profile)

    with pytest.raises(InconsistentCounts, match="sums of sizes for ham in 202603"):
        step(engine, profile, 9)
    assert before == contents(engine, profile)
    assert 1 + 5 == audited(engine, profile).difference


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
    assert [[], [], [], []] == contents(engine, profile)


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
    assert [(202603, "words", "ham", 60, "features")] == rows_of(
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


def test_the_text_of_a_word_is_found(engine):
    """For those that were folded; a text that the database has no form for is mended."""
    profile = new_profile(engine)
    odd = {feature("a"): "a\0b", feature("b"): "\ud800"}
    with writing(engine) as connection:
        names.add(connection, profile.id, "words", odd)
        names.add(connection, profile.id, "words", {feature("a"): "later"})
    with reading(engine) as connection:
        found = names.find(
            connection, profile.id, "words", [feature("a"), feature("b"), 7]
        )

    assert {feature("a"): "a\N{REPLACEMENT CHARACTER}b", feature("b"): "?"} == found


def test_rows_that_are_summed_before_the_lock_are_written_under_it(engine):
    """Both halves do what the whole does, names and all."""
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
    assert written.written
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

    assert written is None
    assert before == contents(engine, profile)
    assert audited(engine, profile).sound


def test_nothing_is_prepared_where_all_is_folded(engine):
    """There is no step without rows."""
    profile = new_profile(engine)
    with reading(engine) as connection:
        assert prepare(connection, profile, limit=9) is None


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

    assert written is None
    assert audited(engine, profile).sound
