"""Parallel reading: messages read by other processes while this one goes on.

Contract of this file: results come in the order of what was asked, whoever was faster,
and what waits is bounded in messages and in bytes.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from signal import SIG_IGN, SIGINT, signal
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Item = TypeVar("Item")
    Result = TypeVar("Result")

AHEAD: Final = 4
"""Chunks that are read ahead of the one that the caller works on."""
CHUNK: Final = 64
"""Messages of a chunk: to hand one over takes as long as to read one message."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a chunk, but for its last message."""


@contextmanager
def readers(processes: int) -> Iterator[Executor | None]:
    """Give an executor with some processes; None for one, where the caller reads.

    To be called before there are threads, and before a database is open: on Linux the
    processes are copies of this one, which have all that it has imported.

    Raises
    ------
    OSError
        If the system has killed one of the processes.
    """
    if processes < 2:  # noqa: PLR2004
        yield None
        return
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    crew = ProcessPoolExecutor(processes, context, initializer=follow_parent)
    try:
        # The first task starts all of them.
        crew.submit(int).result()
        yield crew
    except BrokenProcessPool as error:
        msg = (
            "it ended one of the processes that read mail, perhaps for want of "
            "memory; try again with --processes 1"
        )
        raise OSError(msg) from error
    finally:
        crew.shutdown(cancel_futures=True)


def follow_parent() -> None:
    """Have this process end with the one that started it, and not before.

    That one decides on Ctrl-C, which reaches the whole group.  Where it is killed,
    the executor's processes would wait for their next task for ever.
    """
    signal(SIGINT, SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(
            target=_end_after, args=(parent.sentinel,), daemon=True
        ).start()


def _end_after(parent: int) -> None:
    """End the process when another has ended."""
    wait([parent])
    os._exit(1)


def in_order(
    executor: Executor | None,
    read: Callable[[Item], Result],
    items: Iterable[Item],
) -> Iterator[Result]:
    """Give what a function returns for each item, in their order.

    Parameters
    ----------
    executor : Executor or None
        Who calls it, some items ahead; None: the caller, when it is asked.
    read : callable
        The function; other processes have to be able to import it.
    items : iterable
        What it is called with.
    """
    if executor is None:
        yield from map(read, items)
        return
    coming = _submitted(executor, read, items)
    waiting = deque(islice(coming, AHEAD))
    while waiting:
        waiting.extend(islice(coming, 1))
        yield waiting.popleft().result()


def _submitted(
    executor: Executor,
    read: Callable[[Item], Result],
    items: Iterable[Item],
) -> Iterator[Future[Result]]:
    """Give what is read of each item, last the error of the one that was not there."""
    try:
        for item in items:
            yield executor.submit(read, item)
    # Those before it come first.
    except Exception as error:  # noqa: BLE001
        failed: Future[Result] = Future()
        failed.set_exception(error)
        yield failed


def chunks(
    messages: Iterable[Item],
    size: Callable[[Item], int],
    *,
    most: int = CHUNK,
) -> Iterator[list[Item]]:
    """Give messages some at a time.

    Parameters
    ----------
    messages : iterable
        The messages.
    size : callable
        Returns the size of one.  Unit: bytes.
    most : int, default `CHUNK`
        Messages at most.

    Examples
    --------
    >>> list(chunks([b"a", b"b", b"c"], len, most=2))
    [[b'a', b'b'], [b'c']]
    """
    chunk: list[Item] = []
    room = CHUNK_BYTES
    for message in messages:
        chunk.append(message)
        room -= size(message)
        if len(chunk) == most or room <= 0:
            yield chunk
            chunk, room = [], CHUNK_BYTES
    if chunk:
        yield chunk
