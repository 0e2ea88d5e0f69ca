"""Live profile: the counts of one profile in memory, following the ledger.

Contract of this file: scoring holds the lock of a `LiveProfile` and does not query the
database, so a verdict belongs to one revision.  A thread that follows other processes
prepares sums without the lock, and holds it for microseconds to add them. The writer
takes the lock before it answers a lesson, and holds it until it has learned the
feedback: a client with an answer never sees older counts, and the answer does not wait
for the counts.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from app.classifier.levels import Level, backed_off
from app.classifier.snapshot import Snapshot, lessons_after
from app.ledger.entry import epoch_of, learning
from app.services.clock import now
from app.storage import fold, ledger
from app.storage.database.engine import connections_opened, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Engine

    from app.classifier.snapshot import Scorer
    from app.classifier.specification import Specification
    from app.kernels import Ints
    from app.ledger.entry import Identity, LedgerRow
    from app.storage.profiles import MonthlyCounts, ProfileRow

    _State = tuple[str, Snapshot, Specification, int]

log = logging.getLogger(__name__)
# Rows read at once while catching up: some 2 MB, at 7.6 kB a row.  Feedback waits while
# they are added.
CATCH_UP_ROWS = 250
DIVERGED: Final = "the ledger went back (a restored backup, or a failover)"


@dataclass(eq=False)
class LiveProfile:
    """One profile in memory: its row and its present counts.

    `above` returns the profiles in memory to which it backs off, the most personal
    first. If counts decay, `newest` is the latest time of a row, or None before the
    first. `last_row` identifies the newest row, or is None if there is none.  `opened`
    is the number of connections opened until that row was last seen in the ledger.
    """

    row: ProfileRow
    _snapshot: Snapshot = field(repr=False)
    _: KW_ONLY
    last_row: Identity | None = None
    opened: int = 0
    newest: datetime | None = None

    def __post_init__(self) -> None:
        """Begin alone."""
        self.above: Callable[[], Sequence[LiveProfile]] = tuple
        self._scorer: tuple[list[_State], Scorer] | None = None
        # Reentrant: the thread that holds it may score as well.
        self._scoring = threading.RLock()
        self._learning = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[Snapshot]:
        """Hold the counts unchanged.

        Single numbers can be read from `snapshot` without the lock.
        """
        with self._scoring:
            yield self._snapshot

    @property
    def snapshot(self) -> Snapshot:
        """The counts, including every lesson that was answered."""
        with self._scoring:
            return self._snapshot

    @contextmanager
    def scoring(self) -> Iterator[Scorer]:
        """Hold the counts of this profile and the levels above, for a score."""
        with ExitStack() as holding:
            # Always the most personal first, to prevent deadlocks.
            lives = (self, *self.above())
            found = [holding.enter_context(live.held()) for live in lives]
            if len(found) == 1:
                yield found[0]
                return
            names = (live.row.name for live in lives)
            yield self._backed_off([*map(Level, names, found)])

    def _backed_off(self, levels: list[Level]) -> Scorer:
        """Return the scorer for some levels; the same one until a level changes."""
        state = [
            (profile, snapshot, snapshot.specification, snapshot.revision)
            for profile, snapshot in levels
        ]
        if self._scorer is None or not _alike(self._scorer[0], state):
            self._scorer = state, backed_off(levels)
        return self._scorer[1]

    @property
    def revision(self) -> int:
        """The last ledger row learned."""
        return self.snapshot.revision

    @property
    def specification(self) -> Specification:
        """The specification of the profile, read without the lock."""
        return self._snapshot.specification

    @property
    def month_began(self) -> bool:
        """Whether a month has begun since the one from which the snapshot counts ages.

        Also true after the clock was corrected, if that changes the month.
        """
        decay = self.specification.decay
        return decay is not None and month_of(self.newest) != decay.epoch

    @property
    def nbytes(self) -> int:
        """Memory that the counts take.  Unit: bytes."""
        tables = self._snapshot.tables.values()
        return sum(table.nbytes for table in tables)

    def apply(
        self,
        rows: Iterable[LedgerRow],
        ahead: Snapshot | None = None,
        *,
        answer: Callable[[], object] | None = None,
    ) -> bool:
        """Learn ledger rows, in the order of their revisions.

        Rows that are already known are skipped.

        Parameters
        ----------
        rows : iterable of LedgerRow
            The rows.
        ahead : Snapshot or None
            A copy of the snapshot that has learned these rows and all before them.  It
            replaces the snapshot, so the rows are not learned twice.
        answer : callable or None
            Announces that the rows are learned.  It is called just before, while the
            counts are held, and not at all if a row is missing.

        Returns
        -------
        bool
            False if a row is missing before one of `rows`: another process
            wrote it, and `follow` has to read it first.  Nothing is changed
            from the gap on.
        """
        with self._learning:
            known = self.revision
            later = [row for row in rows if row.revision > known]
            # Behind a gap, every revision is larger than its place.
            new = [row for at, row in enumerate(later, known + 1) if row.revision == at]
            complete = len(new) == len(later)
            if new:
                # Before the answer, because its receiver may ask for the month.
                if self.specification.decay is not None:
                    times = [self.newest, *(row.time for row in new)]
                    self.newest = max(filter(None, times))
                if ahead is not None:
                    ahead.decide_as(self.specification)
                    self._snapshot = ahead
                elif answer is not None and complete:
                    with self._scoring:
                        answer()
                        learning(self._snapshot, new)()
                else:
                    learn = learning(self._snapshot, new)
                    with self._scoring:
                        learn()
                self.last_row = new[-1].identity
            return complete

    def adopt(self, row: ProfileRow, specification: Specification) -> None:
        """Apply another policy from the next message on."""
        with self._learning, self._scoring:
            self.row = row
            self._snapshot.decide_as(specification)

    def follow(self, engine: Engine) -> None:
        """Add newer rows of any process.

        If the ledger and memory have different histories, the profile is reloaded.
        """
        before = connections_opened(engine)
        while True:
            last = self.last_row
            after = self.revision if last is None else last.revision - 1
            with reading(engine) as connection:
                rows = ledger.rows_after(
                    connection, self.row.id, revision=after, limit=CATCH_UP_ROWS
                )
            if last is not None and (not rows or rows[0].identity != last):
                self.reload(engine, f"{DIVERGED}: row {last.revision} is another one")
                return
            # This process stood still for a minute, and the features that such a row
            # took back have been deleted (`app.storage.retention`).
            if any(
                row.forgotten and row.vector is None and row.revision > self.revision
                for row in rows
            ):
                self.reload(
                    engine,
                    "messages were erased before this process had followed them",
                    level=logging.WARNING,
                )
                return
            if not self.apply(rows):
                self.reload(engine, "a ledger row is missing")
                return
            # Caught up: no row is new, or even a sum would have fitted.
            room = CATCH_UP_ROWS - sum(map(ledger.weight, rows))
            if len(rows) <= (last is not None) or room >= ledger.WEIGHT_OF_SUM:
                self.opened = before
                return

    def reload(
        self, engine: Engine, reason: str, *, level: int = logging.ERROR
    ) -> None:
        """Reload the profile, because memory cannot follow the ledger.

        Parameters
        ----------
        level : int
            Level of the line in the log: an error, unless a sound ledger and a process
            that stood still explain it.
        """
        log.log(level, "reloading the profile %r: %s", self.row.name, reason)
        loaded = load(engine, self.row, self.specification)
        with self._learning:
            self._answer_as(loaded)

    def advance_month(self, engine: Engine) -> None:
        """Count ages from the month of the newest row.

        Scoring and learning continue with the old weights while the counts are read
        with the new ones.
        """
        turned = load(engine, self.row, self.specification)
        while not self.take_over(turned):
            turned.follow(engine)

    def take_over(self, turned: LiveProfile) -> bool:
        """Take over another's counts, if as new; return whether they were."""
        with self._learning:
            known = turned.revision >= self.revision
            if known:
                self._answer_as(turned)
        return known

    def _answer_as(self, other: LiveProfile) -> None:
        """Take over another's counts, but not its policy, which may be older."""
        other.snapshot.decide_as(self.specification)
        self._snapshot = other.snapshot
        self.newest = other.newest
        self.last_row = other.last_row
        self.opened = other.opened


