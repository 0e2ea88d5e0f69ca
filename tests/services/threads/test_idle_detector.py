"""When a step of a fold is due: in a pause, and beside feedback after a burst."""

from __future__ import annotations

import math

import pytest

from app.services import scheduler
from app.services.scheduler import (
    BURST,
    IDLE_SECONDS,
    MOST,
    SHARE,
    STEP,
    IdleDetector,
    rest,
)


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test moves."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(scheduler.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def taught(clock):
    """Return the pace of a profile that was taught its tenth message just now."""
    made = IdleDetector()
    made.due(10, folded=0)
    return made


def test_feedback_without_a_pause_is_left_for_one(clock, taught):
    """Each row comes before the last is a pause old."""
    asked = []
    for row in range(11, 60):
        clock.now += IDLE_SECONDS / 2
        asked.append(taught.due(row, folded=0))

    assert {False} == set(asked)


def test_a_pause_of_any_process_s_feedback_is_one(clock, taught):
    """What it is told by is the revision, not who was taught."""
    clock.now += 2 * IDLE_SECONDS

    assert taught.due(10, folded=0)
    assert not taught.due(11, folded=0)


def test_feedback_that_never_pauses_is_folded_beside_it_after_a_burst(clock, taught):
    """As soon as more rows are left than one."""
    asked = []
    for row in range(11, BURST + 20):
        clock.now += IDLE_SECONDS / 2
        asked.append(taught.due(row, folded=0))

    assert [False] * (BURST - 10) == asked[: BURST - 10]
    assert {True} == set(asked[BURST - 10 :])


@pytest.mark.parametrize("left", [0, 1, BURST])
def test_within_a_burst_there_is_no_step_but_in_a_pause(left):
    """However long that takes."""
    assert math.inf == rest(left)


@pytest.mark.parametrize("bursts", [1.5, 2, 3, 50])
def test_the_further_behind_the_sooner_the_next_step(bursts):
    """By the share of the time that steps have."""
    share = min(bursts * SHARE, MOST)

    assert pytest.approx(share) == STEP / (STEP + rest(int(bursts * BURST)))
