"""Retention: old vectors go, what they have added stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, func, select

from app.errors import Expired
from app.ledger.undo import Selection
from app.storage import retention, runs, tables
from app.storage.database.engine import open_engine, reading, writing
from app.storage.ledger import rows_after
from app.storage.runs import RUNS
from tests.support.builders import (
    APRIL,
    MARCH,
    drop_vectors,
    fold_all,
    new_profile,
    rows_of,
    taught,
    teach,
)
from tests.support.databases import sqlite_url
from tests.support.ledger import add, audited, begin, finish, labels_of, learned, loaded
from tests.support.stories import stories, tell

LATER = APRIL + timedelta(days=1)


def drop(engine, profile, *, before=APRIL, limit=1000):
    """Drop old vectors and return of how many rows."""
    with writing(engine) as connection:
        return drop_vectors(connection, profile, before=before, limit=limit)


def sealed_levels(engine, profile):
    """Return the level of each part of a sealed run."""
    rows = rows_of(engine, tables.run, profile)
    return sorted(level for kind, _, _, level, *_ in rows if kind == "sealed")


def vectors_of(engine, profile):
    """Return which rows have their vectors, and which their names."""
    with reading(engine) as connection:
        rows = rows_after(connection, profile.id, revision=0, limit=1000)
    return [(row.vector is not None, row.encoded_names is not None) for row in rows]


def test_the_time_of_a_database_is_a_moment(engine):
    """In whatever zone its machine is; SQLite tells whole seconds."""
    before = datetime.now(UTC).replace(microsecond=0)
    with reading(engine) as connection:
        time = retention.time_of(connection)

    assert before <= time <= datetime.now(UTC)


def test_old_vectors_go_and_the_audit_stays_exact(engine):
    """Labels, digests and the state are as before; the tables are not touched."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}, {"size": 3}))
    teach(engine, profile, taught(2, "ham", {"b": 2}, time=APRIL))
    add(engine, profile, {202603: learned()})
    fold_all(engine, profile)
    before = loaded(engine, profile)
    dropped = drop(engine, profile)

    assert 2 == dropped
    assert [(False, False), (True, True), (False, False)] == vectors_of(engine, profile)
    assert before == loaded(engine, profile)
    assert ["spam", "ham"] == labels_of(engine, profile, [1, 2])
    assert (True, 3) == audited(engine, profile)


def test_what_is_not_folded_keeps_its_vector(engine):
    """A start reads it from the ledger."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}))

    assert 0 == drop(engine, profile)
    assert [(True, True)] == vectors_of(engine, profile)


def test_what_an_undo_needs_is_kept_until_it_is_done(engine):
    """It was told that it could."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}))
    fold_all(engine, profile)
    begin(engine, profile, Selection(source="anna"))
    meanwhile = drop(engine, profile)
    finish(engine, profile)
    fold_all(engine, profile)

    assert (0, 1) == (meanwhile, drop(engine, profile))
    assert (True, 2) == audited(engine, profile)


def test_what_was_prepared_is_dropped_once(engine):
    """Two processes prepare the same rows; the second finds nothing to do."""
    profile = new_profile(engine)
    teach(engine, profile, *(taught(n, "spam", {"a": 1}) for n in range(3)))
    fold_all(engine, profile)
    with reading(engine) as connection:
        prepared = retention.prepare(connection, profile, before=APRIL, limit=2)
    first = drop(engine, profile, limit=1)
    with writing(engine) as connection:
        second = retention.write(connection, profile, prepared)

    assert (1, False) == (first, second)
    assert [False, True, True] == [has for has, _ in vectors_of(engine, profile)]
    assert (True, 3) == audited(engine, profile)


def test_nothing_is_dropped_before_what_is_older(engine):
    """Not while that is not folded, nor if it was appended in between."""
    profile = new_profile(engine)
    earlier = MARCH - timedelta(days=40)
    teach(engine, profile, taught(1, "spam", {"a": 1}))
    fold_all(engine, profile)
    with reading(engine) as connection:
        prepared = retention.prepare(connection, profile, before=APRIL, limit=9)
    teach(engine, profile, taught(2, "ham", {"a": 1}, time=earlier))
    with writing(engine) as connection:
        written = retention.write(connection, profile, prepared)
    unfolded = drop(engine, profile)
    fold_all(engine, profile)
    folded = drop(engine, profile)

    assert (False, 0, 2) == (written, unfolded, folded)
    assert (True, 2) == audited(engine, profile)


