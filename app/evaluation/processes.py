"""Processes: tasks carried out in several processes, with progress and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from app.corpora.parallel import follow_parent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")
# Interval of progress reports.  Unit: seconds.
_EVERY: Final = 0.2


Task = Callable[[Callable[[], None]], T]
"""A piece of work that another process can do, calling `tick` after each message."""


class _Stopped(Exception):
    """Raised in a worker whose result nobody waits for any more."""


def carry_out(
    tasks: Sequence[Task[T]], *, processes: int, advance: Callable[[int], object]
) -> Iterator[T]:
    """Carry out all tasks, and yield each result as soon as it is there.

    Parameters
    ----------
    tasks : sequence of Task
        The work; with several processes it is pickled.
    processes : int
        Processes that work at a time.  With one, or one task, the caller works.
    advance : callable
        Gets now and then the number of messages done since the last call.

    Raises
    ------
    OSError
        If the system has killed one of the processes.
    """
    if min(processes, len(tasks)) < 2:  # noqa: PLR2004

        def tick() -> None:
            advance(1)

        yield from (task(tick) for task in tasks)
        return
    # Not fork: the bar has a thread, whose locks a fork would copy as they are.
    context = get_context("spawn")
    # Trap: no locks. A process that is killed while it holds one stops all
    # others for ever. Each task counts in a place of its own, the last place
    # is set when nobody waits any more, and integers are written in one piece.
    shared = context.RawArray("q", len(tasks) + 1)
    reported = 0
    others = set(active_children())
    crew = ProcessPoolExecutor(
        min(processes, len(tasks)),
        mp_context=context,
        initializer=_begin,
        initargs=(shared,),
    )
    waiting = {crew.submit(_call, place, task) for place, task in enumerate(tasks)}
    members = set(active_children()) - others
    try:
        while waiting:
            finished, waiting = wait(
                waiting, timeout=_EVERY, return_when=FIRST_COMPLETED
            )
            # Trap: the executor does not watch a process that it started after
            # its own thread last looked, and then waits for it for ever.
            if any(member.exitcode for member in members):
                raise BrokenProcessPool  # noqa: TRY301  as the executor does
            now = sum(shared[: len(tasks)])
            advance(now - reported)
            reported = now
            for future in finished:
                yield future.result()
    except BrokenProcessPool as error:
        msg = (
            "it ended one of the processes that evaluate, perhaps for want of "
            "memory; try again with --processes 1"
        )
        raise OSError(msg) from error
    finally:
        shared[len(tasks)] = 1
        crew.shutdown(cancel_futures=True)


# The array that the processes of a crew share; set once in each of them.
_shared: list[Any] = []


def _begin(shared: Any) -> None:
    """Set a worker up."""
    follow_parent()
    _shared[:] = [shared]


def _call(place: int, task: Task[T]) -> T:
    [shared] = _shared

    def tick() -> None:
        if shared[-1]:
            raise _Stopped
        shared[place] += 1

    return task(tick)
