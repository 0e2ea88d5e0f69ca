"""Jobs wait for a thread, are taken together, and none is lost at the end."""

from __future__ import annotations

import threading

import pytest

from app.errors import DatabaseUnavailable
from app.services.writer import JobQueue


def test_all_that_waits_is_taken_at_once():
    """In the order of its arrival, and no more than was asked for."""
    queue = JobQueue()
    for n in range(5):
        queue.put(n)

    assert [0, 1, 2] == queue.take(3)
    assert [3, 4] == queue.take(3)


def test_what_was_put_before_the_end_is_given_out():
    """Then there is nothing any more, however often it is asked for."""
    queue = JobQueue()
    queue.put("last")
    queue.close()
    queue.close()

    assert [["last"], [], []] == [queue.take(9) for _ in range(3)]
    with pytest.raises(DatabaseUnavailable, match="stopping"):
        queue.put("too late")


def test_a_thread_that_waits_is_told_of_the_end():
    """It does not wait for ever."""
    queue, found = JobQueue(), []
    thread = threading.Thread(target=lambda: found.append(queue.take(1)))
    thread.start()
    queue.close()
    thread.join()

    assert [[]] == found
