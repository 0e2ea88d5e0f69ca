"""Live profiles: snapshots in memory that follow the ledger.

Messages that are added together take less time than one by one, so the rows of a
busy hour wait for each other, and the first reader of their sum adds them.

Contract of this file: a `LiveProfile` refers to one `LazySnapshot`.  Scoring reads the
reference and nothing else: no lock, no database.  A thread that learns makes the next
`LazySnapshot` and swaps the reference; only such threads lock.  The sum is computed
without a lock: two threads that need it at the same moment both compute it, and come
to the same, bit for bit.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from app.classifier.snapshot import Snapshot, lessons_after
from app.errors import Inconsistent, UnknownProfile
from app.ledger.entry import epoch_of
from app.ledger.teaching import learn_rows
from app.services.retry import Failures
from app.storage import ledger, profiles
from app.storage.database.engine import connections_opened, reading, with_short_timeout
from app.storage.fold import state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Engine

    from app.classifier.specification import Specification
    from app.ledger.entry import Identity, LedgerRow
    from app.storage.profiles import ProfileRow

    Specify = Callable[[ProfileRow], Specification]

# One in so many rows may wait, and at most so many, so that feedback in a quick series
# is scored by counts that are 2 % behind at most, and not behind in a young profile.
# Learning a message takes, of 512 real ones after 2,000, on a slow machine
#
#     together    1     2     4     8    16    32    64
#     each     1066   851   652   516   340   262   217  µs
#     all       1.1   1.7   2.6   4.1   5.4   8.4  13.9  ms
#
# and the next scoring has to wait for all of it.  The verdicts on a series of thousands
# get worse the more of them wait (experiment 0072); those on other mail do not.
SHARE_WAITING: Final = 64
MOST_WAITING: Final = 8


@dataclass(slots=True, eq=False)
class LazySnapshot:
    """A snapshot, and ledger rows that are added to it when somebody asks.

    Parameters
    ----------
    base : Snapshot
        The sum when the first of the rows came.
    rows : tuple of LedgerRow
        The rows after it, without a gap.
    """

    base: Snapshot
    rows: tuple[LedgerRow, ...] = ()
    _sum: Snapshot | None = field(default=None, init=False, repr=False)

    @property
    def revision(self) -> int:
        """The ledger row that was learned last."""
        return self.rows[-1].revision if self.rows else self.base.revision

    @property
    def full(self) -> bool:
        """Whether so many rows wait that they are better added now."""
        most = min(MOST_WAITING, self.base.revision // SHARE_WAITING)
        return self._sum is None and len(self.rows) > most

    @property
    def computed(self) -> Snapshot:
        """The sum without the rows that still wait."""
        return self._sum or self.base

    def snapshot(self) -> Snapshot:
        """Return the sum of all.

        Raises
        ------
        InconsistentCounts
            If a count would become negative.
        """
        if self._sum is None:
            self._sum = learn_rows(self.base, self.rows)
        return self._sum

    def extended(self, rows: Sequence[LedgerRow]) -> LazySnapshot:
        """Return the snapshot with more rows; a sum that is computed is kept."""
        # Read once: another thread may compute it at any moment.
        added = self._sum
        if added is None:
            return LazySnapshot(self.base, (*self.rows, *rows))
        return LazySnapshot(added, tuple(rows))


log = logging.getLogger(__name__)
# Rows read at once while catching up: some 2 MB, at 7.6 kB a row.  Feedback waits
# while they are added.
CATCH_UP_ROWS = 250
_DIVERGED: Final = "its ledger went back (a restored backup, or a failover)"


class LiveProfile:
    """One profile in memory: its row and what answers now.

    Where counts decay, `month` is that of the newest row, 0 before the first.
    `last_row` identifies the newest row, None if there is none; `opened` is how many
    connections there were when the row was last seen in the ledger.
    """

    def __init__(
        self,
        row: ProfileRow,
        snapshot: Snapshot,
        *,
        last_row: Identity | None = None,
        opened: int = 0,
    ) -> None:
        self.row = row
        self.last_row = last_row
        self.opened = opened
        self._lazy = LazySnapshot(snapshot)
        self._learning = threading.Lock()
        decay = snapshot.specification.decay
        self.month = (decay and decay.epoch) or 0

    @property
    def snapshot(self) -> Snapshot:
        """Everything that this process has learned: scoring asks for it."""
        return self._lazy.snapshot()

    @property
    def computed(self) -> Snapshot:
        """The sum without the newest rows that still wait."""
        return self._lazy.computed

    @property
    def revision(self) -> int:
        """The ledger row that was learned last."""
        return self._lazy.revision

    @property
    def specification(self) -> Specification:
        """The specification of the profile."""
        return self._lazy.base.specification

    @property
    def month_began(self) -> bool:
        """Whether a month began after the one that the snapshot counts ages from."""
        decay = self.specification.decay
        return decay is not None and self.month > (decay.epoch or 0)

    def settle(self) -> None:
        """Add up the rows that wait, so that no scoring has to."""
        self._lazy.snapshot()

    def apply(self, rows: Iterable[LedgerRow], *, later: bool = False) -> bool:
        """Learn ledger rows, in the order of their revisions.

        Rows that are known already are passed over.

        Parameters
        ----------
        rows : iterable of LedgerRow
            The rows.
        later : bool, default False
            Whether a few may wait to be added until somebody asks for the sum.  Rows
            that take something back never do: they may contradict what is there.

        Returns
        -------
        bool
            False if a row is missing before one of `rows`: another process
            wrote it, and `follow` has to read it first.  Nothing is changed
            from the gap on.
        """
        with self._learning:
            lazy = self._lazy
            new: list[LedgerRow] = []
            complete = True
            for row in rows:
                if row.revision <= lazy.revision:
                    continue
                if row.revision != lazy.revision + len(new) + 1:
                    complete = False
                    break
                new.append(row)
            if new:
                lazy = lazy.extended(new)
                if not later or lazy.full or any(row.takes_back for row in new):
                    lazy = LazySnapshot(lazy.snapshot())
                self._lazy = lazy
                self.last_row = new[-1].identity
                if self.specification.decay is not None:
                    months = (epoch_of(row.time) for row in new)
                    self.month = max(self.month, *months)
            return complete

    def adopt(self, row: ProfileRow, specification: Specification) -> None:
        """Apply another policy from the next message on.

        Parameters
        ----------
        row : ProfileRow
            The profile with that policy.
        specification : Specification
            Whose thresholds and actions count from now on.
        """
        with self._learning:
            self.row = row
            made_of = self.specification.deciding_as(specification)
            self._lazy = LazySnapshot(replace(self.snapshot, specification=made_of))

    def follow(self, engine: Engine) -> int:
        """Add the rows of any process since, and return their number.

        Where the ledger has another history than memory, the profile is reloaded.
        """
        start = self.revision
        before = connections_opened(engine)
        while True:
            last = self.last_row
            after = self.revision if last is None else last.revision - 1
            with reading(engine) as connection:
                rows = ledger.rows_after(
                    connection, self.row.id, revision=after, limit=CATCH_UP_ROWS
                )
            if last is not None and (not rows or rows[0].identity != last):
                self.reload(engine, f"{_DIVERGED}: row {last.revision} is another one")
                return self.revision - start
            if not self.apply(rows):
                self.reload(engine, "a ledger row is missing")
                return self.revision - start
            if len(rows) <= (last is not None):
                self.opened = before
                return self.revision - start

    def reload(self, engine: Engine, reason: str) -> None:
        """Load the profile again, where memory and ledger have diverged.

        Parameters
        ----------
        engine : Engine
            The database.
        reason : str
            Logged as an error, because it never happens while the ledger only grows.
        """
        log.error("reloading the profile %r: %s", self.row.name, reason)
        loaded = _load(engine, self.row, self.specification)
        with self._learning:
            self._answer_as(loaded)

    def advance_month(self, engine: Engine) -> None:
        """Count ages from the month of the newest row.

        Scoring and learning go on with the old weights while the counts are read
        with the new ones.
        """
        turned = _load(engine, self.row, self.specification)
        while not self.take_over(turned):
            turned.follow(engine)

    def take_over(self, turned: LiveProfile) -> bool:
        """Answer as another that has learned as much; return whether it has."""
        with self._learning:
            known = turned.revision >= self.revision
            if known:
                self._answer_as(turned)
        return known

    def _answer_as(self, other: LiveProfile) -> None:
        """Take over the counts of another, but not its policy, which may be older."""
        made_of = other.specification.deciding_as(self.specification)
        self._lazy = LazySnapshot(replace(other.snapshot, specification=made_of))
        self.month = other.month
        self.last_row = other.last_row
        self.opened = other.opened


class LiveProfiles:
    """All profiles of the database, in memory."""

    def __init__(self, engine: Engine, specify: Specify) -> None:
        self._engine = engine
        self._specify = specify
        self._profiles: dict[str, LiveProfile] = {}
        self._broken: dict[str, Inconsistent] = {}
        self._failures = Failures()
        self._opened = 0
        self._refreshing = threading.Lock()

    def __iter__(self) -> Iterator[LiveProfile]:
        """Iterate over the profiles as they are now."""
        return iter(tuple(self._profiles.values()))

    def __contains__(self, name: object) -> bool:
        """Return whether there is a profile of that name."""
        return name in self._profiles

    def get(self, name: str) -> LiveProfile:
        """Return a profile by name.

        Raises
        ------
        UnknownProfile
            If there is none, or it was created within the last second and is not
            loaded yet.
        Inconsistent
            If its stored data cannot be read.
        """
        live = self._profiles.get(name)
        if live is not None:
            return live
        if name in self._broken:
            # Each raise would add to the traceback of the last, for ever.
            raise self._broken[name].with_traceback(None)
        raise UnknownProfile.named(name)

    def successor(self, replaced: LiveProfile) -> LiveProfile:
        """Load the profile that is in the place of another, and return it.

        Raises
        ------
        UnknownProfile
            If there is none.
        DatabaseUnavailable
            If it cannot be read.
        """
        self.refresh()
        return self.get(replaced.row.name)

    def refresh(self) -> int:
        """Load new profiles, follow the others, and return the rows added.

        A profile that cannot be read is logged, and left as it is.
        """
        # One at a time: rows that are read first are applied first, so that a thread
        # that has changed a policy and refreshes does not get the old one back.
        with self._refreshing:
            return self._refresh()

    def _refresh(self) -> int:
        # Before the database is asked: feedback goes on meanwhile.
        known = {name: live.revision for name, live in self._profiles.items()}
        with reading(with_short_timeout(self._engine)) as connection:
            # With this connection among them, which may be the first to a new server.
            opened = connections_opened(self._engine)
            rows = profiles.list_all(connection)
            # The ledger of another server may be as long, by other rows.
            changed = self._opened != opened
            last_rows = ledger.identities(connection) if changed else {}
        followed = 0
        for row in rows:
            live = self._profiles.get(row.name)
            # A profile that was replaced has its name and another key.
            if live is None or live.row.id != row.id:
                self._take_up(row)
                continue
            try:
                if row.policy != live.row.policy:
                    live.adopt(row, self._specify(row))
                # 0: another thread has loaded it just now.
                before = known.get(row.name, 0)
                if row.revision < before:
                    live.reload(
                        self._engine, f"{_DIVERGED}: from {before} to {row.revision}"
                    )
                elif row.revision > live.revision or _diverged(live, last_rows):
                    followed += live.follow(self._engine)
            # An error of one profile must not stop the others.
            except Inconsistent as error:
                if self._failures.report(row.id, error):
                    log.error("the profile %r cannot follow: %s", row.name, error)  # noqa: TRY400
                    self._start_over(live)
            else:
                self._failures.resolve(row.id)
        self._opened = opened
        return followed

    def _take_up(self, row: ProfileRow) -> None:
        """Load a profile that is new, or has taken the place of another."""
        if self._failures.pausing(row.id):
            return
        if row.name in self._profiles:
            log.info("the profile %r was replaced: loading it", row.name)
        try:
            self._profiles[row.name] = self._load(row)
        # An error of one profile must not stop the others.
        except Inconsistent as error:
            self._broken[row.name] = error
            if self._failures.report(row.id, error):
                log.error("the profile %r cannot be loaded: %s", row.name, error)  # noqa: TRY400
        else:
            self._broken.pop(row.name, None)
            self._failures.resolve(row.id)

    def _start_over(self, live: LiveProfile) -> None:
        """Load a profile that cannot follow once, in case memory is wrong."""
        with suppress(Inconsistent):
            live.reload(self._engine, "it cannot follow, and the ledger may be sound")

    def advance_month(self) -> bool:
        """Count ages from a month that has begun; return False, as nothing is left.

        Raises
        ------
        DatabaseUnavailable
            If the counts cannot be read; the old weights stay.
        """
        for live in self:
            if live.month_began:
                begun = time.monotonic()
                live.advance_month(self._engine)
                log.info(
                    "the profile %r now counts ages from %s; this took %.1f s",
                    live.row.name,
                    live.specification.decay,
                    time.monotonic() - begun,
                )
        return False

    def _load(self, row: ProfileRow) -> LiveProfile:
        return _load(self._engine, row, self._specify(row))


def _load(engine: Engine, row: ProfileRow, specification: Specification) -> LiveProfile:
    """Return a profile as the database has it."""
    before = connections_opened(engine)
    with reading(engine) as connection:
        if specification.decay is not None:
            specification = specification.as_of(ledger.newest_epoch(connection, row.id))
        stored = state.load(connection, row, specification.decay)
        lessons = ledger.lessons_after(
            connection, row.id, revision=lessons_after(specification, stored.revision)
        )
        last_row = ledger.identities(connection, row.id).get(row.id)
    snapshot = Snapshot.of(
        specification, stored.tables, revision=stored.revision, lessons=lessons
    )
    return LiveProfile(row, snapshot, last_row=last_row, opened=before)


def _diverged(live: LiveProfile, last_rows: Mapping[int, Identity]) -> bool:
    """Whether the newest row of a ledger is another one than memory has."""
    there, here = last_rows.get(live.row.id), live.last_row
    return (
        there is not None
        and here is not None
        and there.revision == here.revision
        and there != here
    )
