"""Work in several processes: all of it is done, and what goes wrong is told."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import pytest

from app.corpora.parallel import carry_out, readers
from app.errors import UnreadableSource


@dataclass(frozen=True)
class Square:
    """Squares a number, in as many steps."""

    number: int

    def __call__(self, tick):
        """Tell each step."""
        for _ in range(self.number):
            tick()
        return self.number**2


class Fail:
    """Cannot be done."""

    def __call__(self, _):
        """Say so."""
        msg = "no such mail"
        raise UnreadableSource(msg)


class Endless:
    """Goes on until nobody waits any more."""

    def __call__(self, tick):
        """Tell step after step."""
        while True:
            tick()
            time.sleep(0.01)


class Killed:
    """Is ended by the system."""

    def __call__(self, _):
        """End at once, without a word."""
        os._exit(9)


def carried_out(tasks, processes=2, advance=lambda _: None):
    """Return the results of all tasks."""
    with readers(processes) as crew:
        return list(carry_out(tasks, crew, advance=advance))


@pytest.mark.parametrize("processes", [1, 2])
def test_all_tasks_are_done_and_all_steps_told(processes):
    """In whatever order."""
    steps = []
    tasks = [Square(number) for number in range(5)]

    assert [0, 1, 4, 9, 16] == sorted(carried_out(tasks, processes, steps.append))
    assert 10 == sum(steps)


@pytest.mark.parametrize("processes", [1, 2])
def test_no_task_is_no_work(processes):
    """What was all kept from before."""
    assert [] == carried_out([], processes, print)


def test_an_error_ends_the_work_of_all():
    """Tasks that nobody waits for stop by themselves."""
    with pytest.raises(UnreadableSource, match="no such mail"):
        carried_out([Endless(), Fail()])


def test_a_process_that_is_ended_by_the_system_is_told():
    """With what to do about it."""
    with pytest.raises(OSError, match="--processes 1"):
        carried_out([Endless(), Killed()])
