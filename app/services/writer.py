"""Writer: the thread that appends to the ledger, and what wakes it and its peers.

Concurrent feedback shares the work: the thread takes all that waits, scores it,
appends it in one transaction, answers, and learns it.  A single feedback does not wait
for more, and who asks for the counts after an answer waits until they have learned it.
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
from app.ledger.entry import OWN
from app.ledger.teaching import ScoredRow, Teaching, rows_of, scored
from app.services.clock import Limit
from app.services.memory import live
from app.services.memory.queue import Job, ProfileThread
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
    from app.services.memory.live import LiveProfile
    from app.services.memory.queue import Successor
    from app.storage.database.dialect import CommitListener

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


class Writer(ProfileThread[_Job]):
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
        super().__init__("writer", successor, at_once=GROUP)
        self._engine = engine
        self._short = with_short_timeout(engine)
        self._notify = notify
        self._committed_at = -math.inf
        self._log_limit = Limit()

    @property
    def idle(self) -> float:
        """For how long nothing was taught. Unit: seconds."""
        return time.monotonic() - self._committed_at

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
        """Learn rows that were just committed, and answer before if nothing is amiss.

        `known` is the revision of memory before they were written.  Maintenance
        may have read them meanwhile, and they are passed over then.
        """
        if rows and rows[0].revision <= known:
            profile.reload(self._engine, "the database issued a revision twice")
            return
        try:
            if profile.last_row and profile.opened != connections_opened(self._engine):
                # Another server may have lost rows, and given their revisions to what
                # others taught.
                profile.follow(self._engine)
            if profile.apply(rows, answer=answer):
                return
            # After an import beside it memory may be far behind. The maintenance
            # reads that, and these rows with it; meanwhile nobody waits.
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
                    job.answer.set_result(Written(outcome, verdict, profile))
            # Lets go of the interpreter: else the threads that wait for the answers go
            # on when all is learned.  From the commit until a waiting request went on
            # took 1.7 to 2.0 times what the transaction had taken where learning came
            # first, 0.6 to 1.0 times where it came last, and 0.4 to 0.5 times so.
            time.sleep(0)

        # From here on the rows are durable: whatever happens below, the answer is that
        # they were learned.
        try:
            self._apply(profile, rows_of(outcomes), answer, known=known)
        except Exception as error:  # noqa: BLE001  they are learned all the same
            self._log_behind(profile, error)
        answer()

    def _log_behind(self, profile: LiveProfile, error: Exception) -> None:
        """Log that memory is behind the ledger of a profile, not at every feedback.

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


# A worker that has committed feedback notifies the others on a connection of its own,
# and they follow the ledger at once.  Nothing depends on it: where a connection was
# lost, or a pooler in between does not pass notifications on, the maintenance finds the
# rows within half a second.

# Seconds between two looks, however many notifications come: feedback that never pauses
# would have every other process look after each commit.
PAUSE: Final = 0.05
# Seconds after which a lost connection is tried again.
RETRY: Final = 5.0


class Notifier:
    """The thread that notifies of commits, and follows when others notify.

    Parameters
    ----------
    engine : Engine
        A PostgreSQL database.
    follow : callable
        Adds what any process has learned to memory.
    """

    def __init__(self, engine: Engine, follow: Callable[[], object]) -> None:
        self._engine = engine
        self._follow = follow
        self._follow_at = 0.0
        self._notified = False
        self._stopping = threading.Event()
        self._wake_write: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        # Sockets, not a pipe: a thread that notifies after the end gets an error, and
        # does not write into whatever was opened since.
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a second time does nothing."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.notify()
        self._thread.join()
        self._wake_read.close()
        if self._wake_write is not None:
            self._wake_write.close()

    def notify(self) -> None:
        """Have the others notified of a commit; does not wait."""
        # Before the start nothing was committed here.
        if self._wake_write is None:
            return
        # A full socket wakes the thread anyway, and a closed one has none to wake.
        with suppress(OSError):
            self._wake_write.send(b"\0")

    def _run(self) -> None:
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
        # Until now nobody listened.
        self._notified = True
        with DefaultSelector() as selector:
            selector.register(listener, EVENT_READ)
            selector.register(self._wake_read, EVENT_READ)
            while True:
                woken = self._woken()
                # Read after the socket: `stop` sets the event first and writes then, so
                # that this thread does not sleep on a socket that it has emptied.
                if self._stopping.is_set():
                    return
                if woken:
                    listener.notify()
                self._notified |= listener.heard()
                selector.select(self._follow_if_due())

    def _woken(self) -> bool:
        """Return whether this process has something to notify of."""
        with suppress(BlockingIOError):
            return bool(self._wake_read.recv(4096))
        return False

    def _follow_if_due(self) -> float | None:
        """Follow if others notified; return the seconds to wait, None for ever."""
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
    writer : Writer
        The thread that appends to the ledger.
    clock : callable
        Returns the time now, in UTC.
    own_from : float
        From this far from 0 on, log-odds are confident.  Unit: nats.
    per_day : int
        Messages that a profile may learn so on a day, in UTC.
    store_words : bool
        Whether the text of features is kept.

    Notes
    -----
    The ledger keeps to `per_day` across workers and starts, and skips messages that
    were taught before.  The count here only saves look-ups.
    """

    writer: Writer
    clock: Callable[[], datetime]
    _: KW_ONLY
    own_from: float
    per_day: int
    store_words: bool
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _day: date | None = field(default=None, init=False)
    # Learned or on the way, by profile; of that day only.
    _learned: dict[int, int] = field(default_factory=dict, init=False)

    def __call__(
        self, live: LiveProfile, observation: Observation, verdict: Verdict
    ) -> None:
        """Have a verdict learned if it is confident, without waiting."""
        if not confident(verdict, live.snapshot, own_from=self.own_from):
            return
        now = self.clock()
        day, profile = now.date(), live.row.id
        if not self._take(profile, day):
            return
        teaching = Teaching(
            digest=observation.digest,
            label=live.row.labels[verdict.label],
            evidence=ScoredRow.of(observation.stored(words=self.store_words), time=now),
            source=OWN,
            time=now,
            per_day=self.per_day,
        )
        try:
            answer = self.writer.submit(live, teaching)
        except DatabaseUnavailable as error:
            log.info("a confident verdict is not learned: %s", error)
            self._settle(profile, day, 0)
            return
        answer.add_done_callback(lambda done: self._done(profile, day, done))

    def _take(self, profile: int, day: date) -> bool:
        with self._lock:
            if self._day != day:
                self._day = day
                self._learned.clear()
            learned = self._learned.get(profile, 0)
            if learned >= self.per_day:
                return False
            self._learned[profile] = learned + 1
            return True

    def _done(self, profile: int, day: date, answer: Future[Written]) -> None:
        error = answer.exception()
        if error is not None:
            log.info("a confident verdict is not learned: %s", error)
            self._settle(profile, day, 0)
            return
        kind = answer.result().outcome.kind
        if kind != "learned":
            self._settle(profile, day, self.per_day if kind == "full" else 0)

    def _settle(self, profile: int, day: date, at_least: int) -> None:
        """Correct the count for a message that was not learned."""
        with self._lock:
            if self._day == day:
                self._learned[profile] = max(at_least, self._learned[profile] - 1)
