"""Work of a verdict and of a feedback, counted instead of timed.

A clock says little on a busy machine.  The calls of functions are the same on every
machine, and a loop in Python over the words of a message shows in them at once.  The
work inside the kernels is bounded by their arrays, and `benchmarks` times it.
"""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc

import pytest

from app.access.lists import Identities
from app.mail.parse import parse
from tests.support.application import running, teach
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam

LESSONS = 40
# What was counted when the bound was set, and up to a tenth more.
CALLS_OF_A_VERDICT = 1_200
CALLS_OF_A_FEEDBACK = 1_660
MORE = 1.05
"""Times the calls that another message may take: which reasons there are moves a few."""
BYTES_PER_BYTE = 14
"""Of memory at the peak, for each byte of a long message."""


def message(words, number=0, of="word"):
    """Return a message of so many different words."""
    text = " ".join(f"{of}{n:05}" for n in range(words))
    return (
        "From: Ann <ann@example.org>\nTo: bob@example.com\nSubject: The meeting\n"
        f"Date: Mon, 2 Mar 2026 10:00:00 +0000\n\n{text} number{number}\n"
    ).encode()


@pytest.fixture
def app(tmp_path):
    """A service that has learned some messages of both sides."""
    with running(database_url=sqlite_url(tmp_path)) as app:
        for number in range(LESSONS):
            teach(app, spam(number), "spam")
            teach(app, ham(number), "ham")
        yield app


def calls(work):
    """Return how many functions, of Python and of C, this thread calls in some work."""
    counted = 0

    def count(_frame, event, _argument):
        nonlocal counted
        counted += event in {"call", "c_call"}

    before = sys.getprofile()
    # What the collector calls is none of the work.  It need not run before either: late
    # in a long run, that took a minute of CPU time for the tests of this file.
    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return counted


def calls_of_a_verdict(app, raw):
    """Return the calls of a verdict with ten reasons of each side.

    The fewest of some: the first one compiles or adds rows that wait, and any may come
    when the upkeep has just changed something.
    """
    return min(
        calls(lambda: app.classify("default", raw, strongest=10)) for _ in range(5)
    )


def teach_words(app, words, of="word"):
    """Teach so many words as ham, and the same with another as spam."""
    teach(app, message(words, number=1, of=of), "ham")
    teach(app, message(words, number=2, of=of), "spam")


def test_a_verdict_takes_few_calls(app):
    """From the bytes of a message to the verdict with its reasons."""
    teach_words(app, 200)

    assert calls_of_a_verdict(app, message(300)) <= CALLS_OF_A_VERDICT


def test_the_calls_of_a_verdict_do_not_grow_with_the_message(app):
    """A message of twenty times as many words takes as many calls."""
    teach_words(app, 200)
    few = calls_of_a_verdict(app, message(300))

    assert calls_of_a_verdict(app, message(6_000)) <= MORE * few


def test_the_calls_of_a_verdict_do_not_grow_with_the_vocabulary(app):
    """A filter that knows forty times as many words takes as many calls."""
    raw = message(300)
    teach_words(app, 200)
    before = calls_of_a_verdict(app, raw)
    teach_words(app, 8_000, of="other")

    assert calls_of_a_verdict(app, raw) <= MORE * before


def test_the_memory_of_a_verdict_is_bounded_by_the_message(app):
    """At its peak, with everything that is made on the way."""
    raw = message(100_000)
    app.classify("default", raw, strongest=10)
    tracemalloc.start()
    try:
        app.classify("default", raw, strongest=10)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak <= BYTES_PER_BYTE * len(raw)


def test_a_look_up_in_lists_reads_the_beginning_of_a_list_id():
    """To decode the labels of a long one takes longer than the verdict."""
    short, long = (
        parse(f"List-Id: {'xn--a.' * labels}\n\nhi".encode()) for labels in (400, 1600)
    )

    bound = MORE * calls(lambda: Identities.of(short))

    assert calls(lambda: Identities.of(long)) <= bound


def test_a_feedback_takes_few_calls(tmp_path):
    """In the thread that asks and in the writer, until the row is learned."""
    totals = []
    counted = 0
    counting = False

    def count(_frame, event, _argument):
        nonlocal counted
        writes = threading.current_thread().name == "writer"
        counted += counting and writes and event in {"call", "c_call"}

    before = threading.getprofile()
    threading.setprofile(count)
    try:
        with running(database_url=sqlite_url(tmp_path)) as app:
            for number in range(LESSONS):
                teach(app, spam(number), "spam")
                teach(app, ham(number), "ham")
            live = app.live.get("default")
            # The first of its size makes the tables grow.
            teach(app, message(300), "ham")
            # The fewest of some: how often the writer waits is not the same each time.
            for number in range(1, 13):
                raw = message(300, number=number)
                # To ask for the revision waits until the counts have learned: before
                # the garbage collector, whose finalizers are calls of the writer too,
                # goes on.
                counted, counting = 0, live.revision > 0
                own = calls(lambda raw=raw: (teach(app, raw, "ham"), live.revision))
                counting = False
                totals.append(own + counted)
            learned = live.revision
    finally:
        threading.setprofile(before)

    assert 2 * LESSONS + 13 == learned
    assert min(totals) <= CALLS_OF_A_FEEDBACK
