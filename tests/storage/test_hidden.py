"""Hidden profiles: what is on its way and what was replaced, and how it goes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.access.lists import ListEntry, ListSubject
from app.classifier.verdict import HistoryLine
from app.errors import DatabaseUnavailable, ProfileReplaced
from app.ledger.entry import ScoredRow
from app.ledger.undo import Selection
from app.storage import hidden, history, ledger, lists, profiles, scored, tables
from app.storage.database.engine import reading, writing
from app.storage.fold import audit
from app.storage.follow import take
from app.storage.lists import CorrespondentRow
from tests.support.builders import (
    APRIL,
    MARCH,
    begin_undo,
    drop_vectors,
    fold_all,
    new_profile,
    observed,
    rows_of,
    taught,
    teach,
)
from tests.support.databases import counting, on_sqlite

FRIEND = ListEntry(
    subject=ListSubject.parse("ann@example.org"),
    nats=-5.0,
    source="ben",
    created_at=MARCH,
)
OF_PROFILES = [t for t in tables.metadata.sorted_tables if "profile_id" in t.c]


def begun(engine, name="site", now=MARCH):
    """Return a hidden profile."""
    with writing(engine) as connection:
        return profiles.create(
            connection,
            name=hidden.hidden_name(name),
            labels=("ham", "spam"),
            spam_labels=("spam",),
            feature_set=1,
            created_at=now,
        )


def replaced(engine, old):
    """Show a hidden profile in the place of another, and return it."""
    new = begun(engine, old.name)
    with writing(engine) as connection:
        return hidden.show(
            connection, new, instead_of=old, created_at=APRIL, policy=None
        )


def left(engine, now):
    """Return the hidden profiles that nobody works on."""
    with reading(engine) as connection:
        return hidden.abandoned(connection, now=now)


def removed(engine, profile_id):
    """Remove a hidden profile, and return in how many steps."""
    steps = 1
    while True:
        with writing(engine) as connection:
            if not hidden.remove_step(connection, profile_id):
                return steps
        steps += 1


def names(engine):
    """Return the names of the profiles that are seen."""
    with reading(engine) as connection:
        return [row.name for row in profiles.list_all(connection)]


def lived(engine):
    """Return a profile with rows in every table that profiles have rows in."""
    profile = new_profile(engine)
    teach(
        engine,
        profile,
        *(
            taught(n, "ham", {f"word{n}": 1}, {"size": n + 1}, source="ben")
            for n in range(5)
        ),
        taught("late", "spam", {"late": 1}, time=APRIL),
    )
    fold_all(engine, profile)
    with writing(engine) as connection:
        drop_vectors(connection, profile, before=APRIL, limit=2)
        row = ScoredRow.of(observed("seen", {"x": 1}), time=MARCH)
        scored.put_many(connection, profile.id, [row])
        line = HistoryLine(
            digest=row.digest,
            time=MARCH,
            door="http",
            decision="ham",
            log_odds=-1.0,
            size=100,
            features=1,
            unseen=0,
        )
        history.put_lines(connection, profile.id, [line])
        lists.put_many(connection, profile.id, [FRIEND])
        somebody = CorrespondentRow(profile.id, row.digest, row.digest, 1, MARCH)
        lists.add_correspondents(connection, [somebody])
        take(connection, profile, "berlin", [], known="", cursor="1.0.0.a", time=MARCH)
        begin_undo(
            connection,
            profile,
            Selection(source="anna"),
            source="boss",
            time=APRIL,
        )
    teach(engine, profile, taught("last", "ham", {"lunch": 1, "today": 1}))
    return profile


def test_a_hidden_profile_is_not_listed(engine):
    """A list of profiles has only those with a name."""
    profile = new_profile(engine)
    before = names(engine)
    begun(engine, profile.name)

    assert before == names(engine)
    assert profile.name in before


def test_what_was_replaced_can_be_taught_by_nobody(engine):
    """Its users get an error, and a new request teaches the new profile."""
    old = new_profile(engine)
    teach(engine, old, taught(1, "ham", {"lunch": 1}))
    new = replaced(engine, old)

    with pytest.raises(ProfileReplaced, match="send it again"):
        teach(engine, old, taught(2, "ham", {"lunch": 1}))
    with reading(engine) as connection:
        assert not profiles.is_there(connection, old.id)
    assert (old.name, APRIL, 0) == (new.name, new.created_at, new.revision)
    assert "learned" == teach(engine, new, taught(2, "ham", {"lunch": 1}))[0].kind


def test_code_that_asks_for_the_key_alone_cannot_append_to_what_was_replaced(engine):
    """As that before this one did: it fails, and so acknowledges nothing."""
    old = new_profile(engine)
    (outcome,) = teach(engine, old, taught(1, "ham", {"lunch": 1}))
    replaced(engine, old)
    with reading(engine) as connection:
        revision = connection.execute(
            tables.profile.select().where(tables.profile.c.id == old.id)
        ).one()

    with (
        pytest.raises(engine.dialect.loaded_dbapi.IntegrityError),
        writing(engine) as connection,
    ):
        ledger.write(connection, old.id, [outcome.row])
    assert outcome.row.revision == revision.revision + 1


def test_an_import_is_given_up_when_nobody_has_worked_on_it_for_long(engine):
    """Not before; and what was replaced at once."""
    new = begun(engine)
    old = new_profile(engine)
    replaced(engine, old)
    soon = MARCH + hidden.LEASE
    later = soon + timedelta(seconds=1)

    assert [old.id] == left(engine, soon)
    assert sorted([old.id, new.id]) == left(engine, later)
    with writing(engine) as connection:
        hidden.renew(connection, new, now=APRIL)
    assert [old.id] == left(engine, later)
    with writing(engine) as connection:
        hidden.abandon(connection, new)
    assert sorted([old.id, new.id]) == left(engine, later)


def test_an_import_goes_on_beside_a_clock_of_another_zone(engine):
    """Machines are set to local time by mistake, up to 14 hours ahead."""
    begun(engine)

    assert [] == left(engine, MARCH + timedelta(hours=14))


def test_what_is_shown_is_not_given_up(engine):
    """Removing it has no effect after it became visible."""
    old = new_profile(engine)
    new = begun(engine, old.name)
    with writing(engine) as connection:
        shown = hidden.show(
            connection, new, instead_of=old, created_at=APRIL, policy=None
        )
    with writing(engine) as connection:
        hidden.abandon(connection, new)
        assert not hidden.remove_step(connection, shown.id)

    assert shown.name in names(engine)
    with reading(engine) as connection:
        assert APRIL == profiles.find(connection, shown.name).created_at


def test_who_comes_back_to_an_import_that_was_removed_is_told_so(engine):
    """A process that was suspended for a day writes nothing to nobody's profile."""
    new = begun(engine)
    removed(engine, new.id)

    with (
        pytest.raises(DatabaseUnavailable, match="Import it again"),
        writing(engine) as connection,
    ):
        hidden.renew(connection, new, now=APRIL)


