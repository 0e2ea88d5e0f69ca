"""Parallel reading: mail is read by other processes or machines meanwhile.

Contract of this file: results come in the order of what was asked, whoever was faster,
and what waits is bounded in messages and in bytes.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from concurrent.futures import (
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from signal import SIG_IGN, SIGINT, signal
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from app.errors import ClusterUnavailable, InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Item = TypeVar("Item")
    Result = TypeVar("Result")

AHEAD: Final = 4
"""Parts at least that are read ahead of the one that the caller works on."""
# A part that failed is read again so often, elsewhere perhaps: a store may be slow.
_RETRIES: Final = 2
CHUNK: Final = 64
"""Messages of a chunk: to hand one over takes as long as to read one message."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a chunk, but for its last message."""


class Readers(NamedTuple):
    """Other processes that read mail.

    Parameters
    ----------
    executor : Executor
        Has them read.
    workers : callable
        Returns how many there are; those of a cluster come and go.
    """

    executor: Executor
    workers: Callable[[], int]


@contextmanager
def cluster(address: str) -> Iterator[Readers]:
    """Give the workers of a Dask cluster, which have to have this version installed.

    Dask reads a part again whose worker is lost.  Nothing is written there, and the
    caller takes each part once, so that parts which were read twice do no harm.

    Parameters
    ----------
    address : str
        The address of its scheduler, such as ``tcp://10.0.0.5:8786``.

    Raises
    ------
    InvalidSetting
        If Dask is not installed, or this is no address.
    ClusterUnavailable
        If the cluster does not answer, or lost a part again and again.
    """
    try:
        from distributed import Client, KilledWorker  # noqa: PLC0415  an extra
    except ImportError as error:
        msg = (
            "--dask needs Dask: run pip install '.[cluster]' in the folder of the "
            "source"
        )
        raise InvalidSetting(msg) from error
    try:
        client = Client(address, set_as_default=False)
    except ValueError as error:
        msg = f"{address!r} is not the address of a Dask scheduler: {error}"
        raise InvalidSetting(msg) from error
    except OSError as error:
        msg = f"the Dask scheduler at {address} does not answer: {error}"
        raise ClusterUnavailable(msg) from error
    with client:
        executor = client.get_executor(pure=False, retries=_RETRIES)
        try:
            yield Readers(executor, lambda: sum(client.nthreads().values()))
        except KilledWorker as error:
            msg = (
                "several workers of the cluster died while reading one part, "
                "perhaps for lack of memory; see their logs, and run the same "
                "command again"
            )
            raise ClusterUnavailable(msg) from error
        except CancelledError as error:
            msg = f"the cluster at {address} was lost; run the same command again"
            raise ClusterUnavailable(msg) from error


@contextmanager
def readers(processes: int) -> Iterator[Readers | None]:
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
        yield Readers(crew, lambda: processes)
    except BrokenProcessPool as error:
        msg = (
            "a process that read mail died, perhaps for lack of memory; try "
            "again with --processes 1"
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
    readers: Readers | None,
    read: Callable[[Item], Result],
    items: Iterable[Item],
) -> Iterator[Result]:
    """Yield the results of a function for each item, in order.

    Parameters
    ----------
    readers : Readers or None
        Who calls it, two items ahead for each worker; None: the caller, when it is
        asked.
    read : callable
        The function; other processes have to be able to import it.
    items : iterable
        What it is called with.
    """
    if readers is None:
        yield from map(read, items)
        return
    coming = _submitted(readers.executor, read, items)
    waiting: deque[Future[Result]] = deque()
    while True:
        ahead = max(AHEAD, 2 * readers.workers())
        waiting.extend(islice(coming, max(ahead + 1 - len(waiting), 0)))
        if not waiting:
            return
        yield waiting.popleft().result()


def _submitted(
    executor: Executor,
    read: Callable[[Item], Result],
    items: Iterable[Item],
) -> Iterator[Future[Result]]:
    """Yield the messages of each item, and last the error of a missing one."""
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
