"""The folder that several workers count into."""

from __future__ import annotations

import fcntl
import os
import tempfile
from functools import partial
from pathlib import Path

import pytest

from app.doors.cli.serve import counting
from app.doors.service import create
from app.services.metrics import SHARED, Tally
from tests.support import command

# A service that is killed.
KILLED = """
import os, signal, tempfile
from app.doors.cli.serve import counting
tempfile.tempdir = None
with counting(2):
    print(os.environ["PROMETHEUS_MULTIPROC_DIR"], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files that is empty, here and in processes."""
    monkeypatch.delenv(SHARED, raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def killed():
    """Return the folder of a service that was killed."""
    return command.run_program(partial(exec, KILLED, {}), []).stdout.strip()


def test_the_folder_of_a_service_that_was_killed_is_removed(temporary):
    """By the next that starts, which has another, and removes that as it ends."""
    left = killed()
    before = [str(each) for each in temporary.iterdir()]
    with counting(2):
        meanwhile = [str(each) for each in temporary.iterdir()]
        own = os.environ[SHARED]
    after = list(temporary.iterdir())

    assert [left] == before
    assert [own] == meanwhile
    assert left != own
    assert [] == after


def test_the_folder_of_a_service_that_runs_is_left():
    """Two of them have two."""
    with counting(2):
        first = Path(os.environ.pop(SHARED))
        with counting(2):
            second = Path(os.environ[SHARED])
            there = first.is_dir(), second.is_dir()
        os.environ[SHARED] = str(first)

    assert (True, True) == there


def test_the_folder_of_a_service_is_none_for_those_who_clean_up():
    """They lock a folder before they delete old files in it, and skip it otherwise."""
    with counting(2):
        folder = os.open(os.environ[SHARED], os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(folder)


def test_what_is_of_nobody_who_is_known_to_be_dead_is_left(temporary, monkeypatch):
    """Without the lock, or of another user: it may be anything."""
    without = temporary / "postbayes-metrics-other"
    without.mkdir()
    left = killed()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with counting(2):
        there = without.is_dir(), Path(left).is_dir()

    assert (True, True) == there


def test_one_process_and_a_folder_that_is_given_need_none(temporary, monkeypatch):
    """What an operator has set stays as it is."""
    with counting(1):
        assert SHARED not in os.environ
    monkeypatch.setenv(SHARED, "/somewhere")
    with counting(2):
        assert "/somewhere" == os.environ[SHARED]

    assert [] == list(temporary.iterdir())


def test_a_worker_that_cannot_start_leaves_no_counters(temporary, monkeypatch, caplog):
    """It is started again and again, and all files are read whenever a monitor asks."""
    monkeypatch.setenv(SHARED, str(temporary))
    monkeypatch.setenv("POSTBAYES_WORKERS", "2")
    monkeypatch.setenv("POSTBAYES_DATABASE_URL", f"sqlite:///{temporary}")
    with pytest.raises(SystemExit) as ended:
        create()

    assert 1 == ended.value.code
    assert "this worker cannot start: " in caplog.text
    assert [] == list(temporary.iterdir())


def test_a_worker_counts_although_somebody_has_removed_the_folder(
    temporary, monkeypatch
):
    """It takes the place of one that has died; the others count into their files."""
    monkeypatch.setenv(SHARED, str(temporary / "removed"))
    Tally()

    assert 3 == len(list(temporary.glob("removed/*.db")))


def test_a_worker_whose_counters_have_no_room_says_so(temporary, monkeypatch, caplog):
    """As any other that cannot start."""
    (temporary / "file").touch()
    monkeypatch.setenv(SHARED, str(temporary / "file"))
    monkeypatch.setenv("POSTBAYES_WORKERS", "2")
    monkeypatch.setenv("POSTBAYES_DATABASE_URL", f"sqlite:///{temporary}/some.db")
    with pytest.raises(SystemExit):
        create()

    assert "for the counters of a worker cannot be written: File exists" in caplog.text
