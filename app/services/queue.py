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
    """A bounded queue of jobs for one thread, which it closes when it ends."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        # So that nothing is put behind the last look of a thread that ends.
        self._putting = threading.Lock()

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
        """Wait for a job, and return all that there are, `most` at most.

        Parameters
        ----------
        most : int
            How many at most.
        within : float or None
            For how long to wait; None for ever.  Unit: seconds.

        Returns
        -------
        list of jobs
            Empty once nothing is left and nothing comes any more.

        Raises
        ------
        queue.Empty
            If none came in time.
        """
        jobs: list[Job] = []
        job = self._jobs.get(timeout=within)
        # The end is marked by None: the last that is ever put, and it stays there.
        while job is not None:
            jobs.append(job)
            if len(jobs) == most or self._jobs.empty():
                return jobs
            job = self._jobs.get()
        self._jobs.put(None)
        return jobs

    def close(self) -> None:
        """Take no more; what is waiting is still given out."""
        with self._putting:
            if not self._closed.is_set():
                self._closed.set()
                self._jobs.put(None)
