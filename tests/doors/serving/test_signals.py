"""A signal that ends the process is heard by those who have asked, and by the usual."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from app.doors.serving.process import handling_signals


@pytest.fixture
def usual():
    """What the usual handler of SIGTERM was called with."""
    calls = []
    before = signal.signal(signal.SIGTERM, lambda number, _: calls.append(number))
    yield calls
    signal.signal(signal.SIGTERM, before)


def test_both_hear_a_signal(usual):
    """Nobody takes it from the other."""

    async def run():
        told = asyncio.Event()
        with handling_signals(told.set):
            os.kill(os.getpid(), signal.SIGTERM)
            await told.wait()

    asyncio.run(run())

    assert [signal.SIGTERM] == usual


def test_the_usual_handler_is_back_afterwards(usual):
    """It alone hears the next one."""
    told = []

    async def run():
        with handling_signals(lambda: told.append(True)):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    asyncio.run(run())

    assert ([signal.SIGTERM], []) == (usual, told)


def test_what_the_system_does_stays():
    """Without a handler the process ends, so that must not be heard by anybody."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)

    async def run():
        with handling_signals(lambda: None):
            return signal.getsignal(signal.SIGTERM)

    try:
        inside = asyncio.run(run())
    finally:
        signal.signal(signal.SIGTERM, before)

    assert signal.SIG_DFL == inside


def test_another_thread_has_no_signals(usual):
    """A loop there runs, and ends by other means."""
    inside = []

    async def run():
        with handling_signals(lambda: None):
            inside.append(signal.getsignal(signal.SIGTERM))

    handler = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    thread.join()

    assert [handler] == inside
    assert [] == usual
