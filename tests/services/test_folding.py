"""Folding by hand and by the service: in steps, to the end, stopped anywhere."""

from __future__ import annotations

import os
import signal
from collections import Counter
from itertools import count, zip_longest

import pytest
from sqlalchemy import event

from app.services import scheduler
from app.services import upkeep as folding
from app.services.cache import LiveProfiles
from app.services.clock import SteadyClock
from app.services.recent import RecentMessages
from app.services.scheduler import Maintenance
from app.services.startup import specify
from app.services.upkeep import Folding
from app.settings import Settings
from app.storage import fold, ledger, profiles, runs, tables
from app.storage.database import engine as turn
from app.storage.database.engine import open_engine, reading, writing
from app.storage.fold import audit, folded_revision
from tests.support.builders import new_profile, rows_of, taught, teach
from tests.support.command import forked


def fold_until_killed(url, name, last):
    """Fold in batches of one row, and die at a statement."""
    folding.MOST_BY_HAND = 1
    engine = open_engine(url)
    with reading(engine) as connection:
        profile = profiles.find(connection, name)
    statements = count(1)

    def kill(*_):
        if next(statements) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(engine, "before_cursor_execute", kill)
    event.listen(engine, "commit", kill)
    list(Folding(engine).all(profile))


def burst(engine, profile, messages, *, start=0):
    """Teach many messages at once, some of which others take back."""
    teach(
        engine,
        profile,
        *(
            taught(
                n, ("ham", "spam")[n % 2], {f"w{n % 7}": 1, f"x{n}": 2}, {"size": n + 1}
            )
            for n in range(start, start + messages)
        ),
    )
    teach(
        engine, profile, *(taught(n, "ham") for n in range(start, start + messages, 3))
    )


def marked(engine, profile):
    """Return how far the counts are, and what the audit says."""
    with reading(engine) as connection:
        return folded_revision(connection, profile.id), audit(connection, profile)


def test_all_of_a_ledger_is_folded(engine):
    """In as many steps as it takes; then there is nothing to do."""
    profile = new_profile(engine)
    burst(engine, profile, 30)
    rows = list(Folding(engine).all(profile))
    mark, found = marked(engine, profile)

    assert (True, found.revision) == (found.sound, mark)
    assert found.revision == sum(rows)
    assert [] == list(Folding(engine).all(profile))


@pytest.fixture
def small(monkeypatch):
    """Make each step a few rows."""
    monkeypatch.setattr(folding, "MOST_BY_HAND", 4)
    monkeypatch.setattr(folding, "MOST_ROWS", 4)


def test_a_ledger_is_folded_in_batches(engine, small):
    """Each counts once it is written; at any time all is sound."""
    profile = new_profile(engine)
    burst(engine, profile, 12)
    marks = []
    finished = []
    for rows in Folding(engine).all(profile):
        mark, found = marked(engine, profile)
        finished.append(rows)
        marks.append(mark)

        assert found.sound
    assert len(marks) >= 3
    assert [sum(finished[: n + 1]) for n in range(len(finished))] == marks
    assert found.revision == marks[-1]