def _alike(before: list[_State], after: list[_State]) -> bool:
    """Return whether no level has changed, without comparing large specifications."""
    return len(before) == len(after) and all(
        a[1] is b[1] and a[2] is b[2] and (a[0], a[3]) == (b[0], b[3])
        for a, b in zip(before, after, strict=True)
    )


def month_of(newest: datetime | None) -> int | None:
    """Return the month from which ages count, given the time of the newest row.

    A row from a fast clock counts as one of this moment; otherwise it would give all
    earlier mail no weight, even after the clock is corrected.
    """
    if newest is None:
        return None
    present = now()
    return epoch_of(newest if newest < present + timedelta(days=1) else present)


def load(engine: Engine, row: ProfileRow, specification: Specification) -> LiveProfile:
    """Load a profile from the database."""
    before = connections_opened(engine)
    newest = None
    with reading(engine) as connection:
        if specification.decay is not None:
            newest = ledger.newest_time(connection, row.id)
            specification = specification.as_of(month_of(newest))
        stored = fold.load(connection, row, specification.decay)
        lessons = ledger.lessons_after(
            connection, row.id, revision=lessons_after(specification, stored.revision)
        )
        last_row = ledger.identities(connection, row.id).get(row.id)
    snapshot = Snapshot.of(
        specification, stored.tables, revision=stored.revision, lessons=lessons
    )
    return LiveProfile(row, snapshot, last_row=last_row, opened=before, newest=newest)


