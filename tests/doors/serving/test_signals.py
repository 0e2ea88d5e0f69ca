"""A signal that ends the process is heard by those who have asked, and by the usual."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from app.doors.serving import process
from app.doors.serving.process import (
    ending_at_once,
    handling_signals,
    reloading,
    remember_reload,
)


@pytest.fixture
def usual():
    """What the usual handler of SIGTERM was called with."""
    calls = []
    before = signal.signal(signal.SIGTERM, lambda number, _: calls.append(number))
    yield calls
    signal.signal(signal.SIGTERM, before)


def test_both_hear_a_signal(usual):
    """Neither handler hides the signal from the other."""

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


def test_process_1_of_a_container_ends_too(usual, monkeypatch):
    """Linux discards a signal that would end it, unless it handles the signal."""
    codes = []
    monkeypatch.setattr(process.signal, "raise_signal", lambda _: None)
    monkeypatch.setattr(process.os, "_exit", codes.append)
    with ending_at_once():
        os.kill(os.getpid(), signal.SIGTERM)

    assert ([143], []) == (codes, usual)


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


@pytest.fixture
def hang_up():
    """Whatever handles SIGHUP, as it was before."""
    before = signal.getsignal(signal.SIGHUP)
    yield lambda: os.kill(os.getpid(), signal.SIGHUP)
    signal.signal(signal.SIGHUP, before)


def test_each_reload_is_done_and_a_defect_of_one_ends_nothing(hang_up, caplog):
    """In a thread, one after the other; the service goes on."""
    done = []

    async def run():
        loop, more = asyncio.get_running_loop(), asyncio.Event()

        def reload():
            done.append(threading.current_thread() is threading.main_thread())
            loop.call_soon_threadsafe(more.set)
            if len(done) == 1:
                raise MemoryError

        async with reloading(reload):
            for _ in range(2):
                hang_up()
                await more.wait()
                more.clear()

    asyncio.run(run())

    assert [False, False] == done
    assert 1 == caplog.text.count("the old ones still apply")


def test_a_reload_that_comes_too_early_is_done_later(hang_up):
    """A service that starts does not end by it."""
    done = []

    async def run():
        loop, more = asyncio.get_running_loop(), asyncio.Event()

        def reload():
            done.append(True)
            loop.call_soon_threadsafe(more.set)

        async with reloading(reload):
            await more.wait()

    remember_reload()
    hang_up()
    asyncio.run(run())

    assert [True] == done
