"""Who hears that the process is to end? The main door, and whoever asks here.

The server of the main door answers what it has begun before it ends anything else,
which may take as long as its clients do.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENDING: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask the process to end."""


@contextmanager
def heard(told: Callable[[], object]) -> Iterator[None]:
    """Have something called in the running loop when a signal comes that ends us.

    Whoever handled the signal before does so as well.
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread has signals: elsewhere nobody else ends us by them.
        yield
        return
    loop = asyncio.get_running_loop()
    usual: dict[signal.Signals, Any] = {}

    def hear(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(told)
        usual[signal.Signals(number)](number, frame)

    for number in ENDING:
        handler = signal.getsignal(number)
        # Of the system's own there is nothing to call, and it must go on ending us.
        if callable(handler):
            usual[number] = handler
            signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
