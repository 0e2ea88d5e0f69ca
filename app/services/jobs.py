"""Jobs: requests that wait for a thread, which does those of one profile together."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from app.errors import DatabaseUnavailable, ProfileReplaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.services.live import CachedProfile, LiveProfile

    Profile = LiveProfile | CachedProfile
    Successor = Callable[[Any], Profile]

# A longer queue means that the disk cannot keep up; further jobs are refused with "try
# again later".
BACKLOG: Final = 10_000
T = TypeVar("T")


class JobQueue(Generic[T]):
    """A bounded queue of jobs for one thread, which closes it when it ends."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        # Otherwise a job could be put after the last look of a thread that ends.
        self._putting = threading.Lock()

    @property
    def size(self) -> int:
        """Number of waiting jobs, plus one if the queue is closed."""
        return self._jobs.qsize()

    def put(self, job: T) -> None:
        """Add a job for the thread.

        Raises
        ------
        DatabaseUnavailable
            If too much is waiting already, or the service is stopping.
        """
        with self._putting:
            if self._closed.is_set():
                msg = "the service is stopping; send the request again in a moment"
                raise DatabaseUnavailable(msg)
            if self._jobs.qsize() > BACKLOG:
                raise DatabaseUnavailable(
                    f"{BACKLOG} requests are waiting for the database; try again later"
                )
            self._jobs.put(job)

    def take(self, most: int) -> list[T]:
        """Wait for a job; return all that wait, up to `most`.

        Empty once the queue is closed and nothing is left.
        """
        jobs: list[T] = []
        job = self._jobs.get()
        # None marks the end. It is put last and stays in the queue.
        while job is not None:
            jobs.append(job)
            if len(jobs) == most or self._jobs.empty():
                return jobs
            job = self._jobs.get()
        self._jobs.put(None)
        return jobs

    def close(self) -> None:
        """Accept no more jobs; the waiting ones are still returned."""
        with self._putting:
            if not self._closed.is_set():
                self._closed.set()
                self._jobs.put(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request to a profile, and the answer that its sender waits for."""

    profile: Profile
    answer: Future[Any] = field(default_factory=Future)
    requeued: bool = False


AnyJob = TypeVar("AnyJob", bound=Job)


class ProfileThread(threading.Thread, ABC, Generic[AnyJob]):
    """A thread that does waiting jobs, the jobs of one profile together.

    A job of a replaced profile waits for its successor.  Loading it takes as long as at
    a start, so a separate thread does it while other profiles are served.

    Parameters
    ----------
    name : str
        Name of the thread.
    successor : callable
        Loads the profile that replaced another, and returns it.
    at_once : int
        Most jobs taken together.
    """

    def __init__(self, name: str, successor: Successor, *, at_once: int) -> None:
        super().__init__(name=name, daemon=True)
        self._queue: JobQueue[AnyJob] = JobQueue()
        self._successor = successor
        self._at_once = at_once
        # Jobs that wait for a successor, by the key of the replaced profile.
        self._waiting: dict[int, list[AnyJob]] = {}
        self._replacing = threading.Lock()

    @property
    def waiting(self) -> int:
        """Number of waiting jobs."""
        return self._queue.size

    def stop(self) -> None:
        """Finish the waiting jobs, and end the thread."""
        self._queue.close()
        self.join()

    @abstractmethod
    def _do(self, profile: Any, jobs: list[AnyJob]) -> None:
        """Do and answer the jobs of one profile; an error becomes their answer."""

    def _done(self) -> None:
        """Finish a round of jobs that were taken together."""

    def run(self) -> None:
        """Do the jobs until the queue is closed."""
        try:
            while jobs := self._queue.take(self._at_once):
                self._do_all(jobs)
                # Lets a dropped profile leave memory even if no further job comes.
                jobs.clear()
                self._done()
        finally:
            self._queue.close()

    def _do_all(self, jobs: list[AnyJob]) -> None:
        by_profile: dict[int, list[AnyJob]] = {}
        for job in jobs:
            by_profile.setdefault(job.profile.row.id, []).append(job)
        for group in by_profile.values():
            profile = group[0].profile
            try:
                self._do(profile, group)
            except ProfileReplaced as error:
                left = [job for job in group if not job.answer.done()]
                self._requeue(profile, left, error)
            # The outermost loop of the thread: any error becomes the answer to the
            # waiting clients, and the thread goes on.
            except Exception as error:  # noqa: BLE001
                for job in group:
                    if not job.answer.done():
                        job.answer.set_exception(error)

    def _requeue(
        self, replaced: Profile, jobs: Iterable[AnyJob], error: Exception
    ) -> None:
        """Requeue jobs for the successor of their profile, once; return at once."""
        meant = []
        for job in jobs:
            if job.requeued:
                job.answer.set_exception(error)
            else:
                meant.append(job)
        if not meant:
            return
        with self._replacing:
            begun = replaced.row.id in self._waiting
            self._waiting.setdefault(replaced.row.id, []).extend(meant)
        if not begun:
            threading.Thread(
                target=self._load, args=(replaced,), name="replacements", daemon=True
            ).start()

    def _load(self, replaced: Profile) -> None:
        """Load the successor of a profile, and queue the jobs that wait for it."""
        try:
            successor = self._successor(replaced)
        # The outermost loop of the thread: whatever went wrong is their answer.
        except Exception as error:  # noqa: BLE001
            for job in self._waited(replaced):
                job.answer.set_exception(error)
            return
        for job in self._waited(replaced):
            try:
                self._queue.put(replace(job, profile=successor, requeued=True))
            except DatabaseUnavailable as error:
                job.answer.set_exception(error)

    def _waited(self, replaced: Profile) -> list[AnyJob]:
        """Return all jobs that wait for a successor; a later one loads it again."""
        with self._replacing:
            return self._waiting.pop(replaced.row.id)
