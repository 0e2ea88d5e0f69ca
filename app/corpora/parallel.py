"""Parallel reading: other processes or machines read mail ahead.

Contract of this file: results come in the order of the requests, and the number and
size of waiting messages are bounded.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
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
"""Least number of parts read ahead of the caller."""
# Retries of a failed part, perhaps on another machine, because a store may be slow.
_RETRIES: Final = 2
CHUNK: Final = 64
"""Messages in a chunk: passing one on takes as long as reading one message."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a chunk without its last message."""


class Readers(NamedTuple):
    """Other processes that read mail.

    Parameters
    ----------
    executor : Executor
        Runs them.
    workers : callable
        Returns their number, which varies in a cluster.
    """

    executor: Executor
    workers: Callable[[], int]


@contextmanager
def cluster(address: str) -> Iterator[Readers]:
    """Give the workers of a Dask cluster, which must have this version installed.

    If a worker is lost, Dask reads its part again.  Workers write nothing, and the
    caller uses each part once, so reading a part twice is harmless.

    Parameters
    ----------
    address : str
        The address of its scheduler, such as ``tcp://10.0.0.5:8786``.

    Raises
    ------
    InvalidSetting
        If Dask is not installed, or the address is invalid.
    ClusterUnavailable
        If the cluster does not answer, or has lost a part repeatedly.
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
    """Give an executor with some processes; None for one, because the caller reads.

    Call this before starting threads or opening a database: on Linux the processes are
    forks of this one, with everything that it has imported.

    Raises
    ------
    OSError
        If the operating system has killed one of the processes.
    """
    if processes < 2:  # noqa: PLR2004
        yield None
        return
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    crew = ProcessPoolExecutor(processes, context, initializer=follow_parent)
    try:
        # The first task starts all processes.
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
    """Make this process end together with its parent, not earlier.

    The parent handles Ctrl-C, which reaches the whole group.  If it were killed, the
    executor's processes would wait for their next task for ever.
    """
    signal(SIGINT, SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(
            target=_end_after, args=(parent.sentinel,), daemon=True
        ).start()


def _end_after(parent: int) -> None:
    """End this process when another has ended."""
    wait([parent])
    os._exit(1)


def in_order(
    readers: Readers | None, read: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Yield the results of a function for each item, in order.

    Parameters
    ----------
    readers : Readers or None
        Call the function, two items ahead for each worker; None means the caller does
        so on demand.
    read : callable
        The function, which other processes must be able to import.
    items : iterable
        Its arguments.
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
    executor: Executor, read: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Future[Result]]:
    """Yield the messages of each item, and finally the error of a missing one."""
    try:
        for item in items:
            yield executor.submit(read, item)
    # The messages before it come first.
    except Exception as error:  # noqa: BLE001
        failed: Future[Result] = Future()
        failed.set_exception(error)
        yield failed


def chunks(
    messages: Iterable[Item], size: Callable[[Item], int], *, most: int = CHUNK
) -> Iterator[list[Item]]:
    """Yield messages in chunks.

    Parameters
    ----------
    messages : iterable
        The messages.
    size : callable
        Returns the size of one.  Unit: bytes.
    most : int, default `CHUNK`
        Most messages of a chunk.

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