def diverged(live: LiveProfile, last_rows: Mapping[int, Identity]) -> bool:
    """Whether the newest row of a ledger differs from the one in memory."""
    there, here = last_rows.get(live.row.id), live.last_row
    if there is None or here is None or there.revision != here.revision:
        return False
    return there != here


class CachedProfile:
    """A profile of the database, whether its counts are in memory or not.

    Attributes
    ----------
    used : float
        Time of the last request for it.  Unit: seconds.
    """

    def __init__(self, row: ProfileRow, specification: Specification) -> None:
        self._row = row
        self._specification = specification
        self._messages = np.zeros(specification.n_classes, np.int64)
        self._alive: Callable[[], LiveProfile | None] = lambda: None
        self.used = 0.0
        self.kept: LiveProfile | None = None
        self.loading: Loading | None = None

    @property
    def live(self) -> LiveProfile | None:
        """The counts, if in memory: kept, or still in use."""
        return self.kept or self._alive()

    @property
    def row(self) -> ProfileRow:
        """The row of the profile when last read."""
        live = self.live
        return self._row if live is None else live.row

    @property
    def specification(self) -> Specification:
        """The specification of the profile."""
        live = self.live
        return self._specification if live is None else live.specification

    @property
    def revision(self) -> int:
        """The last ledger row learned."""
        live = self.live
        return self._row.revision if live is None else live.revision

    @property
    def messages(self) -> Ints:
        """Messages learned per class, shape (K,); see `Specification.in_messages`."""
        live = self.live
        return self._messages if live is None else live.snapshot.messages

    def apply(self, rows: Iterable[LedgerRow]) -> None:
        """Learn ledger rows if the counts are in memory, as `LiveProfile.apply`."""
        live = self.live
        if live is not None:
            live.apply(rows)

    def keep(self, live: LiveProfile) -> None:
        """Keep counts in memory."""
        self.kept = live
        self._alive = weakref.ref(live)

    def drop(self) -> None:
        """Release the counts once nobody uses them, and keep their figures."""
        live, self.kept = self.kept, None
        if live is not None:
            snapshot = live.snapshot
            self._row = replace(live.row, revision=snapshot.revision)
            self._specification = snapshot.specification
            self._messages = snapshot.messages

    def decide_as(self, row: ProfileRow, specification: Specification) -> None:
        """Apply another policy from the next message on."""
        live = self.live
        if live is not None:
            live.adopt(row, specification)
        self._row = row
        self._specification = self._specification.deciding_as(specification)

    def count(self, row: ProfileRow, counts: MonthlyCounts, epoch: int | None) -> None:
        """Take over a row with its messages per month; ages count from `epoch`."""
        self._row = row
        self._specification = specification = self._specification.as_of(epoch)
        decay, messages = specification.decay, np.zeros_like(self._messages)
        term = specification.verdict.terms[0]
        view = specification.classifiers[term.classifier].view
        for (of_view, month, label), n in counts.items():
            if of_view in {view, None} and label in specification.labels:
                weight = 1 if decay is None else decay.weight(month)
                messages[specification.labels.index(label)] += n * weight
        self._messages = messages


class Loading:
    """A profile that is being loaded.

    Attributes
    ----------
    ended : Future of LiveProfile or None
        Set to the profile when it is loaded, or None if it could not be.
    """

    def __init__(self, patience: float) -> None:
        self.ended: Future[LiveProfile | None] = Future()
        self._until = time.monotonic() + patience

    @property
    def patience(self) -> float:
        """Remaining time that a request waits for it.  Unit: seconds."""
        return self._until - time.monotonic()
