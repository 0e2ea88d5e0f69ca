"""Who writes to the database? One thread per process, for everybody.

Concurrent feedback shares a commit: the thread takes all that is waiting,
appends it in one transaction, and answers.  A single feedback waits for
nobody.  When no feedback is waiting, the thread does a step of upkeep, so
that upkeep never competes with feedback for the write lock of SQLite.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.errors import DatabaseUnavailable, Inconsistent
from app.storage import ledger
from app.storage.engine import writing

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Engine

    from app.services.live import LiveProfile
    from app.storage.entry import LedgerRow
    from app.storage.teaching import Outcome, Teaching

log = logging.getLogger(__name__)

# Rows of one shared commit: 256 of 7.6 kB took 45 ms on SQLite, so that whoever
# comes while they are written waits no longer than for a fold.
GROUP: Final = 256
# Seconds between two looks at what other processes have learned.
INTERVAL: Final = 0.5
# Seconds without feedback after which upkeep that has more to do goes on. A
# client that teaches message after message comes back within a few ms; at 0 its
# 99th percentile was 40 ms, the length of a fold.
PAUSE: Final = 0.02
# More than this many waiting means that the disk cannot keep up; new feedback
# is then refused with "try again later" instead of growing the queue.
BACKLOG: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Job:
    profile: LiveProfile
    teaching: Teaching
    answer: Future[Outcome] = field(default_factory=Future)


class Writer:
    """The thread that appends to the ledger, and keeps house when idle.

    Parameters
    ----------
    engine : Engine
        Where the ledger is.
    upkeep : callable
        One short step of house-keeping; returns True if more is to be done
        at once.
    """

    def __init__(self, engine: Engine, upkeep: Callable[[], bool]) -> None:
        self._engine = engine
        self._upkeep = upkeep
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Finish what was submitted, and end the thread."""
        self._stopping.set()
        self._jobs.put(None)
        self._thread.join()

    def submit(self, profile: LiveProfile, teaching: Teaching) -> Future[Outcome]:
        """Have one message taught; the result comes after its commit.

        Raises
        ------
        DatabaseUnavailable
            If too much is waiting already, or the service is stopping.
        """
        if self._stopping.is_set() or not self.alive:
            msg = "the service is stopping; send the feedback again in a moment"
            raise DatabaseUnavailable(msg)
        if self._jobs.qsize() > BACKLOG:
            msg = f"{BACKLOG} feedbacks are waiting for the database; try again later"
            raise DatabaseUnavailable(msg)
        job = _Job(profile, teaching)
        self._jobs.put(job)
        return job.answer

    def _run(self) -> None:
        more = True
        due = 0.0
        while True:
            left = max(0.0, due - time.monotonic())
            jobs = self._take(wait=min(PAUSE, left) if more else left)
            if jobs:
                self._commit(jobs)
            elif self._stopping.is_set():
                return
            now = time.monotonic()
            # Under continuous feedback the queue may never be empty: a step
            # of upkeep is due then all the same, once per interval.
            if not jobs or now >= due:
                more = self._step()
                due = time.monotonic() + INTERVAL

    def _take(self, *, wait: float) -> list[_Job]:
        jobs: list[_Job] = []
        try:
            job = self._jobs.get(timeout=wait) if wait > 0 else self._jobs.get_nowait()
            while True:
                if job is not None:
                    jobs.append(job)
                if len(jobs) == GROUP:
                    break
                job = self._jobs.get_nowait()
        except queue.Empty:
            pass
        return jobs

    def _step(self) -> bool:
        try:
            return self._upkeep()
        except DatabaseUnavailable as error:
            log.warning("upkeep waits for the database: %s", error)
        except Exception:  # the thread's outermost loop: feedback must go on
            log.exception("upkeep failed; scoring and feedback go on")
        return False

    def _commit(self, jobs: list[_Job]) -> None:
        by_profile: dict[int, list[_Job]] = {}
        for job in jobs:
            by_profile.setdefault(job.profile.row.id, []).append(job)
        for group in by_profile.values():
            self._commit_group(group[0].profile, group)

    def _remember(self, profile: LiveProfile, rows: list[LedgerRow]) -> None:
        """Add rows that were just committed to the snapshot."""
        # Only this thread adds rows of its own, so memory cannot have them yet.
        if rows and rows[0].revision <= profile.snapshot.revision:
            profile.reload(self._engine, "revisions are given out a second time")
            return
        try:
            if not profile.apply(rows):
                profile.follow(self._engine)
        except Inconsistent as error:
            profile.reload(self._engine, str(error))

    def _commit_group(self, profile: LiveProfile, jobs: list[_Job]) -> None:
        try:
            with writing(self._engine) as connection:
                outcomes = ledger.append(
                    connection, profile.row, [job.teaching for job in jobs]
                )
        # The outermost loop of the thread: whatever went wrong is the answer of
        # those who wait for it, and the next ones are served.
        except Exception as error:  # noqa: BLE001
            for job in jobs:
                job.answer.set_exception(error)
            return
        # From here on the rows are durable: whatever happens below, the
        # answer is that they were learned.
        try:
            self._remember(profile, [o.row for o in outcomes if o.row is not None])
        except Exception:  # they are learned all the same
            log.exception("memory is behind the ledger; it will be loaded anew")
        for job, outcome in zip(jobs, outcomes, strict=True):
            job.answer.set_result(outcome)
