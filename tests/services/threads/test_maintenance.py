"""Steps of the maintenance: what each costs, and whose turn it is."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import event, func, select

from app.ledger.entry import ScoredRow
from app.services import cache, scheduler
from app.services.clock import now
from app.services.profiles import create_profile
from app.storage import profiles, retention, scored, tables
from app.storage.database.engine import reading, writing
from tests.support.application import maintain, running, teach
from tests.support.builders import observed
from tests.support.databases import on_sqlite
from tests.support.messages import ham, spam

OLD = timedelta(days=400)


def named(n):
    """Return the name of a profile by its number."""
    return f"user{n:04}@example.org"


@contextmanager
def site(database_url, size):
    """Run an application with so many loaded profiles, and no threads of upkeep."""
    with running(database_url=database_url) as app:
        app.scheduler.stop()
        if app.notifier is not None:
            app.notifier.stop()
        for n in range(size):
            if named(n) in app.live:
                continue
            create_profile(
                app.engine,
                named(n),
                labels=("ham", "spam"),
                spam_labels=("spam",),
                time=now(),
            )
        app.live.refresh()
        for n in range(size):
            app.live.load(named(n))
        maintain(app)
        yield app


def statements(app, act):
    """Return how many statements the database gets while something is done."""
    counted = []

    def count(*_):
        counted.append(1)

    event.listen(app.engine, "before_cursor_execute", count)
    act()
    event.remove(app.engine, "before_cursor_execute", count)
    return len(counted)


def keep(app, n, *, rows, time):
    """Store scored messages of a profile."""
    with writing(app.engine) as connection:
        profile = profiles.find(connection, named(n))
        scored.put_many(
            connection,
            profile.id,
            [ScoredRow.of(observed(i, {"a": 1}), time=time) for i in range(rows)],
        )


def kept(app):
    """Return how many scored messages each profile has."""
    with reading(app.engine) as connection:
        rows = connection.execute(
            select(tables.profile.c.name, func.count())
            .join(tables.scored, tables.scored.c.profile_id == tables.profile.c.id)
            .group_by(tables.profile.c.name)
        )
        return dict(map(tuple, rows))


def expire(app):
    """Have the next step look for what is too old."""
    app.maintenance._expire_at = 0.0  # noqa: SLF001  not in a minute: now


def follow(app):
    """Have the next step look for changes."""
    app.maintenance._follow_at = 0.0  # noqa: SLF001  not in half a second: now


@pytest.fixture
def of_many(database_url):
    """The statements of a look for changes and for what is too old, by profiles."""
    found = []
    for size in (10, 300):
        with site(database_url, size) as app:

            def look(app=app):
                follow(app)
                expire(app)
                maintain(app)

            found.append((statements(app, app.live.refresh), statements(app, look)))
    return found


def test_idle_profiles_cost_no_statement(of_many):
    """A look for changes has one, and one for what is too old as many as with few."""
    few, many = of_many

    assert 1 == few[0]
    assert few == many


def test_a_change_has_its_profile_read_and_no_other(database_url, monkeypatch):
    """One row of a hundred, though all are in memory."""
    asked = []
    read = profiles.get_many
    here = threading.get_ident()

    def reading_some(connection, keys):
        keys = [*keys]
        # The other application has threads of its own.
        if threading.get_ident() == here:
            asked.append(keys)
        return read(connection, keys)

    with site(database_url, 20) as app, running(database_url=database_url) as other:
        other.scheduler.stop()
        monkeypatch.setattr(profiles, "get_many", reading_some)
        live = app.live.get(named(7))
        app.live.refresh()
        teach(other, spam(1), "spam", named(7))
        asked.clear()
        app.live.refresh()
        (keys,) = [keys for keys in asked if keys]

        assert ([live.row.id], 1) == (keys, live.revision)


@pytest.mark.parametrize("act", ["policy", "rename"])
def test_a_change_without_a_lesson_is_noticed(database_url, act):
    """By another process: its rows are as many as they were."""
    with site(database_url, 1) as app, running(database_url=database_url) as other:
        with writing(other.engine) as connection:
            row = profiles.find_locked(connection, named(0))
            if act == "policy":
                profiles.set_policy(connection, row, {"spam_from": 3.5})
            else:
                profiles.rename(connection, row, "renamed@example.org")
        app.live.refresh()
        found = {each.row.name: each.row.policy for each in app.live}

        assert {"spam_from": 3.5} == found.get(
            named(0)
        ) or "renamed@example.org" in found


@on_sqlite
def test_what_is_taught_while_a_profile_is_loaded_is_followed(
    database_url, monkeypatch
):
    """Though the look that saw it found nothing in memory to follow with."""
    load = cache.load
    with (
        running(database_url=database_url) as app,
        running(database_url=database_url, profile=named(0)) as other,
    ):
        app.scheduler.stop()
        other.scheduler.stop()
        app.live.refresh()

        def loaded(*given):
            live = load(*given)
            teach(other, ham(1), "ham", named(0))
            app.live.refresh()
            return live

        monkeypatch.setattr(cache, "load", loaded)
        live = app.live.load(named(0))
        before = live.revision
        app.live.refresh()

        assert (0, 1) == (before, live.revision)


@pytest.mark.parametrize("size", [2, 5])
def test_what_is_too_old_goes_wherever_its_profile_is(database_url, monkeypatch, size):
    """Profiles are looked at some at a time, and all have their turn."""
    monkeypatch.setattr(retention, "PROFILES", 2)
    with site(database_url, size) as app:
        for n in range(size):
            keep(app, n, rows=3, time=now() - OLD)
        expire(app)
        maintain(app)

        assert {} == kept(app)


@on_sqlite
def test_profiles_with_much_to_forget_take_turns(database_url, monkeypatch):
    """A step forgets a little of one of them."""
    monkeypatch.setattr(scheduler, "FORGOTTEN_ROWS", 2)
    with site(database_url, 3) as app:
        for n, rows in enumerate((9, 2, 2)):
            keep(app, n, rows=rows, time=now() - OLD)
        expire(app)
        found = []
        for _ in range(3):
            app.maintenance()
            found.append([kept(app).get(named(n), 0) for n in range(3)])

        assert [[7, 2, 2], [7, 0, 2], [7, 0, 0]] == found


@on_sqlite
def test_other_processes_are_followed_while_much_is_forgotten(
    database_url, monkeypatch
):
    """Between two steps, whatever is left."""
    monkeypatch.setattr(scheduler, "FORGOTTEN_ROWS", 1)
    with site(database_url, 3) as app, running(database_url=database_url) as other:
        other.scheduler.stop()
        for n in range(3):
            keep(app, n, rows=5, time=now() - OLD)
        expire(app)
        app.maintenance()
        teach(other, spam(1), "spam", named(2))
        follow(app)
        app.maintenance()

        assert 1 == app.live.get(named(2)).revision
        assert 13 == sum(kept(app).values())


@on_sqlite
@pytest.mark.parametrize(
    ("settings", "left"), [({"scored_rows": 2}, 2), ({"scored_bytes": 1}, 0)]
)
def test_what_is_too_much_goes_as_what_is_too_old(database_url, settings, left):
    """By rows, and by bytes."""
    with site(database_url, 1) as app:
        app.maintenance.settings = app.settings.model_copy(update=settings)
        keep(app, 0, rows=4, time=now())
        expire(app)
        maintain(app)

        assert left == kept(app).get(named(0), 0)
