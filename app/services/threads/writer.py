"""Writer: the thread that appends to the ledger.

Concurrent feedback shares the work: the thread takes all that is waiting, scores
it, appends it in one transaction, learns it, and answers.  A single feedback
waits for nobody.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty
from typing import TYPE_CHECKING, Final

from app.errors import DatabaseUnavailable, Inconsistent, ProfileReplaced, UnknownLabel
from app.ledger.teaching import scored
from app.services.memory import live
from app.services.memory.succession import Job, Succession
from app.services.queue import Inbox
from app.services.retry import Spells
from app.storage.database.engine import connections_opened, with_short_timeout, writing
from app.storage.ledger import append
from app.storage.profiles import require_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from sqlalchemy import Engine

    from app.classifier.verdict import Verdict
    from app.ledger.entry import LedgerRow
    from app.ledger.teaching import Outcome, Teaching
    from app.services.memory.live import LiveProfile
    from app.services.memory.succession import Successor

log = logging.getLogger(__name__)
# Rows of one shared commit: 256 of 7.6 kB took 45 ms on SQLite, which is how long
# whoever comes meanwhile has to wait.
GROUP: Final = 256
# Feedback that comes within this time after the last is a quick series, whose rows are
# added together.  One client on a busy machine, by id and with whole messages: the
# next came after 2.4 ms at the median and 4.5 at the 90th percentile.  curl takes 8
# to 10 to start and to be told that nobody listens.
LULL: Final = 0.005
"""Unit: seconds."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a teaching.

    Parameters
    ----------
    outcome : Outcome
        What the ledger says.
    before : Verdict or None
        The verdict on the message before it was learned; None where it was not
        scored here.
    profile : LiveProfile
        Who was taught: another than was meant, where that was just replaced.
    """

    outcome: Outcome
    before: Verdict | None
    profile: LiveProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job(Job):
    teaching: Teaching


class Writer:
    """The thread that appends to the ledger.

    Parameters
    ----------
    engine : Engine
        Where the ledger is.
    ring : callable
        Tells other processes that something was committed; waits for nothing.
    successor : callable
        Returns what has the place of a profile that was replaced, loaded.
    """

    def __init__(
        self,
        engine: Engine,
        ring: Callable[[], object] = lambda: None,
        successor: Successor = lambda profile: profile,
    ) -> None:
        self._engine = engine
        self._short = with_short_timeout(engine)
        self._ring = ring
        self._committed_at = -math.inf
        self._taught: set[LiveProfile] = set()
        self._spells = Spells()
        self._inbox: Inbox[_Job] = Inbox()
        self._succession = Succession(successor, self._inbox)
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def idle(self) -> float:
        """For how long nothing was taught. Unit: seconds."""
        return time.monotonic() - self._committed_at

    def stop(self) -> None:
        """Finish what was submitted, and end the thread."""
        self._inbox.close()
        self._thread.join()

    def submit(self, profile: LiveProfile, teaching: Teaching) -> Future[Written]:
        """Have one message taught; the result comes after its commit.

        What is taught with its features and without a score is scored first.

        Raises
        ------
        DatabaseUnavailable
            If too much is waiting already, or the service is stopping.
        """
        job = _Job(profile=profile, teaching=teaching)
        # Running, so that nobody can cancel it: what was taken is written, and an
        # answer to a cancelled future would raise in the writer's thread.
        job.answer.set_running_or_notify_cancel()
        self._inbox.put(job)
        return job.answer

    def _run(self) -> None:
        try:
            while jobs := self._next():
                before, self._taught = self._taught, set()
                self._commit(jobs)
                self._ring()
                self._committed_at = time.monotonic()
                # Their series is over, though somebody else's goes on.
                self._settle(before - self._taught)
        finally:
            self._inbox.close()

    def _next(self) -> list[_Job]:
        """Wait for the next jobs; in a lull, add up the rows that wait for each other.

        Then whoever scores next does not have to, and who is taught at the pace of
        people is scored by all that was taught before.
        """
        if self._taught:
            with suppress(Empty):
                return self._inbox.take(GROUP, within=LULL)
            self._settle(self._taught)
            self._taught.clear()
        return self._inbox.take(GROUP)

    def _commit(self, jobs: list[_Job]) -> None:
        by_profile: dict[int, list[_Job]] = {}
        for job in jobs:
            by_profile.setdefault(job.profile.row.id, []).append(job)
        for group in by_profile.values():
            self._commit_group(group[0].profile, group)

    def _remember(
        self, profile: LiveProfile, rows: list[LedgerRow], *, known: int
    ) -> None:
        """Learn rows that were just committed.

        `known` is the revision of memory before they were written.  House-keeping
        may have read them meanwhile, and they are passed over then.
        """
        if rows and rows[0].revision <= known:
            profile.reload(self._engine, "revisions are given out a second time")
            return
        try:
            if profile.newest and profile.opened != connections_opened(self._engine):
                # Another server may have lost rows, and given their revisions to what
                # others taught.
                profile.follow(self._engine)
            if profile.apply(rows, later=True):
                self._taught.add(profile)
                return
            # After an import beside it memory may be far behind. The house-keeping
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
            teachings, before = scored([job.teaching for job in jobs], profile.at_hand)
            with writing(self._short) as connection:
                outcomes = append(connection, profile.row, teachings)
        except ProfileReplaced as error:
            self._succession.hand_on(profile, jobs, error)
            return
        # The outermost loop of the thread: whatever went wrong is the answer of
        # those who wait for it, and the next ones are served.
        except Exception as error:  # noqa: BLE001
            for job in jobs:
                job.answer.set_exception(error)
            return
        # From here on the rows are durable: whatever happens below, the
        # answer is that they were learned.
        try:
            rows = [outcome.row for outcome in outcomes if outcome.row is not None]
            self._remember(profile, rows, known=known)
        except Exception as error:  # noqa: BLE001  they are learned all the same
            self._admit(profile, error)
        for job, outcome, verdict in zip(jobs, outcomes, before, strict=True):
            job.answer.set_result(Written(outcome, verdict, profile))

    def _settle(self, profiles: Iterable[LiveProfile]) -> None:
        """Add up what waits in some profiles."""
        for profile in profiles:
            try:
                profile.settle()
            except Exception as error:  # noqa: BLE001  they are learned all the same
                self._admit(profile, error)

    def _admit(self, profile: LiveProfile, error: Exception) -> None:
        """Log that a profile does not know what it was taught, once in a spell.

        While it goes wrong it may do so for each feedback, and what each adds to the
        log, a traceback of eighty lines, would bury the rest.
        """
        if not self._spells.begins(type(error).__qualname__):
            return
        name = profile.row.name
        if isinstance(error, DatabaseUnavailable):
            # The house-keeping and the bell follow every profile.
            log.warning(
                "what the profile %r was just taught is stored, and followed as soon "
                "as it can be read. Of the step that failed it is said: %s",
                name,
                error,
            )
            return
        log.error("the profile %r is behind its ledger", name, exc_info=error)


def _is_possible(job: _Job) -> bool:
    """Tell whether a label is one of the profile's, and answer if it is not.

    Who asked has seen to it, but the profile may have been replaced since.
    """
    try:
        require_label(job.profile.row, job.teaching.label)
    except UnknownLabel as error:
        job.answer.set_exception(error)
        return False
    return True
