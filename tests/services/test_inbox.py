"""Jobs wait for a thread, are taken together, and none is lost at the end."""

from __future__ import annotations

import threading
from queue import Empty

import pytest

from app.errors import DatabaseUnavailable
from app.services.queue import Inbox


def test_all_that_waits_is_taken_at_once():
    """In the order of its arrival, and no more than was asked for."""
    inbox = Inbox()
    for n in range(5):
        inbox.put(n)

    assert [0, 1, 2] == inbox.take(3)
    assert [3, 4] == inbox.take(3)


def test_what_was_put_before_the_end_is_given_out():
    """Then there is nothing any more, however often it is asked for."""
    inbox = Inbox()
    inbox.put("last")
    inbox.close()
    inbox.close()

    assert [["last"], [], []] == [inbox.take(9) for _ in range(3)]
    with pytest.raises(DatabaseUnavailable, match="stopping"):
        inbox.put("too late")


def test_a_thread_that_waits_is_told_of_the_end():
    """It does not wait for ever."""
    inbox, found = Inbox(), []
    thread = threading.Thread(target=lambda: found.append(inbox.take(1)))
    thread.start()
    inbox.close()
    thread.join()

    assert [[]] == found


def test_who_does_not_want_to_wait_is_told():
    """What came meanwhile is given out; an end is an end, not a pause."""
    inbox = Inbox()
    with pytest.raises(Empty):
        inbox.take(3, within=0.001)
    inbox.put("job")
    assert ["job"] == inbox.take(3, within=30)
    inbox.close()
    assert [] == inbox.take(3, within=30)
