"""Writing step by step: whoever else wants to write can, after each."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from app.errors import UnknownProfile
from app.storage import profiles, turn
from app.storage.engine import reading, writing
from app.storage.turn import Turn, brief
from tests.clock import Clock
from tests.storage.builders import MARCH, new_profile


@pytest.fixture
def clock(monkeypatch):
    """The clock of those who write step by step."""
    clock = Clock()
    monkeypatch.setattr(turn, "time", clock)
    return clock


def create(connection, name):
    """Write a profile of some name."""
    profiles.create(
        connection,
        name=name,
        labels=("ham", "spam"),
        spam_labels=("spam",),
        feature_set=1,
        created_at=MARCH,
    )


@pytest.mark.parametrize(
    ("held", "pause"),
    [(0.0, 0.005), (0.001, 0.005), (0.03, 0.015), (0.06, 0.03), (1.0, 0.1)],
)
def test_others_have_half_as_long_as_a_step_took(engine, clock, held, pause):
    """But what a thread needs to wake up, and what SQLite sleeps at most."""
    with brief(engine):
        clock.now += held

    assert [pause] == clock.pauses


def test_what_a_step_does_is_stored(engine):
    """As with any transaction that writes."""
    with brief(engine) as connection:
        create(connection, "one")
    with Turn(engine).writing() as connection:
        create(connection, "two")
    with reading(engine) as connection:
        names = [row.name for row in profiles.list_all(connection)]

    assert ["one", "two"] == names


def test_a_step_begins_when_it_has_the_lock_and_ends_with_its_commit(
    engine, clock, monkeypatch
):
    """Who has waited for others for long owes them no long pause."""

    @contextmanager
    def slow(engine):
        clock.now += 3
        with writing(engine) as connection:
            yield connection
        clock.now += 0.02

    monkeypatch.setattr(turn, "writing", slow)
    mine = Turn(engine)
    with mine.writing():
        clock.now += 0.04
    held = mine.held
    mine.pause()

    assert 0.06 == pytest.approx(held)
    assert [0.03] == clock.pauses


def test_what_was_done_since_a_step_is_part_of_the_pause(engine, clock):
    """The lock was free meanwhile; whoever did enough does not pause at all."""
    mine = Turn(engine)
    with mine.writing():
        clock.now += 0.06
    clock.now += 0.01
    mine.pause()
    with mine.writing():
        clock.now += 0.06
    clock.now += 0.04
    mine.pause()

    assert [0.02] == clock.pauses


def test_others_write_in_the_pause(engine, clock, monkeypatch):
    """The lock is free then, of the database and among the threads of a process."""

    def write(seconds):
        new_profile(engine)
        clock.pauses.append(seconds)

    monkeypatch.setattr(clock, "sleep", write)
    with brief(engine) as connection:
        create(connection, "one")

    assert [0.005] == pytest.approx(clock.pauses)


def test_a_step_that_fails_is_told_at_once(engine, clock):
    """It stores nothing, and nobody goes on after it."""

    def fail():
        with brief(engine) as connection:
            create(connection, "one")
            profiles.find(connection, "none")

    with pytest.raises(UnknownProfile):
        fail()
    with reading(engine) as connection:
        assert [] == profiles.list_all(connection)
    assert [] == clock.pauses
