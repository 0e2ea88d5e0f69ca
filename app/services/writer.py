"""Writer: the thread that appends to the ledger, and the notifier of commits.

Concurrent feedback shares the work: the thread takes all waiting feedback, scores it,
appends it in one transaction, answers, and learns it.  A single feedback does not wait
for others.  Readers of the counts after an answer wait until it is learned.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING, Final

from app.classifier.learn import confident
from app.errors import DatabaseUnavailable, Inconsistent, UnknownLabel
from app.ledger.entry import OWN, ScoredRow
from app.ledger.teaching import Teaching, rows_of, scored
from app.services import live
from app.services.clock import Limit
from app.services.jobs import Job, ProfileThread
from app.storage.database.engine import (
    connections_opened,
    listening,
    with_short_timeout,
    writing,
)
from app.storage.ledger import append

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from datetime import date, datetime

    from sqlalchemy import Engine

    from app.classifier.verdict import Verdict
    from app.features.observation import Observation
    from app.ledger.entry import LedgerRow
    from app.ledger.teaching import Outcome
    from app.services.jobs import Successor
    from app.services.live import LiveProfile
    from app.storage.database.dialect import CommitListener

log = logging.getLogger(__name__)
# Rows of one shared commit: 256 rows of 7.6 kB took 45 ms on SQLite, while the next
# feedback waits.
GROUP: Final = 256


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
class _Job(Job):
    profile: LiveProfile
    teaching: Teaching


class Writer(ProfileThread[_Job]):
    """The thread that appends to the ledger."""

    def __init__(
        self,
        engine: Engine,
        notify: Callable[[], object] = lambda: None,
        successor: Successor = lambda profile: profile,
    ) -> None:
        super().__init__("writer", successor, at_once=GROUP)
        self._engine = engine
        self._short = with_short_timeout(engine)
        self._notify = notify
        self._committed_at = -math.inf
        self._log_limit = Limit()

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

    def _done(self) -> None:
        self._notify()
        self._committed_at = time.monotonic()

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
            profile.reload(self._engine, "the database issued a revision twice")
            return
        try:
            if profile.last_row and profile.opened != connections_opened(self._engine):
                # After a failover, a server that lost rows may have given their
                # revisions to other teachings.
                profile.follow(self._engine)
            if profile.apply(rows, answer=answer):
                return
            # After a concurrent import, memory may be far behind. The maintenance reads
            # the missing rows with these, and the clients do not wait for it.
            if rows[0].revision - profile.revision <= live.CATCH_UP_ROWS:
                profile.follow(self._engine)
        except Inconsistent as error:
            profile.reload(self._engine, str(error))

    def _do(self, profile: LiveProfile, jobs: list[_Job]) -> None:
        jobs = [job for job in jobs if _is_possible(job)]
        if not jobs:
            return
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
        try:
            self._apply(profile, rows_of(outcomes), answer, known=known)
        except Exception as error:  # noqa: BLE001  they are learned all the same
            self._log_behind(profile, error)
        answer()

    def _log_behind(self, profile: LiveProfile, error: Exception) -> None:
        """Log that memory is behind the ledger of a profile, but not at every feedback.

        A traceback of eighty lines for each would bury the rest of the log.
        """
        left_out = self._log_limit.passes(type(error).__qualname__)
        if left_out is None:
            return
        name = profile.row.name
        if isinstance(error, DatabaseUnavailable):
            # The maintenance and the notifier follow every profile.
            log.warning(
                "feedback to the profile %r is stored, and takes effect as soon as "
                "the database can be read. The failed step reported: %s%s",
                name,
                error,
                left_out,
            )
            return
        log.error(
            "the profile %r is behind its ledger%s", name, left_out, exc_info=error
        )


def _is_possible(job: _Job) -> bool:
    """Return whether the profile has the label; answer the job if it does not.

    The use case has checked it, but the profile may have been replaced since.
    """
    try:
        job.profile.row.require_label(job.teaching.label)
    except UnknownLabel as error:
        job.answer.set_exception(error)
        return False
    return True


def _scored(job: _Job) -> tuple[Teaching, Verdict | None]:
    """Return the teaching of a job with its scores, and the verdict."""
    with job.profile.scoring() as snapshot:
        return scored(job.teaching, snapshot)


# A worker that has committed feedback notifies the others on a connection of its own,
# and they follow the ledger at once.  Correctness does not depend on it: if the
# connection is lost, or a pooler does not pass notifications on, the maintenance finds
# the rows within half a second.

# Least seconds between two looks: with continuous feedback, every other process would
# otherwise look after each commit.
PAUSE: Final = 0.05
# Seconds after which a lost connection is tried again.
RETRY: Final = 5.0


class Notifier(threading.Thread):
    """The thread that notifies of commits, and follows when others notify."""

    def __init__(self, engine: Engine, follow: Callable[[], object]) -> None:
        super().__init__(name="notifier", daemon=True)
        self._engine = engine
        self._follow = follow
        self._follow_at = 0.0
        self._notified = False
        self._stopping = threading.Event()
        self._wake_write: socket.socket | None = None

    def start(self) -> None:
        """Start the thread."""
        # Sockets instead of a pipe: a thread that notifies after the end gets an error,
        # and cannot write into a file opened since.
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        super().start()

    def stop(self) -> None:
        """End the thread; idempotent."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.notify()
        self.join()
        self._wake_read.close()
        if self._wake_write is not None:
            self._wake_write.close()

    def notify(self) -> None:
        """Have the other processes notified of a commit, without waiting."""
        # Nothing was committed before the start.
        if self._wake_write is None:
            return
        # A full socket wakes the thread anyway, and a closed one has no thread to wake.
        with suppress(OSError):
            self._wake_write.send(b"\0")

    def run(self) -> None:
        """Listen and notify, and connect again where the connection is lost."""
        while not self._stopping.is_set():
            try:
                with listening(self._engine) as listener:
                    self._attend(listener)
            except DatabaseUnavailable as error:
                # The maintenance logs it as a warning.
                log.debug("no notifications from other workers: %s", error)
            except Exception:  # the thread's outermost loop: it must go on
                log.exception(
                    "notifications between workers failed; changes of other workers "
                    "arrive later, by maintenance"
                )
            self._stopping.wait(RETRY)

    def _attend(self, listener: CommitListener) -> None:
        """Listen and notify until the end, or until the connection is lost."""
        # Commits before now were not heard.
        self._notified = True
        with DefaultSelector() as selector:
            selector.register(listener, EVENT_READ)
            selector.register(self._wake_read, EVENT_READ)
            while True:
                woken = self._woken()
                # Checked after reading the socket: `stop` sets the event before it
                # writes, so this thread cannot miss the event and sleep on an emptied
                # socket.
                if self._stopping.is_set():
                    return
                if woken:
                    listener.notify()
                self._notified |= listener.heard()
                selector.select(self._follow_if_due())

    def _woken(self) -> bool:
        """Return whether this process has a commit to notify of."""
        with suppress(BlockingIOError):
            return bool(self._wake_read.recv(4096))
        return False

    def _follow_if_due(self) -> float | None:
        """Follow if others notified; return the seconds to wait, or None for ever."""
        if not self._notified:
            return None
        wait = self._follow_at - time.monotonic()
        if wait > 0:
            return wait
        self._notified = False
        self._follow()
        self._follow_at = time.monotonic() + PAUSE
        return 0.0


