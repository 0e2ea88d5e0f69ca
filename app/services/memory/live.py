"""Live profiles: snapshots in memory that follow the ledger.

Messages that are added together take less time than one by one, so the rows of a
busy hour wait for each other, and are added by whoever needs their sum.

Contract of this file: the sum is computed without a lock.  Two threads that need it
at the same moment both compute it, and come to the same, bit for bit.

Contract of this file: a `LiveProfile` refers to what is known `Latest`.  Scoring
reads the reference and nothing else: no lock, no database.  Whoever learns makes the
next one and swaps the reference; only they lock.
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
from app.services.retry import Backoff, News
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

# Of so many rows one may wait, and at most so many, so that what feedback is scored by
# in a quick series is 2 % behind at most, and nothing in a young profile.
# Learning a message takes, of 512 real ones after 2,000, on a slow machine
#
#     together    1     2     4     8    16    32    64
#     each     1066   851   652   516   340   262   217  µs
#     all       1.1   1.7   2.6   4.1   5.4   8.4  13.9  ms
#
# and whoever scores the next message has to wait for all of it.  What a series of
# thousands is scored by gets worse the more of them wait (experiment 0072); the
# verdicts on other mail do not.
SHARE_WAITING: Final = 64
MOST_WAITING: Final = 8


@dataclass(slots=True, eq=False)
class Latest:
    """A snapshot, and ledger rows that are not added to it yet.

    Parameters
    ----------
    settled : Snapshot
        What was added up when the first of them came.
    waiting : tuple of LedgerRow
        The rows after it, without a gap.
    """

    settled: Snapshot
    waiting: tuple[LedgerRow, ...] = ()
    _sum: Snapshot | None = field(default=None, init=False, repr=False)

    @property
    def revision(self) -> int:
        """The ledger row that was learned last."""
        return self.waiting[-1].revision if self.waiting else self.settled.revision

    @property
    def full(self) -> bool:
        """Whether so much is waiting that it is better added now."""
        most = min(MOST_WAITING, self.settled.revision // SHARE_WAITING)
        return self._sum is None and len(self.waiting) > most

    @property
    def at_hand(self) -> Snapshot:
        """What is added up already: some of the newest rows may be missing."""
        return self._sum or self.settled

    def snapshot(self) -> Snapshot:
        """Return the sum of all.

        Raises
        ------
        InconsistentCounts
            If a count would become negative.
        """
        if self._sum is None:
            self._sum = learn_rows(self.settled, self.waiting)
        return self._sum

    def then(self, rows: Sequence[LedgerRow]) -> Latest:
        """Return what is known after more rows; what was added up stays so."""
        # Looked at once: it may get ready at any moment.
        added = self._sum
        if added is None:
            return Latest(self.settled, (*self.waiting, *rows))
        return Latest(added, tuple(rows))


log = logging.getLogger(__name__)
# Rows read at once while catching up: some 2 MB, at 7.6 kB a row.  Feedback waits
# while they are added.
CATCH_UP_ROWS = 250
_PARTED: Final = "its ledger went back (a restored backup, or a failover)"


class LiveProfile:
    """One profile in memory: its row and what answers now.

    Where counts decay, `month` is that of the newest row, 0 before the first.
    `newest` tells that row from others, None if there is none; `opened` is how many
    connections there were when it was last seen in the ledger.
    """

    def __init__(
        self,
        row: ProfileRow,
        snapshot: Snapshot,
        *,
        newest: Identity | None = None,
        opened: int = 0,
    ) -> None:
        self.row = row
        self.newest = newest
        self.opened = opened
        self._latest = Latest(snapshot)
        self._learning = threading.Lock()
        decay = snapshot.specification.decay
        self.month = (decay and decay.epoch) or 0

    @property
    def snapshot(self) -> Snapshot:
        """All that this process has learned: whoever scores asks for it."""
        return self._latest.snapshot()

    @property
    def at_hand(self) -> Snapshot:
        """What is added up already: some of the newest rows may be missing."""
        return self._latest.at_hand

    @property
    def revision(self) -> int:
        """The ledger row that was learned last."""
        return self._latest.revision

    @property
    def specification(self) -> Specification:
        """What the profile is made of."""
        return self._latest.settled.specification

    @property
    def turned(self) -> bool:
        """Whether a month began after the one that the snapshot counts ages from."""
        decay = self.specification.decay
        return decay is not None and self.month > (decay.epoch or 0)

    def settle(self) -> None:
        """Add up what is waiting, so that nobody who scores has to."""
        self._latest.snapshot()

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
            latest = self._latest
            new: list[LedgerRow] = []
            complete = True
            for row in rows:
                if row.revision <= latest.revision:
                    continue
                if row.revision != latest.revision + len(new) + 1:
                    complete = False
                    break
                new.append(row)
            if new:
                latest = latest.then(new)
                if not later or latest.full or any(row.takes_back for row in new):
                    latest = Latest(latest.snapshot())
                self._latest = latest
                self.newest = new[-1].identity
                if self.specification.decay is not None:
                    months = (epoch_of(row.time) for row in new)
                    self.month = max(self.month, *months)
            return complete

    def adopt(self, row: ProfileRow, specification: Specification) -> None:
        """Decide by another policy from the next message on.

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
            self._latest = Latest(replace(self.snapshot, specification=made_of))

    def follow(self, engine: Engine) -> int:
        """Add what any process has learned since, and return how many rows.

        Where the ledger has another past than memory, the profile is loaded anew.
        """
        start = self.revision
        before = connections_opened(engine)
        while True:
            last = self.newest
            after = self.revision if last is None else last.revision - 1
            with reading(engine) as connection:
                rows = ledger.rows_after(
                    connection, self.row.id, revision=after, limit=CATCH_UP_ROWS
                )
            if last is not None and (not rows or rows[0].identity != last):
                self.reload(engine, f"{_PARTED}: row {last.revision} is another one")
                return self.revision - start
            if not self.apply(rows):
                self.reload(engine, "a ledger row is missing")
                return self.revision - start
            if len(rows) <= (last is not None):
                self.opened = before
                return self.revision - start

    def reload(self, engine: Engine, reason: str) -> None:
        """Load the profile anew, where memory and ledger have parted.

        Parameters
        ----------
        engine : Engine
            The database.
        reason : str
            What was seen; it is logged as an error, because it never happens
            while the ledger only grows.
        """
        log.error("loading the profile %r anew: %s", self.row.name, reason)
        loaded = _load(engine, self.row, self.specification)
        with self._learning:
            self._answer_as(loaded)

    def turn(self, engine: Engine) -> None:
        """Count ages from the month of the newest row.

        Scoring and learning go on with the old weights while the counts are read
        with the new ones.
        """
        turned = _load(engine, self.row, self.specification)
        while not self.take_over(turned):
            turned.follow(engine)

    def take_over(self, turned: LiveProfile) -> bool:
        """Answer as another does, unless that knows less; tell whether it did."""
        with self._learning:
            known = turned.revision >= self.revision
            if known:
                self._answer_as(turned)
        return known

    def _answer_as(self, other: LiveProfile) -> None:
        """Take what another has learned, but not its policy, which may be older."""
        made_of = other.specification.deciding_as(self.specification)
        self._latest = Latest(replace(other.snapshot, specification=made_of))
        self.month = other.month
        self.newest = other.newest
        self.opened = other.opened


