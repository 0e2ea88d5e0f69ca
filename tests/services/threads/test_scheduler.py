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

    scheduler = Scheduler(broken)
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

    scheduler = Scheduler(away)
    scheduler.start()
    back.wait(PATIENCE)
    scheduler.stop()

    assert [
        ("WARNING", "maintenance is waiting for the database: is full"),
        ("ERROR", "maintenance is waiting for the database: is broken"),
        ("INFO", "the database is back"),
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

    scheduler = Scheduler(step)
    scheduler.start()
    finished = done.wait(PATIENCE)
    scheduler.stop()

    assert finished


def test_under_feedback_that_never_pauses_there_is_a_step_per_interval(monkeypatch):
    """Busy or not, the house is kept."""
    monkeypatch.setattr(module, "INTERVAL", 0.05)
    stepped = threading.Semaphore(0)

    def step():
        stepped.release()
        return True

    scheduler = Scheduler(step, idle=lambda: 0.0)
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

    scheduler = Scheduler(step, idle=lambda: 0.0)
    scheduler.start()
    again = [stepped.acquire(timeout=PATIENCE) for _ in range(3)]
    scheduler.stop()

    assert [True] * 3 == again
