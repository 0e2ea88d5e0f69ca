"""Folding by hand and by the service: in steps, to the end, stopped anywhere."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import cycle

import pytest

from app.bootstrap import Specify, now
from app.services import folding, pace
from app.services.folding import Folding
from app.services.live import LiveProfiles
from app.services.maintenance import Upkeep
from app.settings import Settings
from app.storage import fold, turn
from app.storage.audit import audit
from app.storage.engine import reading
from app.storage.fold import folded_revision
from tests.storage.builders import new_profile, taught, teach

# Folds what it can in steps of one row, and says so after each.
ROW_BY_ROW = """
import sys
from app.services import folding
from app.storage import profiles
from app.storage.engine import open_engine, reading

folding.MOST_ROWS = 1
engine = open_engine(sys.argv[1])
with reading(engine) as connection:
    profile = profiles.find(connection, sys.argv[2])
for rows in folding.Folding(engine).all(profile):
    print(rows, flush=True)
"""


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
def asked(monkeypatch):
    """The seconds that each step was asked to take at most."""
    taken = []
    step = Folding.step

    def noted(self, profile, *, seconds):
        taken.append(seconds)
        return step(self, profile, seconds=seconds)

    monkeypatch.setattr(Folding, "step", noted)
    return taken


def test_steps_grow_until_somebody_teaches(engine, asked, monkeypatch):
    """Who is alone takes long steps, which are cheaper, but not from the start."""
    profile, other = new_profile(engine), new_profile(engine)
    burst(engine, profile, 60)
    monkeypatch.setattr(folding, "MOST_ROWS", 10)
    steps = Folding(engine).all(profile)
    for _ in range(6):
        next(steps)
    teach(engine, other, taught(1, "ham", {"a": 1}))
    list(steps)

    assert [folding.SHORT * n for n in (1, 2, 4, 8, 16)] == asked[:5]
    assert folding.LONG == asked[5]
    assert {folding.SHORT} == set(asked[6:])


def test_a_step_that_another_process_took_is_not_lost(engine, monkeypatch):
    """Whoever is slower goes on where the other stands, and comes to an end."""
    profile = new_profile(engine)
    burst(engine, profile, 30)

    def overtaken(connection, profile, step):
        # A service folds a row between the two halves of each step.
        fold.fold(connection, profile, limit=1)
        return write(connection, profile, step)

    write = fold.write
    monkeypatch.setattr(fold, "write", overtaken)
    rows = list(Folding(engine).all(profile))
    mark, found = marked(engine, profile)

    assert (True, found.revision) == (found.sound, mark)
    assert 0 < sum(rows) < mark


@pytest.mark.parametrize("overtaken", [False, True])
def test_others_may_write_after_each_step(engine, monkeypatch, overtaken):
    """Also where others are faster, and it folds what is left in one go."""
    profile = new_profile(engine)
    burst(engine, profile, 30)
    pauses = []
    monkeypatch.setattr(turn.time, "sleep", pauses.append)
    monkeypatch.setattr(folding, "MOST_ROWS", 10)
    if overtaken:
        monkeypatch.setattr(fold, "write", lambda *_: False)
    rows = list(Folding(engine).all(profile))

    assert [10, 10, 10, 5] == rows
    assert [turn.PAUSE] * len(rows) == pauses


def test_a_fold_is_killed_at_any_moment_and_nothing_is_lost(engine, database_url):
    """With SIGKILL, between steps and within them; the next one goes on."""
    profile = new_profile(engine)
    burst(engine, profile, 24)
    pauses = cycle((0.0, 0.01, 0.02, 0.04, 0.08))
    _, found = marked(engine, profile)
    marks, last = [0], found.revision
    kills = 0
    while marks[-1] < last:
        process = subprocess.Popen(
            [sys.executable, "-c", ROW_BY_ROW, database_url, profile.name],
            stdout=subprocess.PIPE,
            text=True,
        )
        process.stdout.readline()
        time.sleep(next(pauses))
        process.kill()
        kills += process.wait() == -9
        process.stdout.close()
        mark, found = marked(engine, profile)
        marks.append(mark)

        assert found.sound
    assert sorted(marks) == marks
    assert kills > 0


def test_a_service_catches_up(engine, asked, monkeypatch):
    """In steps that are the longer the further it is behind, within bounds."""
    monkeypatch.setattr(pace, "LONGEST", 0.05)
    monkeypatch.setattr(pace, "BURST", 300)
    profile = new_profile(engine)
    for start in range(0, 2000, 500):
        burst(engine, profile, 500, start=start)
    live = LiveProfiles(engine, Specify(Settings(_env_file=None)))
    upkeep = Upkeep(
        engine, live, None, scored_days=1, scored_rows=1, vector_days=0, clock=now
    )
    steps = 0
    while upkeep():
        steps += 1
    mark, found = marked(engine, profile)

    assert (True, found.revision) == (found.sound, mark)
    assert mark > 2000
    assert steps > 1
    assert pytest.approx(pace.LONGER * 0.05) == asked[0]
    # Nobody has taught since.
    assert asked[-1] <= 0.05


def test_a_step_is_made_in_a_pause(engine, asked, monkeypatch):
    """What is taught without one is left, and folded to the end in the next."""
    passed = iter(range(10**6))
    monkeypatch.setattr(pace.time, "monotonic", lambda: 0.005 * next(passed))
    profile = new_profile(engine)
    live = LiveProfiles(engine, Specify(Settings(_env_file=None)))
    upkeep = Upkeep(
        engine, live, None, scored_days=1, scored_rows=1, vector_days=0, clock=now
    )
    left = []
    for message in range(4):
        teach(engine, profile, taught(message, "ham", {"w": 1}))
        live.refresh()
        left.append(upkeep())
    during = list(asked)
    while upkeep():
        pass
    mark, found = marked(engine, profile)

    assert [True] * 4 == left
    assert [] == during
    assert (True, 4) == (found.sound, mark)
