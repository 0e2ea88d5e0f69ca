"""Queue: jobs that a thread takes all at once."""

from __future__ import annotations

import queue
import threading
from typing import Final, Generic, TypeVar

from app.errors import DatabaseUnavailable

# More than this many waiting means that the disk cannot keep up; a new job is then
# refused with "try again later" instead of growing the queue.
BACKLOG: Final = 10_000
Job = TypeVar("Job")


class JobQueue(Generic[Job]):
    """A bounded queue of jobs for one thread, which closes it when it ends."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        # Without it, a job could be put after the last look of a thread that ends.
        self._putting = threading.Lock()

    @property
    def size(self) -> int:
        """How many jobs wait, or one more when it is closed."""
        return self._jobs.qsize()

    def put(self, job: Job) -> None:
        """Leave a job for the thread.

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
                msg = (
                    f"{BACKLOG} requests are waiting for the database; try again later"
                )
                raise DatabaseUnavailable(msg)
            self._jobs.put(job)

    def take(self, most: int, *, within: float | None = None) -> list[Job]:
        """Wait for a job; return all that wait, up to `most`.

        Parameters
        ----------
        most : int
            Most jobs to return.
        within : float or None
            Time to wait for a job; None waits for ever.  Unit: seconds.

        Returns
        -------
        list of jobs
            Empty once the queue is closed and nothing is left.

        Raises
        ------
        queue.Empty
            If no job came in time.
        """
        jobs: list[Job] = []
        job = self._jobs.get(timeout=within)
        # None marks the end: it is put last, and stays there.
        while job is not None:
            jobs.append(job)
            if len(jobs) == most or self._jobs.empty():
                return jobs
            job = self._jobs.get()
        self._jobs.put(None)
        return jobs

    def close(self) -> None:
        """Take no more jobs; those that wait are still returned."""
        with self._putting:
            if not self._closed.is_set():
                self._closed.set()
                self._jobs.put(None)
