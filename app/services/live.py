"""Which profiles does this process answer for, and from which revision?

Contract of this file: a `LiveProfile` refers to what is known `Latest`.  Scoring
reads the reference and nothing else: no lock, no database.  Whoever learns makes the
next one and swaps the reference; only they lock.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from app.classifier.snapshot import Snapshot, lessons_after
from app.errors import Inconsistent, UnknownProfile
from app.services.latest import Latest
from app.services.news import News
from app.storage import ledger, profiles, state
from app.storage.engine import hasty, reading
from app.storage.entry import epoch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlalchemy import Engine

    from app.classifier.specification import Specification
    from app.storage.entry import LedgerRow
    from app.storage.profiles import ProfileRow

    Specify = Callable[[ProfileRow], Specification]

log = logging.getLogger(__name__)

# Rows read at once while catching up: some 2 MB, at 7.6 kB a row.  Feedback waits
# while they are added.
CATCH_UP_ROWS = 250


class LiveProfile:
    """One profile in memory: its row and what answers now.

    Where counts decay, `month` is that of the newest row, 0 before the first.
    """

    def __init__(self, row: ProfileRow, snapshot: Snapshot) -> None:
        self.row = row
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
        """Add what any process has learned since, and return how many rows."""
        start = self.revision
        while True:
            with reading(engine) as connection:
                rows = ledger.rows_after(
                    connection,
                    self.row.id,
                    revision=self.revision,
                    limit=CATCH_UP_ROWS,
                )
            if not self.apply(rows):
                self.reload(engine, "a ledger row is missing")
                return self.revision - start
            if not rows:
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
        loaded = self._loaded(engine)
        with self._learning:
            self._answer_as(loaded)

    def turn(self, engine: Engine) -> None:
        """Count ages from the month of the newest row.

        Scoring and learning go on with the old weights while the counts are read
        with the new ones.
        """
        turned = self._loaded(engine)
        while not self.take_over(turned):
            turned.follow(engine)

    def _loaded(self, engine: Engine) -> LiveProfile:
        """Return the same profile as the database has it."""
        return LiveProfile(self.row, _stored(engine, self.row, self.specification))

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


class LiveProfiles:
    """All profiles of the database, in memory."""

    def __init__(self, engine: Engine, specify: Specify) -> None:
        self._engine = engine
        self._specify = specify
        self._profiles: dict[str, LiveProfile] = {}
        self._news = News()
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
        """
        try:
            return self._profiles[name]
        except KeyError:
            raise UnknownProfile.named(name) from None

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
        """Load new profiles, follow the others, and return the rows added."""
        # One at a time: what is read first is taken up first, so that who has
        # changed a policy and refreshes does not get the old one back.
        with self._refreshing:
            return self._refresh()

    def _refresh(self) -> int:
        # Before the database is asked: feedback goes on meanwhile.
        known = {name: live.revision for name, live in self._profiles.items()}
        with reading(hasty(self._engine)) as connection:
            rows = profiles.list_all(connection)
        followed = 0
        for row in rows:
            live = self._profiles.get(row.name)
            # A profile that was replaced has its name and another key.
            if live is None or live.row.id != row.id:
                if live is not None:
                    log.info("the profile %r was replaced: loading it", row.name)
                self._profiles[row.name] = self._load(row)
                continue
            try:
                if row.policy != live.row.policy:
                    live.adopt(row, self._specify(row))
                # 0: another thread has loaded it just now.
                before = known.get(row.name, 0)
                if row.revision < before:
                    live.reload(
                        self._engine,
                        f"its ledger went back from {before} to "
                        f"{row.revision} (a restored backup, or a failover)",
                    )
                elif row.revision > live.revision:
                    followed += live.follow(self._engine)
            # What is wrong with one profile must not stop the others.
            except Inconsistent as error:
                if self._news.tell(row.id, error):
                    log.error("the profile %r cannot follow: %s", row.name, error)  # noqa: TRY400
            else:
                self._news.over(row.id)
        return followed

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
        return LiveProfile(row, _stored(self._engine, row, self._specify(row)))


def _stored(engine: Engine, row: ProfileRow, specification: Specification) -> Snapshot:
    """Return the snapshot of what the database holds of a profile."""
    with reading(engine) as connection:
        if specification.decay is not None:
            specification = specification.as_of(ledger.newest_epoch(connection, row.id))
        stored = state.load(connection, row, specification.decay)
        lessons = ledger.lessons_after(
            connection, row.id, revision=lessons_after(specification, stored.revision)
        )
    return Snapshot.of(
        specification, stored.tables, revision=stored.revision, lessons=lessons
    )