class LiveProfiles:
    """All profiles of the database, in memory."""

    def __init__(self, engine: Engine, specify: Specify) -> None:
        self._engine = engine
        self._specify = specify
        self._profiles: dict[str, LiveProfile] = {}
        self._broken: dict[str, Inconsistent] = {}
        self._news = News()
        self._backoff = Backoff()
        self._opened = 0
        self._refreshing = threading.Lock()

    def __iter__(self) -> Iterator[LiveProfile]:
        """Iterate over the profiles as they are now."""
        return iter(tuple(self._profiles.values()))

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a profile of that name."""
        return name in self._profiles

    def get(self, name: str) -> LiveProfile:
        """Return a profile by name.

        Raises
        ------
        UnknownProfile
            If there is none, or it was made within the last second and has
            not been noticed yet.
        Inconsistent
            If what the database holds of it cannot be read.
        """
        live = self._profiles.get(name)
        if live is not None:
            return live
        if name in self._broken:
            # Each raise would add to the traceback of the last, for ever.
            raise self._broken[name].with_traceback(None)
        raise UnknownProfile.named(name)

    def successor(self, replaced: LiveProfile) -> LiveProfile:
        """Load what has the place of a profile that was replaced, and return it.

        Raises
        ------
        UnknownProfile
            If nothing has.
        DatabaseUnavailable
            If it cannot be read.
        """
        self.refresh()
        return self.get(replaced.row.name)

    def refresh(self) -> int:
        """Load new profiles, follow the others, and return the rows added.

        A profile that cannot be read is told in the log, and left as it is.
        """
        # One at a time: what is read first is taken up first, so that who has
        # changed a policy and refreshes does not get the old one back.
        with self._refreshing:
            return self._refresh()

    def _refresh(self) -> int:
        # Before the database is asked: feedback goes on meanwhile.
        known = {name: live.revision for name, live in self._profiles.items()}
        before_it = connections_opened(self._engine)
        with reading(with_short_timeout(self._engine)) as connection:
            rows = profiles.list_all(connection)
            # The ledger of another server may be as long, by other rows.
            changed = self._opened != before_it
            newest = ledger.identities(connection) if changed else {}
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
                        self._engine, f"{_PARTED}: from {before} to {row.revision}"
                    )
                elif row.revision > live.revision or _parted(live, newest):
                    followed += live.follow(self._engine)
            # What is wrong with one profile must not stop the others.
            except Inconsistent as error:
                if self._news.tell(row.id, error):
                    log.error("the profile %r cannot follow: %s", row.name, error)  # noqa: TRY400
                    self._start_over(live)
            else:
                self._news.over(row.id)
        self._opened = before_it
        return followed

    def _take_up(self, row: ProfileRow) -> None:
        """Load a profile that is new, or has taken the place of another."""
        if self._backoff.waits(row.id):
            return
        if row.name in self._profiles:
            log.info("the profile %r was replaced: loading it", row.name)
        try:
            self._profiles[row.name] = self._load(row)
        # What is wrong with one profile must not stop the others.
        except Inconsistent as error:
            self._broken[row.name] = error
            self._backoff.failed(row.id)
            if self._news.tell(row.id, error):
                log.error("the profile %r cannot be loaded: %s", row.name, error)  # noqa: TRY400
        else:
            self._broken.pop(row.name, None)
            self._backoff.over(row.id)
            self._news.over(row.id)

    def _start_over(self, live: LiveProfile) -> None:
        """Load a profile that cannot follow, once, in case that memory is wrong."""
        with suppress(Inconsistent):
            live.reload(self._engine, "perhaps the ledger is sound")

    def turn(self) -> bool:
        """Count ages from a month that has begun; return False: nothing is left.

        Raises
        ------
        DatabaseUnavailable
            If the counts cannot be read; the old weights stay.
        """
        for live in self:
            if live.turned:
                begun = time.monotonic()
                live.turn(self._engine)
                log.info(
                    "the profile %r counts ages from %s; it took %.1f s",
                    live.row.name,
                    live.specification.decay,
                    time.monotonic() - begun,
                )
        return False

    def _load(self, row: ProfileRow) -> LiveProfile:
        return _load(self._engine, row, self._specify(row))


def _load(engine: Engine, row: ProfileRow, specification: Specification) -> LiveProfile:
    """Return what the database holds of a profile."""
    before = connections_opened(engine)
    with reading(engine) as connection:
        if specification.decay is not None:
            specification = specification.as_of(ledger.newest_epoch(connection, row.id))
        stored = state.load(connection, row, specification.decay)
        lessons = ledger.lessons_after(
            connection, row.id, revision=lessons_after(specification, stored.revision)
        )
        newest = ledger.identities(connection, row.id).get(row.id)
    snapshot = Snapshot.of(
        specification, stored.tables, revision=stored.revision, lessons=lessons
    )
    return LiveProfile(row, snapshot, newest=newest, opened=before)


def _parted(live: LiveProfile, newest: Mapping[int, Identity]) -> bool:
    """Whether the newest row of a ledger is another one than memory has."""
    there, here = newest.get(live.row.id), live.newest
    return (
        there is not None
        and here is not None
        and there.revision == here.revision
        and there != here
    )
