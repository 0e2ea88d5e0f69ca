"""Folding by hand and by the service: in steps, to the end, stopped anywhere."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import count, zip_longest

import pytest
from sqlalchemy import event

from app.services import fold as folding
from app.services.application import specify
from app.services.clock import now
from app.services.fold import Folding
from app.services.memory.cache import LiveProfiles
from app.services.threads import scheduler
from app.services.threads.scheduler import Maintenance
from app.settings import Settings
from app.storage import profiles, tables
from app.storage.database import engine as turn
from app.storage.database.dialect import dialect_of
from app.storage.database.engine import open_engine, reading, writing
from app.storage.fold import fold
from app.storage.fold.state import folded_revision
from app.storage.upkeep.audit import audit
from tests.support.builders import new_profile, taught, teach
from tests.support.command import forked


def fold_until_killed(url, name, last):
    """Fold in batches of one row and parts of one feature, and die at a statement."""
    folding.MOST_BY_HAND = 1
    folding.BY_HAND = 1e-9
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
            taught(n, ("ham", "spam")[n % 2], {f"w{n % 7}": 1, f"x{n}": 2}, {"size": n})
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
def small(engine, monkeypatch):
    """Make each step a part of a few features, however fast they are written."""
    monkeypatch.setattr(folding, "BY_HAND", 1e-9)
    monkeypatch.setattr(folding, "FEWEST", 1)
    monkeypatch.setattr(type(dialect_of(engine)), "step_seconds", 1e-9)


def test_a_batch_is_written_in_parts(engine, small):
    """Rows count once the last of their features is in; at any time all is sound."""
    profile = new_profile(engine)
    burst(engine, profile, 12)
    marks = []
    finished = []
    for rows in Folding(engine).all(profile):
        mark, found = marked(engine, profile)
        finished.append(rows)
        marks.append(mark)

        assert found.sound
    assert len(marks) > 3
    assert [0] * (len(marks) - 1) + [found.revision] == marks
    assert [0] * (len(marks) - 1) + [found.revision] == finished


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test moves."""
    now = [1000.0]
    monkeypatch.setattr(folding.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def parts(monkeypatch):
    """Return the sizes of the parts that are written; a feature takes 1 ms."""
    sizes = []
    write = fold.write

    def timed(connection, profile, step, *, size):
        sizes.append(size)
        after = write(connection, profile, step, size=size)
        return replace(after, seconds=0.001 * (after.done - step.done))

    monkeypatch.setattr(fold, "write", timed)
    monkeypatch.setattr(folding, "FEWEST", 1)
    return sizes


def folded(engine):
    """Fold sixty messages in steps of 10 ms."""
    profile = new_profile(engine)
    burst(engine, profile, 60)
    made = Folding(engine)
    while made.step(profile, seconds=0.01):
        pass


def test_a_step_lasts_as_long_as_it_is_asked_to(engine, parts, monkeypatch):
    """As many features as could be written in that time before."""
    monkeypatch.setattr(folding, "SECONDS_PER_FEATURE", 0.0005)
    folded(engine)

    assert [20, 13, 11, 10] == parts[:4]
    assert {10} == set(parts[3:])


def test_what_a_transaction_takes_by_itself_makes_no_part_smaller(
    engine, parts, clock, monkeypatch
):
    """On a disk that takes a second for each, a part would be one feature."""
    monkeypatch.setattr(folding, "SECONDS_PER_FEATURE", 0.001)
    move = fold.state.move

    def slow(*given):
        clock[0] += 1.0
        move(*given)

    monkeypatch.setattr(fold.state, "move", slow)
    folded(engine)

    assert {10} == set(parts)


def test_a_part_is_never_a_handful_of_features(engine, parts, monkeypatch):
    """However slowly those before it were written."""
    monkeypatch.setattr(folding, "FEWEST", 16)
    monkeypatch.setattr(folding, "SECONDS_PER_FEATURE", 9.0)
    folded(engine)

    assert {16} == set(parts)


def test_a_batch_of_large_messages_has_few_rows(engine):
    """A thousand of the largest would be a gigabyte of memory."""
    profile = new_profile(engine)
    burst(engine, profile, 60)
    with reading(engine) as connection:
        step = fold.prepare(connection, profile, limit=1000, room=1)

    assert fold.ROWS_AT_ONCE == step.rows


def test_two_folds_write_the_parts_of_one_batch_in_turn(engine, small):
    """Whoever comes next goes on where the other stands."""
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
    burst(engine, profile, 12)
    service, by_hand = Folding(engine), Folding(engine).all(profile)
    taken = [service.step(profile, seconds=1e-9) is not None for _ in range(2)]
    given = []
    for _ in by_hand:
        taken.append(service.step(profile, seconds=1e-9) is not None)
        given.append(marked(engine, profile)[1].sound)
        clock[0] += 0.1

    assert [True, True] == taken[:2]
    assert not any(taken[2:])
    assert len(given) > 1
    assert all(given)


def test_one_process_folds_at_a_time(engine, small, clock):
    """Who sees that another does leaves the rows to it, until it is away."""
    profile = new_profile(engine)
    burst(engine, profile, 12)
    one, other = Folding(engine), Folding(engine)
    steps = []
    for turn_of in (one, other, one, one, other, other, one):
        steps.append(turn_of.step(profile, seconds=1e-9) is not None)
        clock[0] += 0.1
    clock[0] += folding.AWAY
    steps.append(one.step(profile, seconds=1e-9) is not None)

    # The second began beside the first, which leaves it the rest.
    assert [True, True, False, False, True, True, False, True] == steps
    assert marked(engine, profile)[1].sound


def test_a_step_that_another_process_took_is_not_lost(engine, monkeypatch):
    """Whoever is slower goes on where the other stands, and comes to an end."""
    profile = new_profile(engine)
    burst(engine, profile, 30)

    def overtaken(connection, profile, step, *, size):
        # A service folds a row between the two halves of each step.
        write(connection, profile, fold.prepare(connection, profile, limit=1))
        return write(connection, profile, step, size=size)

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


def test_what_is_written_in_part_is_finished_alone(engine, small):
    """And no further: what was taught since is left."""
    profile = new_profile(engine)
    burst(engine, profile, 6)
    next(Folding(engine).all(profile))
    teach(engine, profile, taught("later", "ham", {"w": 1}))
    Folding(engine).finish(profile)
    mark, found = marked(engine, profile)

    assert (True, found.revision - 1) == (found.sound, mark)


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
    live = LiveProfiles(engine, specify(Settings(_env_file=None)))
    upkeep = Maintenance(
        engine,
        live,
        None,
        scored_days=1,
        scored_rows=1,
        scored_bytes=10**6,
        history_days=30,
        history_rows=1000,
        vector_days=0,
        clock=now,
    )
    return live, upkeep


def test_a_service_catches_up(engine, monkeypatch):
    """Beside feedback that never pauses too, and the sooner the more is left."""
    monkeypatch.setattr(scheduler, "BURST", 300)
    monkeypatch.setattr(scheduler, "PAUSE", 10**6)
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


def counted(monkeypatch):
    """Return the profiles whose rows are summed, as they are."""
    summed = []
    prepare = fold.prepare

    def noted(connection, profile, *, limit):
        step = prepare(connection, profile, limit=limit)
        summed.extend([profile.name] * (step is not None))
        return step

    monkeypatch.setattr(fold, "prepare", noted)
    return summed


def test_one_batch_is_in_memory_however_many_profiles_are_folded(
    engine, small, monkeypatch
):
    """It is written to its end before the next is summed."""
    profiles = [new_profile(engine) for _ in range(3)]
    for profile in profiles:
        burst(engine, profile, 6)
    summed = counted(monkeypatch)
    _, upkeep = upkeep_of(engine)
    while upkeep():
        pass

    assert sorted(profile.name for profile in profiles) == sorted(summed)
    for profile in profiles:
        mark, found = marked(engine, profile)

        assert (True, found.revision) == (found.sound, mark)


def test_a_batch_is_let_go_where_its_profile_is_taught_and_another_waits(
    engine, small, monkeypatch
):
    """The other is folded, and then the first goes on where it was."""
    clock = [1000.0]
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: clock[0])
    one, other = new_profile(engine), new_profile(engine)
    burst(engine, one, 6)
    live, upkeep = upkeep_of(engine)
    live.refresh()
    upkeep()
    clock[0] += 1
    upkeep()
    burst(engine, other, 6)
    live.refresh()
    upkeep()
    clock[0] += 1
    teach(engine, one, taught("more", "ham", {"w": 1}))
    live.refresh()
    summed = counted(monkeypatch)
    upkeep()
    while marked(engine, other)[0] == 0:
        upkeep()
    during = list(summed)
    clock[0] += 1
    while upkeep():
        pass
    mark, found = marked(engine, one)

    assert [other.name] == during
    assert one.name == summed[1]
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
