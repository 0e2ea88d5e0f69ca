"""Parallel work: other processes or machines read mail ahead, or carry out tasks.

Contract of this file: what is read comes in the order of the requests, and the number
and size of waiting messages are bounded.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import connection, get_context, parent_process
from signal import SIG_IGN, SIGINT, signal
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from app.errors import ClusterUnavailable, InvalidSetting, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
        raise InvalidSetting(
            "--dask needs Dask: run pip install '.[cluster]' in the folder of the "
            "source"
        ) from error
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
            raise ClusterUnavailable(
                "several workers of the cluster died while reading one part, "
                "perhaps for lack of memory; see their logs, and run the same "
                "command again"
            ) from error
        except CancelledError as error:
            msg = f"the cluster at {address} was lost; run the same command again"
            raise ClusterUnavailable(msg) from error


@contextmanager
def readers(processes: int | None = None) -> Iterator[Readers | None]:
    """Give an executor with some processes; None for one, because the caller reads.

    By default it has a process for each core that this one may use.

    Call this before starting threads or opening a database: on Linux the processes are
    forks of this one, with everything that it has imported.

    Raises
    ------
    OSError
        If the operating system starts no process, or has killed one.
    """
    if processes is None:
        processes = len(os.sched_getaffinity(0))
    if processes < 2:  # noqa: PLR2004
        yield None
        return
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    try:
        crew = ProcessPoolExecutor(processes, context, initializer=follow_parent)
    except OSError as error:
        # Their locks are in /dev/shm, which a container or a unit may withhold.
        raise OSError(
            f"no other process can be started ({reason(error)}); try again with "
            "--processes 1"
        ) from error
    try:
        # The first task starts all processes.
        crew.submit(int).result()
        yield Readers(crew, lambda: processes)
    except BrokenProcessPool as error:
        raise OSError(
            "a process of this command died, perhaps for lack of memory; try again "
            "with --processes 1"
        ) from error
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
    connection.wait([parent])
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
    size : callable
        Returns the size of one.  Unit: bytes.

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


T = TypeVar("T")
# Interval of progress reports.  Unit: seconds.
_EVERY: Final = 0.2


Task = Callable[[Callable[[], object]], T]
"""Work for another process; it calls `tick` after each message."""


class _Stopped(Exception):
    """Raised in a worker whose result is no longer needed."""


def carry_out(
    tasks: Sequence[Task[T]],
    readers: Readers | None,
    *,
    advance: Callable[[int], object],
) -> Iterator[T]:
    """Carry out all tasks, and yield each result as soon as it is ready.

    Parameters
    ----------
    tasks : sequence of Task
        The work; it is pickled for other processes.
    readers : Readers or None
        Do the work; with None or one task, the caller does it.
    advance : callable
        Gets, at intervals, the number of messages since the last call.
    """
    if readers is None or len(tasks) < 2:  # noqa: PLR2004
        yield from (task(partial(advance, 1)) for task in tasks)
        return
    with NamedTemporaryFile(prefix="postbayes-") as file:
        # Trap: no locks. A process that is killed while it holds one blocks all
        # others for ever. Each task counts in its own place, the last place is set
        # when the results are no longer needed, and writing an integer is atomic.
        shared = np.memmap(file.name, np.int64, "w+", shape=len(tasks) + 1)
        reported = 0
        waiting = {
            readers.executor.submit(_call, file.name, place, task)
            for place, task in enumerate(tasks)
        }
        try:
            while waiting:
                finished, waiting = wait(
                    waiting, timeout=_EVERY, return_when=FIRST_COMPLETED
                )
                now = int(shared[:-1].sum())
                advance(now - reported)
                reported = now
                for future in finished:
                    yield future.result()
        finally:
            shared[-1] = 1


def _call(file: str, place: int, task: Task[T]) -> T:
    shared = np.memmap(file, np.int64, "r+")

    def tick() -> None:
        if shared[-1]:
            raise _Stopped
        shared[place] += 1

    return task(tick)
