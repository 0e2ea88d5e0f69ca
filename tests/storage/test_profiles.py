"""Profiles: which filters there are."""

from __future__ import annotations

from collections import Counter
from threading import Thread

import pytest
from sqlalchemy import event, text

from app.errors import ProfileExists, UnknownProfile
from app.storage import hidden, profiles, tables
from app.storage.database.engine import reading, writing
from tests.support.builders import (
    APRIL,
    MARCH,
    fold_all,
    new_profile,
    taught,
    teach,
)
from tests.support.databases import on_postgresql


def create(engine, name, labels=("ham", "spam"), spam_labels=("spam",), at=MARCH):
    """Create a profile in a transaction of its own."""
    with writing(engine) as connection:
        return profiles.create(
            connection,
            name=name,
            labels=labels,
            spam_labels=spam_labels,
            feature_set=3,
            created_at=at,
        )


def test_a_profile_is_found_as_it_was_created(engine):
    """All fields come back, the time with its zone."""
    created = create(engine, "käse.example", ("ham", "spam", "phishing"), ("phishing",))
    with reading(engine) as connection:
        found = profiles.find(connection, "käse.example")

    assert created == found
    assert ("ham", "spam", "phishing") == found.labels
    assert ("phishing",) == found.spam_labels
    assert (3, 0, MARCH) == (found.feature_set, found.revision, found.created_at)
    assert MARCH.utcoffset() == found.created_at.utcoffset()


def test_no_profile_gets_the_key_of_a_deleted_one(engine):
    """Other processes may still score mail for that one."""
    old = create(engine, "old")
    with writing(engine) as connection:
        hidden.hide(connection, old, why="deleted")
    list(hidden.remove(engine, old.id))

    assert old.id < create(engine, "new").id


def test_creating_a_profile_again_changes_nothing(engine):
    """The first one stays, with its time."""
    first = create(engine, "site")

    assert first == create(engine, "site", at=APRIL)


@pytest.mark.parametrize(
    ("labels", "spam_labels"),
    [(("spam", "ham"), ("spam",)), (("ham", "spam"), ("ham",))],
)
def test_a_profile_keeps_its_labels(engine, labels, spam_labels):
    """Their order gives the class index, so another order is another profile."""
    create(engine, "site")

    with pytest.raises(
        ProfileExists, match="'site' already exists, with the labels ham, spam"
    ):
        create(engine, "site", labels, spam_labels)


@on_postgresql
def test_a_name_that_is_taken_meanwhile_is_not_given_twice(engine):
    """Whoever renames waits for the other, and is told that it was faster."""
    old = create(engine, "old")
    refused = []

    def rename():
        with pytest.raises(ProfileExists) as caught, writing(engine) as connection:
            profiles.rename(connection, old, "new")
        refused.append(str(caught.value))

    thread = Thread(target=rename)
    waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with writing(engine) as connection:
        connection.execute(
            tables.profile.update()
            .where(tables.profile.c.id == create(engine, "other").id)
            .values(name="new")
        )
        thread.start()
        while thread.is_alive() and not connection.scalar(waits):
            pass
    thread.join()

    assert "the profile 'new' already exists" in refused[0]


def test_a_profile_that_is_not_there_is_an_error(engine):
    """The sentence names it."""
    with (
        reading(engine) as connection,
        pytest.raises(UnknownProfile, match="no profile 'nowhere'"),
    ):
        profiles.find(connection, "nowhere")


def test_profiles_are_listed_by_name(engine):
    """In one order, however they were created."""
    for name in ("b", "c", "a"):
        create(engine, name)
    with reading(engine) as connection:
        names = [row.name for row in profiles.list_all(connection)]

    assert ["a", "b", "c"] == names


def test_messages_are_those_of_the_view_that_has_seen_most():
    """A view that came later knows fewer; rows that are not folded count on top."""
    counts = Counter(
        {
            ("words", 202603, "ham"): 2,
            ("words", 202604, "ham"): 3,
            ("words", 202604, "spam"): 4,
            ("pairs", 202604, "ham"): 3,
            # One ham is now spam, and one message is new.
            (None, 202604, "ham"): -1,
            (None, 202604, "spam"): 2,
            (None, 202604, None): -1,
        }
    )

    assert {"ham": 4, "spam": 6} == profiles.by_label(counts)


def test_messages_are_counted_without_the_ledger_where_all_is_folded(engine):
    """PostgreSQL would read all of it for the rows that are not there."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}), taught(2, "spam", {"b": 1}))
    fold_all(engine, profile)
    asked = []
    event.listen(engine, "before_cursor_execute", lambda *a: asked.append(a[2]))
    with reading(engine) as connection:
        folded = profiles.count_by_month(connection, [profile.id])[profile.id]
    read = [statement for statement in asked if "FROM ledger" in statement]
    teach(engine, profile, taught(2, "ham"), taught(3, "ham", {"c": 1}))
    with reading(engine) as connection:
        later = profiles.count_by_month(connection, [profile.id])[profile.id]

    assert [] == read
    assert {"ham": 1, "spam": 1} == profiles.by_label(folded)
    assert {"ham": 3} == +profiles.by_label(later)
