"""Writer: the thread that appends to the ledger, and what the filter learns by itself.

Concurrent feedback shares the work: the thread takes all waiting feedback, scores it,
appends it in one transaction, answers, and learns it.  A single feedback does not wait
for others.  Readers of the counts after an answer wait until it is learned.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from app.classifier.learn import confident
from app.errors import (
    STOPPING,
    CorruptVector,
    DatabaseUnavailable,
    Inconsistent,
    ProfileReplaced,
    UnknownLabel,
)
from app.ledger.entry import OWN, ScoredRow
from app.ledger.teaching import Teaching, rows_of, scored
from app.services import live
from app.services.log import SparingLog
from app.storage.database.engine import (
    connections_opened,
    with_short_timeout,
    writing,
)
from app.storage.ledger import append

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date, datetime

    from sqlalchemy import Engine

    from app.classifier.verdict import Verdict
    from app.features.observation import Observation
    from app.ledger.entry import LedgerRow
    from app.ledger.teaching import Outcome
    from app.services.live import LiveProfile
    from app.settings import Settings

log = logging.getLogger(__name__)
# Rows of one shared commit: 256 rows of 7.6 kB took 45 ms on SQLite, while the next
# feedback waits.
GROUP: Final = 256
# A longer queue means that the disk cannot keep up; further jobs are refused with "try
# again later".
BACKLOG: Final = 10_000


@dataclass(frozen=True, slots=True)
class Taught:
    """The outcome of a teaching.

    Parameters
    ----------
    verdict_before : Verdict or None
        The verdict on the message before it was learned; None if it was not scored
        here.
    profile : LiveProfile
        The profile that was taught; the successor if it was just replaced.
    """

    outcome: Outcome
    verdict_before: Verdict | None
    profile: LiveProfile

    @property
    def revision(self) -> int:
        """The ledger row that holds it, or the newest row if nothing changed."""
        row = self.outcome.row
        return self.profile.revision if row is None else row.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A teaching, and the answer that its sender waits for."""

    profile: LiveProfile
    teaching: Teaching
    answer: Future[Taught] = field(default_factory=Future)
    requeued: bool = False


