"""Writer: the thread that appends to the ledger.

Concurrent feedback shares the work: the thread takes all that waits, scores it,
appends it in one transaction, learns it, and answers.  A single feedback does not wait
for more.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import DatabaseUnavailable, Inconsistent, ProfileReplaced, UnknownLabel
from app.ledger.teaching import scored
from app.services.memory import live
from app.services.memory.replacements import Job, Replacements
from app.services.queue import JobQueue
from app.services.retry import LogLimit
from app.storage.database.engine import connections_opened, with_short_timeout, writing
from app.storage.ledger import append

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from sqlalchemy import Engine

    from app.classifier.verdict import Verdict
    from app.ledger.entry import LedgerRow
    from app.ledger.teaching import Outcome, Teaching
    from app.services.memory.live import LiveProfile
    from app.services.memory.replacements import Successor

log = logging.getLogger(__name__)
# Rows of one shared commit: 256 of 7.6 kB took 45 ms on SQLite, for which the next
# feedback has to wait.
GROUP: Final = 256


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a teaching.

    Parameters
    ----------
    outcome : Outcome
        Of the ledger.
    verdict_before : Verdict or None
        The verdict on the message before it was learned; None where it was not
        scored here.
    profile : LiveProfile
        The profile that was taught: another one where it was just replaced.
    """

    outcome: Outcome
    verdict_before: Verdict | None
    profile: LiveProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job(Job):
    profile: LiveProfile
    teaching: Teaching


class Writer:
    """The thread that appends to the ledger.

    Parameters
    ----------
    engine : Engine
        Where the ledger is.
    notify : callable
        Notifies other processes of a commit; does not wait.
    successor : callable
        Loads the profile that is in the place of another, and returns it.
    """

    def __init__(
        self,
        engine: Engine,
        notify: Callable[[], object] = lambda: None,
        successor: Successor = lambda profile: profile,
    ) -> None:
        self._engine = engine
        self._short = with_short_timeout(engine)
        self._notify = notify
        self._committed_at = -math.inf
        self._log_limit = LogLimit()
        self._queue: JobQueue[_Job] = JobQueue()
        self._replacements = Replacements(successor, self._queue)
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Teachings that wait for the thread."""
        return self._queue.size

    @property
    def idle(self) -> float:
        """For how long nothing was taught. Unit: seconds."""
        return time.monotonic() - self._committed_at

    def stop(self) -> None:
        """Finish what was submitted, and end the thread."""
        self._queue.close()
        self._thread.join()

    def submit(self, profile: LiveProfile, teaching: Teaching) -> Future[Written]:
        """Have one message taught; the result comes after its commit.

        A teaching with features and without a score is scored first.

        Raises
        ------
        DatabaseUnavailable
            If too many requests wait, or the service is stopping.
        """
        job = _Job(profile=profile, teaching=teaching)
        # Running, so that it cannot be cancelled: it is written anyway, and an answer
        # to a cancelled future would raise in the writer's thread.
        job.answer.set_running_or_notify_cancel()
        self._queue.put(job)
        return job.answer

    def _run(self) -> None:
        try:
            while jobs := self._queue.take(GROUP):
                self._commit(jobs)
                # A profile that is dropped leaves the memory, though no job follows.
                jobs.clear()
                self._notify()
                self._committed_at = time.monotonic()
        finally:
            self._queue.close()

    def _commit(self, jobs: list[_Job]) -> None:
        by_profile: dict[int, list[_Job]] = {}
        for job in jobs:
            by_profile.setdefault(job.profile.row.id, []).append(job)
        for group in by_profile.values():
            self._commit_group(group[0].profile, group)

    def _apply(
        self, profile: LiveProfile, rows: list[LedgerRow], *, known: int
    ) -> None:
        """Learn rows that were just committed.

        `known` is the revision of memory before they were written.  Maintenance
        may have read them meanwhile, and they are passed over then.
        """
        if rows and rows[0].revision <= known:
            profile.reload(self._engine, "revisions are given out a second time")
            return
        try:
            if profile.last_row and profile.opened != connections_opened(self._engine):
                # Another server may have lost rows, and given their revisions to what
                # others taught.
                profile.follow(self._engine)
            if profile.apply(rows):
                return
            # After an import beside it memory may be far behind. The maintenance
            # reads that, and these rows with it; meanwhile nobody waits.
            if rows[0].revision - profile.revision <= live.CATCH_UP_ROWS:
                profile.follow(self._engine)
        except Inconsistent as error:
            profile.reload(self._engine, str(error))

    def _commit_group(self, profile: LiveProfile, jobs: list[_Job]) -> None:
        jobs = [job for job in jobs if _is_possible(job)]
        if not jobs:
            return
        known = profile.revision
        try:
            before = [_scored(job) for job in jobs]
            with writing(self._short) as connection:
                outcomes = append(connection, profile.row, [each for each, _ in before])
        except ProfileReplaced as error:
            self._replacements.requeue(profile, jobs, error)
            return
        # The outermost loop of the thread: any error is the answer to those who wait,
        # and the next ones are served.
        except Exception as error:  # noqa: BLE001
            for job in jobs:
                job.answer.set_exception(error)
            return
        # From here on the rows are durable: whatever happens below, the answer is that
        # they were learned.
        try:
            rows = [outcome.row for outcome in outcomes if outcome.row is not None]
            self._apply(profile, rows, known=known)
        except Exception as error:  # noqa: BLE001  they are learned all the same
            self._log_behind(profile, error)
        for job, outcome, (_, verdict) in zip(jobs, outcomes, before, strict=True):
            job.answer.set_result(Written(outcome, verdict, profile))

    def _log_behind(self, profile: LiveProfile, error: Exception) -> None:
        """Log that memory is behind the ledger of a profile, not at every feedback.

        A traceback of eighty lines for each would bury the rest of the log.
        """
        if not self._log_limit.allows(type(error).__qualname__):
            return
        name = profile.row.name
        if isinstance(error, DatabaseUnavailable):
            # The maintenance and the notifier follow every profile.
            log.warning(
                "feedback to the profile %r is stored, and counts as soon as it can be "
                "read. The step that failed reported: %s",
                name,
                error,
            )
            return
        log.error("the profile %r is behind its ledger", name, exc_info=error)


def _is_possible(job: _Job) -> bool:
    """Return whether the profile has the label; answer the job if it has not.

    The use case has checked it, but the profile may have been replaced since.
    """
    try:
        job.profile.row.require_label(job.teaching.label)
    except UnknownLabel as error:
        job.answer.set_exception(error)
        return False
    return True


def _scored(job: _Job) -> tuple[Teaching, Verdict | None]:
    """Return what a job teaches with its scores, and the verdict."""
    with job.profile.scoring() as snapshot:
        return scored(job.teaching, snapshot)