@dataclass(slots=True)
class AutoLearn:
    """Teaches confident verdicts to the filter that gave them.

    Parameters
    ----------
    own_from : float
        Least distance of confident log-odds from 0.  Unit: nats.
    per_day : int
        Messages that a profile may learn by itself on a day, in UTC.

    Notes
    -----
    The ledger enforces `per_day` across workers and restarts, and skips messages that
    were taught before.
    """

    writer: Writer
    clock: Callable[[], datetime]
    _: KW_ONLY
    own_from: float
    per_day: int
    store_words: bool
    # The day on which each profile had learned its number, to ask the ledger no more.
    _full: dict[int, date] = field(default_factory=dict, init=False)

    def __call__(
        self, live: LiveProfile, observation: Observation, verdict: Verdict
    ) -> None:
        """Have a verdict learned if it is confident, without waiting."""
        if not confident(verdict, live.snapshot, own_from=self.own_from):
            return
        now = self.clock()
        if self._full.get(live.row.id) == now.date():
            return
        teaching = Teaching(
            digest=observation.digest,
            label=live.row.labels[verdict.label],
            evidence=ScoredRow.of(observation.stored(words=self.store_words), time=now),
            source=OWN,
            time=now,
            per_day=self.per_day,
        )

        def done(answer: Future[Taught]) -> None:
            if error := answer.exception():
                log.info("a confident verdict is not learned: %s", error)
            elif answer.result().outcome.kind == "full":
                self._full[live.row.id] = now.date()

        try:
            self.writer.submit(live, teaching).add_done_callback(done)
        except DatabaseUnavailable as error:
            log.info("a confident verdict is not learned: %s", error)