class JobQueue:
    """A bounded queue of jobs for one thread, which closes it when it ends."""

    def __init__(self) -> None:
        self._jobs: deque[_Job] = deque()
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """Return the number of waiting jobs."""
        return len(self._jobs)

    def put(self, job: _Job) -> None:
        """Add a job for the thread.

        Raises
        ------
        DatabaseUnavailable
            If too much is waiting already, or the service is stopping.
        """
        with self._changed:
            if self._closed:
                raise DatabaseUnavailable(STOPPING)
            if len(self._jobs) >= BACKLOG:
                raise DatabaseUnavailable(
                    f"{BACKLOG} requests are waiting for the database; try again later"
                )
            self._jobs.append(job)
            self._changed.notify()

    def take(self, most: int) -> list[_Job]:
        """Wait for a job; return all that wait, up to `most`.

        Empty once the queue is closed and nothing is left.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            return [self._jobs.popleft() for _ in range(min(most, len(self._jobs)))]

    def close(self) -> None:
        """Accept no more jobs; the waiting ones are still returned."""
        with self._changed:
            self._closed = True
            self._changed.notify()


@dataclass(eq=False)
class Writer(threading.Thread):
    """The thread that appends to the ledger, for each profile all that waits together.

    Parameters
    ----------
    notify : callable
        Called after each commit.
    successor : callable
        Loads the profile that replaced another, and returns it.
    """

    engine: Engine
    notify: Callable[[], object] = lambda: None
    successor: Callable[[LiveProfile], LiveProfile] = lambda profile: profile

    def __post_init__(self) -> None:
        """Begin without jobs."""
        super().__init__(name="writer", daemon=True)
        self._queue = JobQueue()
        self._short = with_short_timeout(self.engine)
        self._committed_at = -math.inf
        # A traceback of eighty lines for each lesson would bury the rest of the log.
        self._log = SparingLog(log)

    @property
    def waiting(self) -> int:
        """Number of waiting jobs."""
        return len(self._queue)

    @property
    def idle(self) -> float:
        """Time since the last teaching.  Unit: seconds."""
        return time.monotonic() - self._committed_at

    def submit(self, profile: LiveProfile, teaching: Teaching) -> Future[Taught]:
        """Submit a teaching; its result comes after the commit.

        A teaching with features and without a score is scored first.

        Raises
        ------
        DatabaseUnavailable
            If too many requests wait, or the service is stopping.
        """
        job = _Job(profile=profile, teaching=teaching)
        # Marked as running, so that it cannot be cancelled: the teaching is written in
        # any case, and setting the result of a cancelled future would raise in the
        # writer's thread.
        job.answer.set_running_or_notify_cancel()
        self._queue.put(job)
        return job.answer

    def stop(self) -> None:
        """Finish the waiting jobs, and end the thread."""
        self._queue.close()
        self.join()

    def run(self) -> None:
        """Do the jobs until the queue is closed."""
        try:
            while jobs := self._queue.take(GROUP):
                self._do_all(jobs)
                # Lets a dropped profile leave memory even if no further job comes.
                jobs.clear()
                self.notify()
                self._committed_at = time.monotonic()
        finally:
            self._queue.close()
            # There are none unless an error has ended the loop.
            while left := self._queue.take(GROUP):
                _refuse(left, DatabaseUnavailable(STOPPING))

    def _do_all(self, jobs: list[_Job]) -> None:
        by_profile: dict[int, list[_Job]] = {}
        for job in jobs:
            by_profile.setdefault(job.profile.row.id, []).append(job)
        for group in by_profile.values():
            try:
                self._do(group[0].profile, group)
            # The outermost loop of the thread: any error becomes the answer to the
            # waiting clients, and the thread goes on.
            except Exception as error:  # noqa: BLE001
                self._failed([job for job in group if not job.answer.done()], error)

    def _failed(self, jobs: list[_Job], error: Exception) -> None:
        """Answer jobs with an error, unless another attempt may succeed."""
        if isinstance(error, (CorruptVector, UnknownLabel)) and len(jobs) > 1:
            # The features of one message are damaged, or its label is missing, and
            # nothing is stored: one by one, the others are.
            for job in jobs:
                self._do_all([job])
        elif isinstance(error, ProfileReplaced) and not all(x.requeued for x in jobs):
            _refuse([job for job in jobs if job.requeued], error)
            again = [job for job in jobs if not job.requeued]
            # Loading takes as long as at a start; others are taught meanwhile.
            thread = threading.Thread(target=self._requeue, args=(again,), daemon=True)
            try:
                thread.start()
            # There is no room for one; this thread must go on.
            except RuntimeError:
                _refuse(again, error)
        else:
            _refuse(jobs, error)

    def _requeue(self, jobs: list[_Job]) -> None:
        """Queue jobs for the profile that replaced theirs, once it is loaded."""
        try:
            successor = self.successor(jobs[0].profile)
            while jobs:
                job = replace(jobs[0], profile=successor, requeued=True)
                self._queue.put(job)
                del jobs[0]
        # The outermost loop of the thread: whatever went wrong is their answer.
        except Exception as error:  # noqa: BLE001
            _refuse(jobs, error)

    def _apply(
        self,
        profile: LiveProfile,
        rows: list[LedgerRow],
        answer: Callable[[], None],
        *,
        known: int,
    ) -> None:
        """Learn rows just committed; answer before that unless rows are missing.

        `known` is the revision of memory before they were written.  If the maintenance
        has read them meanwhile, they are skipped.
        """
        if rows and rows[0].revision <= known:
            profile.reload(self.engine, "the database issued a revision twice")
            return
        try:
            if profile.last_row and profile.opened != connections_opened(self.engine):
                # After a failover, a server that lost rows may have given their
                # revisions to other teachings.
                profile.follow(self.engine)
            if profile.apply(rows, answer=answer):
                return
            # After a concurrent import, memory may be far behind. The maintenance reads
            # the missing rows with these, and the clients do not wait for it.
            if rows[0].revision - profile.revision <= live.CATCH_UP_ROWS:
                profile.follow(self.engine)
        except Inconsistent as error:
            profile.reload(self.engine, str(error))

    def _do(self, profile: LiveProfile, jobs: list[_Job]) -> None:
        known = profile.revision
        before = [_scored(job) for job in jobs]
        with writing(self._short) as connection:
            outcomes = append(connection, profile.row, [each for each, _ in before])

        def answer() -> None:
            for job, outcome, (_, verdict) in zip(jobs, outcomes, before, strict=True):
                if not job.answer.done():
                    job.answer.set_result(Taught(outcome, verdict, profile))
            # Releases the interpreter; otherwise the threads that wait for the answers
            # go on only after learning.  The time from the commit until a waiting
            # request went on, relative to that of the transaction, was 1.7 to 2.0 with
            # learning first, 0.6 to 1.0 with learning last, and 0.4 to 0.5 with this
            # release.
            time.sleep(0)

        # From here on the rows are durable: whatever fails below, the answer is that
        # they were learned.
        name = profile.row.name
        try:
            self._apply(profile, rows_of(outcomes), answer, known=known)
        except DatabaseUnavailable as error:
            # The maintenance and the notifier follow every profile.
            self._log.warning(
                "feedback to the profile %r is stored, and takes effect as soon as "
                "the database can be read. The failed step reported: %s",
                name,
                error,
            )
        except Exception as error:  # noqa: BLE001  they are learned all the same
            self._log.error("the profile %r is behind its ledger", name, exc_info=error)
        answer()


def _refuse(jobs: list[_Job], error: Exception) -> None:
    for job in jobs:
        job.answer.set_exception(error)


def _scored(job: _Job) -> tuple[Teaching, Verdict | None]:
    """Return the teaching of a job with its scores, and the verdict."""
    # The use case has checked it, but the profile may have been replaced since.
    job.profile.row.require_label(job.teaching.label)
    with job.profile.scoring() as snapshot:
        return scored(job.teaching, snapshot)


@dataclass(slots=True)
class AutoLearn:
    """Teaches confident verdicts to the filter that gave them.

    Parameters
    ----------
    settings : Settings
        From which log-odds on a verdict is learned, if at all, and how many messages a
        profile may learn by itself on a day, in UTC.

    Notes
    -----
    The ledger enforces the number across workers and restarts, and skips messages that
    were taught before.
    """

    writer: Writer
    clock: Callable[[], datetime]
    settings: Settings
    # The day on which each profile had learned its number, to ask the ledger no more.
    _full: dict[int, date] = field(default_factory=dict, init=False)

    def __call__(
        self, live: LiveProfile, observation: Observation, verdict: Verdict
    ) -> None:
        """Have a verdict learned if it is confident, without waiting."""
        own_from = self.settings.autolearn_from
        if own_from is None or not confident(verdict, live.snapshot, own_from=own_from):
            return
        now = self.clock()
        if self._full.get(live.row.id) == now.date():
            return
        stored = observation.stored(words=self.settings.store_words)
        teaching = Teaching(
            digest=observation.digest,
            label=live.row.labels[verdict.label],
            evidence=ScoredRow.of(stored, time=now),
            source=OWN,
            time=now,
            per_day=self.settings.autolearn_per_day,
        )

        def done(answer: Future[Taught]) -> None:
            if error := answer.exception():
                log.info("a confident verdict is not learned: %s", error)
            elif answer.result().outcome.kind == "full":
                full = [key for key, day in self._full.items() if day == now.date()]
                self._full = dict.fromkeys([*full, live.row.id], now.date())

        try:
            self.writer.submit(live, teaching).add_done_callback(done)
        except DatabaseUnavailable as error:
            log.info("a confident verdict is not learned: %s", error)
