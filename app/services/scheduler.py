"""Scheduler: folding, following and expiry while feedback pauses (decision 0019).

A step of maintenance reads and sums without a lock, and holds the write lock of SQLite
for some ten milliseconds at the end.  Continuous feedback would meet that lock again
and again.  The next step therefore waits for a pause, as long as the previous step
returned, but at most for an interval.  Pauses are recognised by revisions, so feedback
through any process counts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from app.errors import (
    DatabaseUnavailable,
    DatabaseUnprepared,
    Inconsistent,
    ProfileReplaced,
    Unavailable,
)
from app.services.access import expire_events
from app.services.clock import JUMP, Failures
from app.services.undo import carry_out
from app.services.upkeep import Folding, erase_some, merge_runs, seal_some
from app.storage import hidden, retention, scored, tables, undo_work
from app.storage.database import engine
from app.storage.database.engine import (
    checkpoint,
    probe,
    reading,
    with_short_timeout,
    writing,
)
from app.storage.scored import Kept

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime

    from app.services.cache import LiveProfiles
    from app.services.clock import SteadyClock
    from app.services.live import CachedProfile
    from app.services.recent import RecentMessages
    from app.settings import Settings
    from app.storage.retention import ClockMark

log = logging.getLogger(__name__)
# Seconds between two looks for rows of other processes.
INTERVAL: Final = 0.5
# Time without feedback that counts as a pause.  A client that teaches message after
# message returns within a few ms.  Unit: seconds.
IDLE_SECONDS: Final = 0.02


@dataclass(eq=False)
class Scheduler(threading.Thread):
    """A thread that runs a task step by step.

    Parameters
    ----------
    work : str
        Name of the thread, and subject of its lines in the log.
    task : callable
        Does one short step of work.  Returns 0 or None if nothing is left to do, and
        otherwise the time until the next step.  Unit: seconds.
    idle : callable or None
        Returns the time since the last feedback; the next step comes earlier, in a
        pause of it.  None for a task that does not compete with feedback.  Unit:
        seconds.

    Attributes
    ----------
    failure : str or None
        Why the last steps failed; None if the last one did not.
    """

    work: str
    task: Callable[[], float | None]
    idle: Callable[[], float] | None = None

    def __post_init__(self) -> None:
        """Begin without a step."""
        super().__init__(name=self.work, daemon=True)
        self._failures = Failures()
        self._failed = 0
        self._succeeded = time.monotonic()
        self.failure: str | None = None
        self._stopping = threading.Event()

    @property
    def age(self) -> float:
        """Time since the last successful step.  Unit: seconds."""
        return time.monotonic() - self._succeeded

    def stop(self) -> None:
        """Finish the present step, and end the thread."""
        self._stopping.set()
        self.join()

    def run(self) -> None:
        """Do step after step, with pauses between them."""
        while not self._stopping.is_set():
            wait = self._step()
            idle = self.idle if wait else None
            due = time.monotonic() + min(wait or INTERVAL, INTERVAL)
            while (left := due - time.monotonic()) > 0:
                step = left if idle is None else min(engine.PAUSE, left)
                if self._stopping.wait(step):
                    return
                if idle is not None and idle() >= IDLE_SECONDS:
                    break

    def _step(self) -> float | None:
        try:
            wait = self.task()
        except (Unavailable, Inconsistent) as error:
            # Logging at every step, twice a second, would bury the rest of the log.
            if self._failures.report("task", error):
                broken = isinstance(error, Inconsistent)
                level = logging.ERROR if broken else logging.WARNING
                text = "%s is waiting for the database: %s"
                log.log(level, text, self.work, error)
            return self._note(error)
        except Exception as error:  # the thread's outermost loop: it must go on
            if self._failures.report("defect", error):
                log.exception("%s failed; scoring and feedback go on", self.work)
            return self._note(error)
        self._failed = 0
        self._succeeded = time.monotonic()
        self.failure = None
        self._failures.resolve("defect")
        if self._failures.resolve("task"):
            log.info("%s goes on: the database is back", self.work)
        return wait

    def _note(self, error: Exception) -> float:
        """Note a failed step; a single failure may only have met a lock."""
        self._failed += 1
        if self._failed > 1:
            self.failure = str(error) or type(error).__name__
        return 0.0


# Unfolded rows up to which continuous feedback is folded later: many rows at once are
# cheaper, because they share most of their features (`app.services.upkeep`).  A start
# reads unfolded rows, 1,000 in 0.17 s.
BURST: Final = 4_000
# During continuous feedback, folds may use this share of the time if `BURST` rows are
# left, twice this share for twice as many, and at most `MOST`.
SHARE: Final = 0.25
MOST: Final = 0.75
# Time to decode and sum a batch of a thousand rows, with the pauses in it. Unit:
# seconds.
STEP: Final = 0.4


class IdleDetector:
    """Notices when a profile is not being taught."""

    def __init__(self) -> None:
        self._revision = -1
        self._since = 0.0

    def due(self, revision: int, *, folded: int) -> bool:
        """Return whether to do a step now."""
        now = time.monotonic()
        if revision != self._revision:
            self._revision, self._since = revision, now
        return now - self._since >= IDLE_SECONDS or revision - folded > BURST


def rest(left: int) -> float:
    """Return the longest wait for a pause before the next step.  Unit: seconds.

    Parameters
    ----------
    left : int
        Rows not folded.  With at most `BURST` of them, a step always waits for a pause.
    """
    if left <= BURST:
        return float("inf")
    share = min(SHARE * left / BURST, MOST)
    return STEP / share - STEP


FOLLOW_SECONDS: Final = 0.5
EXPIRE_SECONDS: Final = 60.0
# Each mark of the clock is a commit, and a jump is 27 days.
MARKED: Final = timedelta(hours=1)
# Scored messages deleted in one transaction: 50,000 held SQLite's write lock for 2 s,
# so these take 10 ms.  The next ones wait this long for a pause of feedback, so that a
# busy service deletes as fast as it stores.
FORGOTTEN_ROWS: Final = 256
FORGET_SECONDS: Final = 0.1
# A page written several times since is copied only once.
CHECKPOINT_SECONDS: Final = 4.0
_NOT_UNDONE: Final = "an undo in the profile %r cannot be carried out: %s"
_NOT_FOLDED: Final = "the ledger of the profile %r cannot be folded into its counts: %s"
_NOT_JOINED: Final = "an import into the profile %r cannot be finished: %s"
_NOT_SHORTENED: Final = "old data of the profile %r cannot be deleted: %s"


@dataclass(eq=False)
class Maintenance:
    """One step of maintenance at a time, the most pressing first.

    Parameters
    ----------
    settings : Settings
        Limits of age and number for each kind of data.
    on_follow, on_expire : sequence of callable
        Called in this order when changes of other processes are taken over, and when
        old data are looked for.
    """

    live: LiveProfiles
    recent: RecentMessages
    settings: Settings
    _: KW_ONLY
    clock: SteadyClock
    on_follow: Sequence[Callable[[], object]] = ()
    on_expire: Sequence[Callable[[], object]] = ()

    def __post_init__(self) -> None:
        """Begin with all profiles due."""
        self._follow_at = 0.0
        self._expire_at = 0.0
        self._checkpoint_at = time.monotonic() + CHECKPOINT_SECONDS
        self._folding = Folding(self.live.engine)
        self._failures = Failures()
        self._log_has_words = False
        # Queues of profile keys; the first is next.  A profile that is in no queue
        # costs a step nothing.
        self._unfolded: dict[int, int] = {}
        self._detectors: dict[int, IdleDetector] = {}
        self._undoing: deque[int] = deque()
        self._expiring: deque[int] = deque()
        # The newest row that forgets a message, at the last look for old data and at
        # the one before: all processes have followed the latter.
        self._forgotten: dict[int, int] = {}
        self._erasable: dict[int, int] = {}
        # Since when verdicts are from the future.
        self._ahead: datetime | None = None
        self._marked: ClockMark | None = None
        # Last profile reached by this minute's look for old data.
        self._looked_at: int | None = None
        self._abandoned: list[int] = []
        self._joining: deque[int] = deque()

    def __call__(self) -> float:
        """Do one short step.

        Returns
        -------
        float
            0 if nothing is left to do; otherwise how long the next step may wait for a
            pause of feedback.  Unit: seconds.

        Raises
        ------
        DatabaseUnavailable
            If the step could not be stored; nothing of it is stored.
        """
        # Only this thread waits for a server that hangs.
        probe(self.live.engine)
        now = time.monotonic()
        if now >= self._follow_at:
            self._follow()
            self._follow_at = time.monotonic() + FOLLOW_SECONDS
        if now >= self._expire_at:
            self._expire()
            self._expire_at = time.monotonic() + EXPIRE_SECONDS
        if now >= self._checkpoint_at:
            if checkpoint(self.live.engine, emptied=self._log_has_words):
                self._log_has_words = False
            self._checkpoint_at = time.monotonic() + CHECKPOINT_SECONDS
        try:
            waits = [
                self._next(self._undoing, self._undo, _NOT_UNDONE),
                self._fold(),
                self._look(),
                self._next(self._expiring, self._shorten, _NOT_SHORTENED),
                self._next(self._joining, self._join, _NOT_JOINED),
                self._remove(),
            ]
        except DatabaseUnavailable:
            # A step without a query does not show that the database is available again.
            self._follow_at = 0.0
            raise
        return min(filter(None, waits), default=0.0)

    def _follow(self) -> None:
        """Take over changes of other processes, and store waiting data."""
        self.live.refresh()
        short = with_short_timeout(self.live.engine)
        # First: a failure of the others must not keep scored messages in memory.
        self.recent.flush(short)
        for act in self.on_follow:
            act()
        # Undos of processes that ended before carrying them out.
        with reading(short) as connection:
            pending = undo_work.profiles_pending(connection)
        self._undoing = deque(_in_turn(self._undoing, pending))
        behind = self.live.unfolded
        self._unfolded = {key: behind[key] for key in _in_turn(self._unfolded, behind)}
        self._detectors = {
            key: self._detectors.get(key) or IdleDetector() for key in behind
        }

    def _next(
        self, queue: deque[int], act: Callable[[CachedProfile], float], failed: str
    ) -> float:
        """Do a little for the next profile; return as a call does."""
        if not queue:
            return 0.0
        # Whatever the outcome, the other profiles are next.
        queue.rotate(-1)
        profile = self.live.by_key(queue[-1])
        wait = 0.0 if profile is None else self._attempt(profile, act, failed)
        if not wait:
            queue.pop()
        return wait or (FORGET_SECONDS if queue else 0.0)

    def _attempt(
        self, profile: CachedProfile, act: Callable[[CachedProfile], float], failed: str
    ) -> float:
        """Do a little for one profile, or log that it failed; return as a call does."""
        key = failed, profile.row.id
        # Finding the same error in a thousand rows again takes half a second.
        if self._failures.pausing(key):
            return 0.0
        # An error of one profile must not stop the others: the profile keeps its
        # unfolded rows, which a start of the service reads anyway.
        try:
            wait = act(profile)
        except ProfileReplaced:
            # Replaced by an import; the next step loads its successor.
            self._follow_at = 0.0
            return FOLLOW_SECONDS
        # Other steps between two folds succeed.  If only the counts cannot be written,
        # an error that success resets would be logged at each fold.
        except (Inconsistent, DatabaseUnprepared) as error:
            if self._failures.report(key, error):
                log.error(failed, profile.row.name, error)  # noqa: TRY400
            return 0.0
        self._failures.unpause(key)
        return wait

    def _days_ago(self, days: float) -> datetime:
        return self.clock() - timedelta(days=days)

    @property
    def _kept(self) -> tuple[Kept, ...]:
        kept = self.settings
        since, before = map(self._days_ago, (kept.scored_days, kept.history_days))
        return (
            Kept(tables.scored, since, kept.scored_rows, kept.scored_bytes),
            Kept(tables.history, before, kept.history_rows),
        )

    @property
    def _vectors_since(self) -> datetime | None:
        days = self.settings.vector_days
        return self._days_ago(days) if days else None

    def _expire(self) -> None:
        """Begin to look for old data."""
        self.live.drop_idle()
        there = {each.row.id for each in self.live}
        self.recent.forget(before=self._kept[0].since, profiles=there)
        for act in self.on_expire:
            act()
        if self.settings.event_days:
            before = self._days_ago(self.settings.event_days)
            expire_events(self.live.engine, before=before)
        with reading(self.live.engine) as connection:
            # By both clocks: a machine whose own is a month slow would drop all that
            # others have stored since.
            present = max(self.clock(), retention.time_of(connection))
            self._ahead = present + JUMP if self.clock.proven else None
            self._abandoned = hidden.abandoned(connection, now=self.clock())
            self._joining = deque(set(hidden.joining(connection).values()))
            self._erasable = self._forgotten
            forgotten = retention.forgotten(connection)
        self._forgotten = {row.profile_id: row.revision for row in forgotten}
        # By other processes; this one has dropped its own at once.
        for row in forgotten:
            self.recent.drop(row.profile_id, row.digest, upto=row.time)
        self._expiring.extend(self._erasable.keys() - {*self._expiring})
        if self._looked_at is None:
            self._looked_at = 0
        self._mark()

    def _mark(self) -> None:
        """Store the mark of the clock, unless it is much as before."""
        mark, old = self.clock.mark, self._marked
        if old is None or max(abs(mark[n] - old[n]) for n in range(2)) >= MARKED:
            with writing(self.live.engine) as connection:
                retention.put_clock_mark(connection, mark)
            self._marked = mark

    def _look(self) -> float:
        """Look for old data in the next profiles; return as a call does."""
        if self._looked_at is not None and not self._expiring:
            with reading(self.live.engine) as connection:
                due, self._looked_at = retention.due(
                    connection,
                    self._kept,
                    vectors=self._vectors_since,
                    ahead=self._ahead,
                    after=self._looked_at,
                )
            self._expiring.extend(due)
        return 0.0 if self._looked_at is None else FORGET_SECONDS

    def _join(self, profile: CachedProfile) -> float:
        """Have a few messages of an interrupted import join; return as a call does."""
        mine = profile.row.id
        with writing(self.live.engine) as connection:
            for key, into in hidden.joining(connection).items():
                if into == mine:
                    hidden.join_some(connection, key, profile.row)
                    return FOLLOW_SECONDS
        return 0.0

    def _remove(self) -> float:
        """Remove a little of an unfinished import; return as a call does."""
        if self._abandoned:
            with writing(self.live.engine) as connection:
                if not hidden.remove_step(connection, self._abandoned[-1]):
                    self._abandoned.pop()
        return FOLLOW_SECONDS if self._abandoned else 0.0

    def _undo(self, profile: CachedProfile) -> float:
        """Carry out a little of an undo; return as a call does."""
        rows, left = carry_out(self.live.engine, profile.row)
        profile.apply(rows)
        return FOLLOW_SECONDS if left else 0.0

    def _fold(self) -> float:
        """Fold a little of one profile; return as a call does."""
        waits = []
        for key, folded in tuple(self._unfolded.items()):
            profile = self.live.by_key(key)
            if profile is None:
                del self._unfolded[key]
            elif self._detectors[key].due(profile.revision, folded=folded):
                # One batch per call, even if a thousand profiles have rows to fold:
                # rows of other processes are followed in between.
                del self._unfolded[key]
                waits.append(self._attempt(profile, self._fold_rows, _NOT_FOLDED))
                break
            else:
                waits.append(rest(profile.revision - folded))
        if self._unfolded:
            waits.append(FOLLOW_SECONDS)
        return min(filter(None, waits), default=0.0)

    def _fold_rows(self, profile: CachedProfile) -> float:
        """Fold a batch; return as a call does."""
        step = self._folding.step(profile.row)
        left = 0 if step is None else profile.revision - step.upto
        # Otherwise all rows are folded, or another process folds them: the next look
        # for changes shows which.
        if step is not None and left > 0:
            # The profile folded last comes last.
            self._unfolded[profile.row.id] = step.upto
            return min(rest(left), FOLLOW_SECONDS)
        return 0.0

    def _shorten(self, profile: CachedProfile) -> float:
        """Remove a little old data; return as a call does."""
        deleted = [self._forget(profile), self._erase(profile)]
        dropped = self._drop(profile)
        if any(deleted):
            return FORGET_SECONDS
        return FOLLOW_SECONDS if dropped else 0.0

    def _forget(self, profile: CachedProfile) -> bool:
        """Drop a few scored messages of a profile; return whether more may be left."""
        mine, deleted = profile.row.id, 0
        for kept in self._kept:
            with reading(self.live.engine) as connection:
                upto = scored.last_over(connection, kept, mine)
            with writing(self.live.engine) as connection:
                deleted += scored.expire(
                    connection,
                    kept,
                    mine,
                    ahead=self._ahead,
                    upto=upto,
                    limit=FORGOTTEN_ROWS,
                )
        return deleted > 0

    def _erase(self, profile: CachedProfile) -> bool:
        """Erase a few forgotten messages; return whether more may be left."""
        upto = self._erasable.get(profile.row.id)
        if upto is None or not erase_some(self.live.engine, profile.row, upto=upto):
            return False
        self._log_has_words = True
        return True

    def _drop(self, profile: CachedProfile) -> bool:
        """Drop a few old vectors of a profile; return whether more may be left."""
        before = self._vectors_since
        if before is None:
            return False
        merged = merge_runs(self.live.engine, profile.row, "sealed")
        return merged or seal_some(self.live.engine, profile.row, before=before)


def _in_turn(before: Iterable[int], now: Collection[int]) -> list[int]:
    """Return keys in their previous order, with new ones at the end."""
    return [key for key in dict.fromkeys([*before, *now]) if key in now]
