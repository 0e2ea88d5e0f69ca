"""Messages that other processes read come in their order, whatever happens."""

from __future__ import annotations

import os
import signal
import time
from itertools import count
from multiprocessing import Pipe, get_context
from pathlib import Path

import pytest

from app.corpora import parallel
from app.corpora.parallel import chunks, in_order, readers
from app.errors import MissingLabel
from tests.support.command import PATIENCE


def squared(number):
    """Return a square, the pid that computed it, or an end without one."""
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number, os.getpid()


@pytest.mark.parametrize("processes", [1, 2])
def test_results_are_in_the_order_of_what_was_asked(processes):
    """The order does not depend on the readers; with one process, the caller reads."""
    with readers(processes) as executor:
        results, by = zip(*in_order(executor, squared, range(50)), strict=True)

    assert [number * number for number in range(50)] == list(results)
    assert (os.getpid() in by) == (processes == 1)


def test_so_many_are_asked_for_ahead_and_no_more():
    """The number of waiting results is limited, however slow the caller is."""
    asked = count()
    with readers(2) as executor:
        results = in_order(executor, squared, asked)
        next(results)
        ahead = next(asked)

    assert parallel.AHEAD + 1 == ahead


def test_what_was_there_before_an_error_comes_before_it():
    """Results before an error are delivered first."""

    def broken():
        yield from range(3)
        msg = "say what it is"
        raise MissingLabel(msg)

    found = []
    with readers(2) as executor:
        results = in_order(executor, squared, broken())
        found += [next(results)[0] for _ in range(3)]
        with pytest.raises(MissingLabel, match="what it is"):
            next(results)

    assert [0, 1, 4] == found


def test_a_process_that_is_killed_is_told_in_a_sentence():
    """The system kills processes if memory is short."""
    with (
        pytest.raises(OSError, match="perhaps for lack of memory"),
        readers(2) as executor,
    ):
        list(in_order(executor, squared, [1, -1, 2]))


def test_without_locks_of_the_system_it_is_told_what_helps(monkeypatch):
    """A container or a unit may withhold /dev/shm."""

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(parallel, "ProcessPoolExecutor", refused)

    with pytest.raises(OSError, match=r"Permission denied.*--processes 1"), readers(2):
        pass


def test_a_chunk_ends_by_number_or_by_size(monkeypatch):
    """A message larger than a chunk is one of its own."""
    monkeypatch.setattr(parallel, "CHUNK_BYTES", 10)

    assert [[b"12345", b"67890"], [b"x" * 20], [b"1", b"2", b"3"], [b"4"]] == list(
        chunks([b"12345", b"67890", b"x" * 20, b"1", b"2", b"3", b"4"], len, most=3)
    )


def kept_waiting(pids):
    """Start two processes, tell who they are, and wait to be killed."""
    with readers(2) as executor:
        by = {by for _, by in in_order(executor, squared, range(200))}
        pids.send(by)
        signal.pause()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_the_one_that_started_them(number):
    """Orphaned readers would wait forever for the next message."""
    here, there = Pipe()
    # Not one of this process: it has threads.
    parent = get_context("spawn").Process(target=kept_waiting, args=(there,))
    parent.start()
    # If it fails, there is no other end left, and nothing to wait for.
    there.close()
    started = here.recv()
    os.kill(parent.pid, number)
    parent.join()
    deadline = time.monotonic() + PATIENCE
    while any(map(runs, started)):
        assert time.monotonic() < deadline, started
        time.sleep(0.01)


def runs(pid):
    """Return whether there is a process of that number that has not ended."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
