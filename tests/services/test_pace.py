"""How long a step of a fold may be: short beside feedback, longer in a pause."""

from __future__ import annotations

import pytest

from app.services import pace
from app.services.pace import (
    BURST,
    LONGER,
    LONGEST,
    PAUSE,
    SHARE,
    SHORTEST,
    Pace,
)


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test moves."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(pace.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def taught(clock):
    """Return the pace of a profile that was taught its tenth message just now."""
    made = Pace()
    made.seconds(10, folded=0)
    return made


def test_feedback_without_a_pause_is_left_for_one(clock, taught):
    """Each row comes before the last is a pause old."""
    asked = []
    for row in range(11, 60):
        clock.now += PAUSE / 2
        asked.append(taught.seconds(row, folded=0))

    assert {0.0} == set(asked)


def test_a_pause_of_any_process_s_feedback_is_one(clock, taught):
    """What it is told by is the revision, not who was taught."""
    clock.now += 2 * PAUSE

    assert SHORTEST == taught.seconds(10, folded=0)
    assert 0.0 == taught.seconds(11, folded=0)


def test_the_longer_the_pause_the_longer_the_step(clock, taught):
    """By a share of it, so that who ends it waits for no more than that."""
    steps = []
    for _ in range(8):
        clock.now += 1.0
        steps.append(taught.seconds(10, folded=0))

    assert pytest.approx([SHARE * n for n in range(1, 6)] + [LONGEST] * 3) == steps


def test_feedback_that_never_pauses_is_folded_beside_it_after_a_burst(clock, taught):
    """In long steps, and the longer the further behind the counts are."""
    asked = []
    for row in range(11, 5 * BURST + 1):
        clock.now += PAUSE / 2
        asked.append(taught.seconds(row, folded=0))
    within = BURST - 10

    assert {0.0} == set(asked[:within])
    assert pytest.approx(LONGEST, rel=1e-3) == asked[within]
    assert pytest.approx(2 * LONGEST) == asked[within + BURST - 1]
    assert sorted(asked) == asked
    assert LONGER * LONGEST == asked[-1]


def test_a_backlog_is_no_reason_to_keep_a_person_waiting(clock, taught):
    """In a pause the steps are as long as they get there, from the first on."""
    clock.now += 2 * PAUSE

    assert LONGEST == taught.seconds(10, folded=10 - 9 * BURST)