def test_runs_are_merged_as_they_become_many(engine, small, monkeypatch):
    """Any process that folds merges them."""
    monkeypatch.setattr(runs, "RUNS", 2)
    profile = new_profile(engine)
    burst(engine, profile, 24)
    list(Folding(engine).all(profile))
    of_level = Counter(row[1:4] for row in rows_of(engine, tables.run, profile))

    assert {1} == set(of_level.values())
    assert max(level for *_, level in of_level) > 0
    assert marked(engine, profile)[1].sound


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test moves."""
    now = [1000.0]
    monkeypatch.setattr(folding.time, "monotonic", lambda: now[0])
    return now


def test_a_batch_of_large_messages_has_few_rows(engine):
    """A thousand of the largest would be a gigabyte of memory."""
    profile = new_profile(engine)
    burst(engine, profile, 100)
    with reading(engine) as connection:
        step = fold.prepare(connection, profile, limit=1000, room=1)

    assert ledger.ROWS_OF_QUERY == step.rows


def test_two_folds_take_turns(engine, small):
    """The next fold continues where the other has stopped."""
    profile = new_profile(engine)
    burst(engine, profile, 12)
    one, other = Folding(engine).all(profile), Folding(engine).all(profile)
    rows = [a + b for a, b in zip_longest(one, other, fillvalue=0)]
    mark, found = marked(engine, profile)

    assert (True, found.revision) == (found.sound, mark)
    assert found.revision == sum(rows)


def test_a_service_leaves_the_rows_to_who_folds_by_hand(engine, small, clock):
    """And he does not wait for it, however often it moves the mark."""
    profile = new_profile(engine)
    burst(engine, profile, 30)
    service, by_hand = Folding(engine), Folding(engine).all(profile)
    taken = [service.step(profile) is not None for _ in range(2)]
    given = []
    for _ in by_hand:
        taken.append(service.step(profile) is not None)
        given.append(marked(engine, profile)[1].sound)
        clock[0] += 0.1

    assert [True, True] == taken[:2]
    assert not any(taken[2:])
    assert len(given) > 1
    assert all(given)


def test_one_process_folds_at_a_time(engine, small, clock):
    """A process leaves the rows to another that folds, until that one stops."""
    profile = new_profile(engine)
    burst(engine, profile, 60)
    one, other = Folding(engine), Folding(engine)
    steps = []
    for turn_of in (one, other, one, one, other, other, one):
        steps.append(turn_of.step(profile) is not None)
        clock[0] += 0.1
    clock[0] += folding.AWAY
    steps.append(one.step(profile) is not None)

    # The second began beside the first, which leaves it the rest.
    assert [True, True, False, False, True, True, False, True] == steps
    assert marked(engine, profile)[1].sound


def test_a_step_that_another_process_took_is_not_lost(engine, monkeypatch):
    """Whoever is slower goes on where the other stands, and comes to an end."""
    profile = new_profile(engine)
    burst(engine, profile, 30)

    def overtaken(connection, profile, step):
        # A service folds a row between the two halves of each step.
        write(connection, profile, fold.prepare(connection, profile, limit=1))
        return write(connection, profile, step)

    write = fold.write
    monkeypatch.setattr(fold, "write", overtaken)
    rows = list(Folding(engine).all(profile))
    mark, found = marked(engine, profile)

    assert (True, found.revision) == (found.sound, mark)
    assert {0} == set(rows)


def test_others_may_write_after_each_step(engine, monkeypatch):
    """Also after the last one."""
    profile = new_profile(engine)
    burst(engine, profile, 30)
    pauses = []
    monkeypatch.setattr(turn.time, "sleep", pauses.append)
    monkeypatch.setattr(folding, "MOST_BY_HAND", 10)
    rows = list(Folding(engine).all(profile))

    assert marked(engine, profile)[0] == sum(rows)
    assert 4 <= len(rows)
    assert [turn.PAUSE] * len(rows) == pauses


def test_what_is_taught_meanwhile_is_left(engine, monkeypatch):
    """A fold ends, although feedback comes faster than it is folded."""
    monkeypatch.setattr(folding, "MOST_BY_HAND", 10)
    profile = new_profile(engine)
    burst(engine, profile, 30)
    before = marked(engine, profile)[1].revision
    rows = []
    for some in Folding(engine).all(profile):
        rows.append(some)
        burst(engine, profile, 30, start=30 * len(rows))
    mark, found = marked(engine, profile)

    assert found.sound
    assert before <= mark < before + 10
    assert mark == sum(rows)


def test_rows_that_are_gone_are_not_waited_for(engine):
    """The audit tells of them; a fold comes to an end."""
    profile = new_profile(engine)
    burst(engine, profile, 6)
    with writing(engine) as connection:
        connection.execute(
            tables.ledger.delete().where(tables.ledger.c.profile_id == profile.id)
        )

    assert [] == list(Folding(engine).all(profile))


def test_a_profile_that_is_gone_has_nothing_to_fold(engine, small):
    """Not even what had been begun of it."""
    profile = new_profile(engine)
    burst(engine, profile, 6)
    steps = Folding(engine).all(profile)
    next(steps)
    with writing(engine) as connection:
        connection.execute(
            tables.fold.delete().where(tables.fold.c.profile_id == profile.id)
        )

    assert [] == list(steps)


def test_a_fold_is_killed_at_any_moment_and_nothing_is_lost(engine, database_url):
    """With SIGKILL, between steps and within them; the next one goes on."""
    profile = new_profile(engine)
    burst(engine, profile, 24)
    _, found = marked(engine, profile)
    marks, last = [0], found.revision
    kills, statements = 0, 1
    while marks[-1] < last:
        code = forked(fold_until_killed, database_url, profile.name, statements)
        assert code in (0, -signal.SIGKILL)
        kills += code == -signal.SIGKILL
        # Half as many more each time, so that it comes to an end.
        statements += 1 + statements // 2
        mark, found = marked(engine, profile)
        marks.append(mark)

        assert found.sound
    assert sorted(marks) == marks
    assert kills > 8


def upkeep_of(engine):
    """Return the house-keeping of a service, and its profiles."""
    live = LiveProfiles(engine, specify(Settings()))
    upkeep = Maintenance(
        live,
        RecentMessages(rows=0, store_words=True),
        Settings(scored_days=1, scored_rows=1, vector_days=0),
        clock=SteadyClock(None),
    )
    return live, upkeep


def test_a_service_catches_up(engine, monkeypatch):
    """Beside feedback that never pauses too, and the sooner the more is left."""
    monkeypatch.setattr(scheduler, "BURST", 300)
    monkeypatch.setattr(scheduler, "IDLE_SECONDS", 10**6)
    monkeypatch.setattr(scheduler, "STEP", 0.01)
    profile = new_profile(engine)
    for start in range(0, 2000, 500):
        burst(engine, profile, 500, start=start)
    _, upkeep = upkeep_of(engine)
    waits = []
    while (wait := upkeep()) not in {0, scheduler.FOLLOW_SECONDS}:
        waits.append(wait)
    mark, found = marked(engine, profile)

    assert (True, True) == (found.sound, 2000 < found.revision - 300 <= mark)
    assert waits
    assert sorted(waits) == waits
    assert max(waits) < scheduler.FOLLOW_SECONDS


def test_one_batch_is_folded_at_a_time_however_many_profiles_there_are(
    engine, small, monkeypatch
):
    """In turns, so that one that is taught without end keeps no other waiting."""
    profiles = [new_profile(engine) for _ in range(3)]
    for profile in profiles:
        burst(engine, profile, 6)
    summed = []
    prepare = fold.prepare

    def noted(connection, profile, *, limit):
        step = prepare(connection, profile, limit=limit)
        summed.append((profile.name, step is not None))
        return step

    monkeypatch.setattr(fold, "prepare", noted)
    _, upkeep = upkeep_of(engine)
    calls = []
    going = True
    while going:
        before = len(summed)
        going = bool(upkeep())
        calls.append(len(summed) - before)
    folded = [name for name, some in summed if some]

    assert {0, 1} >= set(calls)
    assert len(profiles) == len(set(folded[: len(profiles)]))
    for profile in profiles:
        mark, found = marked(engine, profile)

        assert (True, found.revision) == (found.sound, mark)


def test_a_step_is_made_in_a_pause(engine, monkeypatch):
    """What is taught without one is left, and folded to the end in the next."""
    passed = iter(range(10**6))
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: 0.005 * next(passed))
    profile = new_profile(engine)
    live, upkeep = upkeep_of(engine)
    left, marks = [], []
    for message in range(4):
        teach(engine, profile, taught(message, "ham", {"w": 1}))
        live.refresh()
        left.append(upkeep())
        marks.append(marked(engine, profile)[0])
    while upkeep():
        pass
    mark, found = marked(engine, profile)

    assert [scheduler.FOLLOW_SECONDS] * 4 == left
    assert [0] * 4 == marks
    assert (True, 4) == (found.sound, mark)
