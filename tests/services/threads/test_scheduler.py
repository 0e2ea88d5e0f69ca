"""The thread that keeps house: it goes on, whatever happens, until it is stopped."""

from __future__ import annotations

import threading

import pytest

from app.errors import DatabaseDamaged, DatabaseUnavailable
from app.services import scheduler as module
from app.services.scheduler import Scheduler
from tests.support.command import PATIENCE


@pytest.mark.parametrize("error", [ZeroDivisionError(), DatabaseUnavailable("away")])
def test_an_upkeep_that_fails_is_tried_again(monkeypatch, error):
    """House-keeping may break; the thread does not end of it."""
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    tried = threading.Semaphore(0)

    def broken():
        tried.release()
        raise error

    scheduler = Scheduler("maintenance", broken)
    scheduler.start()
    again = [tried.acquire(timeout=PATIENCE) for _ in range(3)]
    alive = scheduler.is_alive()
    scheduler.stop()

    assert ([True] * 3, True, False) == (again, alive, scheduler.is_alive())


def test_a_database_that_is_away_is_told_once_and_so_is_its_return(monkeypatch, caplog):
    """A night without it does not fill the log."""
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    caplog.set_level("INFO", logger="app.services.scheduler")
    back = threading.Event()
    tries = iter(
        [
            DatabaseUnavailable("is full"),
            DatabaseUnavailable("is full"),
            DatabaseUnavailable("is full"),
            DatabaseDamaged("is broken"),
            DatabaseDamaged("is broken"),
            None,
        ]
    )

    def away():
        error = next(tries, None)
        if error is None:
            back.set()
            return False
        raise error

    scheduler = Scheduler("month change", away)
    scheduler.start()
    back.wait(PATIENCE)
    scheduler.stop()

    assert [
        ("WARNING", "month change is waiting for the database: is full"),
        ("ERROR", "month change is waiting for the database: is broken"),
        ("INFO", "month change goes on: the database is back"),
    ] == [(record.levelname, record.message) for record in caplog.records]


def test_what_is_left_is_done_while_nobody_teaches(monkeypatch):
    """A step that has more to do is followed by the next without an interval."""
    monkeypatch.setattr(module, "INTERVAL", 3600)
    done = threading.Event()
    left = list(range(5))

    def step():
        left.pop()
        if not left:
            done.set()
        return bool(left)

    scheduler = Scheduler("maintenance", step, idle=lambda: 3600.0)
    scheduler.start()
    finished = done.wait(PATIENCE)
    scheduler.stop()

    assert finished


@pytest.mark.parametrize(("returned", "waited"), [(0.1, 0.1), (None, 0.5), (9.0, 0.5)])
def test_a_task_that_waits_for_no_feedback_waits_as_long_as_it_says(
    monkeypatch, returned, waited
):
    """It is not cut short by a pause of feedback, but by an interval."""
    waits = []
    monkeypatch.setattr(module.time, "monotonic", lambda: sum(waits))
    scheduler = Scheduler("site follower", lambda: returned)

    def wait(seconds):
        waits.append(seconds)
        return len(waits) == 3

    monkeypatch.setattr(scheduler._stopping, "wait", wait)  # noqa: SLF001
    scheduler.run()

    assert pytest.approx([waited] * 3) == waits


def test_a_defect_is_logged_under_the_name_of_the_thread(monkeypatch, caplog):
    """Several threads run tasks."""
    scheduler = Scheduler("month change", lambda: 1 / 0)
    monkeypatch.setattr(scheduler._stopping, "wait", lambda _: True)  # noqa: SLF001
    scheduler.run()

    assert "month change" == scheduler.name
    assert ["month change failed; scoring and feedback go on"] == caplog.messages


def test_under_feedback_that_never_pauses_there_is_a_step_per_interval(monkeypatch):
    """Busy or not, the house is kept."""
    monkeypatch.setattr(module, "INTERVAL", 0.05)
    stepped = threading.Semaphore(0)

    def step():
        stepped.release()
        return True

    scheduler = Scheduler("maintenance", step, idle=lambda: 0.0)
    scheduler.start()
    again = [stepped.acquire(timeout=PATIENCE) for _ in range(3)]
    scheduler.stop()

    assert [True] * 3 == again


def test_under_feedback_that_never_pauses_a_step_says_when_the_next_is_due(monkeypatch):
    """It does not wait for the interval."""
    monkeypatch.setattr(module, "INTERVAL", 3600)
    stepped = threading.Semaphore(0)

    def step():
        stepped.release()
        return 0.001

    scheduler = Scheduler("maintenance", step, idle=lambda: 0.0)
    scheduler.start()
    again = [stepped.acquire(timeout=PATIENCE) for _ in range(3)]
    scheduler.stop()

    assert [True] * 3 == again