def test_the_oldest_go_first_a_few_at_a_time(engine):
    """As steps of the upkeep; in the end nothing is left to do."""
    profile = new_profile(engine)
    for n in range(5):
        when = MARCH - timedelta(days=n)
        teach(engine, profile, taught(n, "spam", {"a": 1}, time=when))
    fold_all(engine, profile)
    first = drop(engine, profile, limit=2)
    kept = [vector for vector, _ in vectors_of(engine, profile)]
    rest = [drop(engine, profile, limit=2) for _ in range(3)]

    assert (2, [True, True, True, False, False]) == (first, kept)
    assert [2, 1, 0] == rest
    assert (True, 5) == audited(engine, profile)


def test_a_message_that_is_too_old_stays_what_it_is(engine):
    """The same label is no news; another one, or none, cannot be."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}))
    fold_all(engine, profile)
    drop(engine, profile)
    outcomes = teach(
        engine,
        profile,
        taught(1, "spam", {"a": 1}),
        taught(1, "ham", {"a": 1}),
        taught(1, None),
    )

    assert ["unchanged", "expired", "expired"] == [o.kind for o in outcomes]
    with pytest.raises(Expired, match="nothing can be undone"):
        begin(engine, profile, Selection(source="anna"))


def test_large_rows_are_dropped_a_few_at_a_time(engine, monkeypatch):
    """The names of each are rows, which are written under one lock."""
    profile = new_profile(engine)
    for n in range(4):
        teach(engine, profile, taught(n, "spam", {f"w{n}": 1, f"x{n}": 1}))
    fold_all(engine, profile)
    with reading(engine) as connection:
        (row, *_) = rows_after(connection, profile.id, revision=0, limit=1)
    monkeypatch.setattr(retention, "BYTES", 2 * len(row.vector))

    assert [2, 2, 0] == [drop(engine, profile) for _ in range(3)]
    monkeypatch.setattr(retention, "BYTES", 1)
    teach(engine, profile, taught("one", "spam", {"a": 1}))
    fold_all(engine, profile)
    assert 1 == drop(engine, profile)
    assert (True, 5) == audited(engine, profile)


def test_what_is_sealed_while_runs_are_merged_stays(engine):
    """The sum takes the place of the runs that it was made of, and of no other."""
    profile = new_profile(engine)
    for n in range(2 * RUNS):
        teach(engine, profile, taught(n, "spam", {f"w{n % 7}": 1, f"x{n}": 1}))
    fold_all(engine, profile)
    for _ in range(RUNS):
        drop(engine, profile, limit=1)
    with reading(engine) as connection:
        merge = runs.prepare_merge(connection, profile, "sealed")
    drop(engine, profile, limit=2)
    with writing(engine) as connection:
        written = runs.write_merge(connection, profile, merge)

    assert written is True
    assert [0, 1] == sealed_levels(engine, profile)
    assert (True, 2 * RUNS) == audited(engine, profile)


def test_an_audit_misses_what_was_sealed(engine):
    """A sealed sum that is gone is a difference."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 2}))
    fold_all(engine, profile)
    drop(engine, profile)
    with writing(engine) as connection:
        connection.execute(
            delete(tables.run).where(
                tables.run.c.profile_id == profile.id, tables.run.c.kind == "sealed"
            )
        )

    assert (False, 1) == audited(engine, profile)


@given(stories, st.lists(st.integers(0, 24 * 62), max_size=3))
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_dropped_the_audit_stays_exact(tmp_path_factory, story, hours):
    """Taught, imported, undone, dropped in any order."""
    folder = tmp_path_factory.mktemp("story")
    engine = open_engine(sqlite_url(folder))
    profile = new_profile(engine)
    tell(engine, profile, story)
    fold_all(engine, profile)
    before = loaded(engine, profile)
    for hour in hours:
        drop(engine, profile, before=MARCH + timedelta(hours=hour - 400), limit=3)
    with reading(engine) as connection:
        revision = connection.execute(
            select(func.max(tables.ledger.c.revision)).where(
                tables.ledger.c.profile_id == profile.id
            )
        ).scalar_one()
        runs.load(connection, profile, "sealed")

    assert before == loaded(engine, profile)
    assert (True, revision or 0) == audited(engine, profile)
    engine.dispose()