@pytest.mark.parametrize("limit", [1, 3, 4096])
def test_what_was_replaced_is_removed_from_every_table(engine, monkeypatch, limit):
    """In steps of bounded size; nothing of it is left, and all of the others is."""
    monkeypatch.setattr(hidden, "_ROWS", limit)
    monkeypatch.setattr(hidden, "_LARGE_ROWS", {})
    old, other = lived(engine), lived(engine)
    before = [rows_of(engine, table, other) for table in OF_PROFILES]
    replaced(engine, old)
    rows = sum(len(rows_of(engine, table, old)) for table in OF_PROFILES)
    steps = removed(engine, old.id)

    assert all(before)
    assert steps >= rows / limit
    assert [[]] * len(OF_PROFILES) == [rows_of(engine, t, old) for t in OF_PROFILES]
    assert before == [rows_of(engine, table, other) for table in OF_PROFILES]
    assert [] == left(engine, APRIL)
    with reading(engine) as connection:
        assert audit(connection, other).sound


def test_lists_go_on_under_the_name_of_a_profile_that_is_replaced(engine):
    """And other processes notice that they are those of another row."""
    old = lived(engine)
    new = replaced(engine, old)
    with reading(engine) as connection:
        found = lists.entries(connection, new.id)
        left_ = lists.entries(connection, old.id)
        versions = lists.versions(connection)

    assert ([FRIEND], []) == (found, left_)
    assert {old.id: 1, new.id: 1} == {key: n for key, (_, n) in versions.items()}
    assert versions[old.id] != versions[new.id]


def test_a_profile_that_is_seen_is_not_removed(engine):
    """Whatever key somebody gives."""
    profile = lived(engine)
    with writing(engine) as connection:
        assert not hidden.remove_step(connection, profile.id)

    assert profile.name in names(engine)
    assert rows_of(engine, tables.ledger, profile)


@on_sqlite
def test_a_step_of_joining_reads_its_messages_and_not_what_is_left(engine, monkeypatch):
    """Otherwise the steps of a large import would take the square of its rows."""
    monkeypatch.setattr(hidden, "_MESSAGES", 5)
    into = new_profile(engine)
    costs = []
    for messages in (20, 400):
        new = begun(engine, f"site{messages}")
        teach(
            engine,
            new,
            *(taught(f"{messages}:{n}", "ham", {"a": 1}) for n in range(messages)),
        )
        with counting(engine) as counted, writing(engine) as connection:
            moved, left_out = hidden.join_some(connection, new.id, into)
        costs.append(counted.instructions)

        assert (5, 0) == (moved, left_out)
    few, many = costs

    assert many < 2 * few
