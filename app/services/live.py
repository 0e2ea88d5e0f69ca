"""Which profiles does this process answer for, and from which revision?

Contract of this file: a `LiveProfile` holds one immutable snapshot at a time.
Scoring reads the reference and nothing else: no lock, no database.  Whoever
learns makes the next snapshot and swaps the reference; only they lock.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from app.classifier.decay import weighted
from app.classifier.snapshot import Snapshot, lessons_after
from app.errors import Inconsistent, UnknownProfile
from app.services.news import News
from app.storage import ledger, profiles, state
from app.storage.deltas import sum_by_epoch, sum_by_view
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
    """One profile in memory: its row and the snapshot that answers now.

    Where counts decay, `month` is that of the newest row, 0 before the first.
    """

    def __init__(self, row: ProfileRow, snapshot: Snapshot) -> None:
        self.row = row
        self.snapshot = snapshot
        self._learning = threading.Lock()
        decay = snapshot.specification.decay
        self.month = (decay and decay.epoch) or 0

    @property
    def turned(self) -> bool:
        """Whether a month began after the one that the snapshot counts ages from."""
        decay = self.snapshot.specification.decay
        return decay is not None and self.month > (decay.epoch or 0)

    def apply(self, rows: Iterable[LedgerRow]) -> bool:
        """Add ledger rows to the snapshot, in the order of their revisions.

        Rows that the snapshot has already are passed over.

        Returns
        -------
        bool
            False if a row is missing before one of `rows`: another process
            wrote it, and `follow` has to read it first.  Nothing is changed
            from the gap on.
        """
        with self._learning:
            snapshot = self.snapshot
            new: list[LedgerRow] = []
            complete = True
            for row in rows:
                if row.revision <= snapshot.revision:
                    continue
                if row.revision != snapshot.revision + len(new) + 1:
                    complete = False
                    break
                new.append(row)
            if new:
                # One addition for all rows: deltas are elements of a group.
                epochs = sum_by_epoch(new, self.row.labels)
                decay = snapshot.specification.decay
                delta = sum_by_view(
                    weighted(epochs, decay), n_classes=len(self.row.labels)
                )
                self.snapshot = snapshot.learn(
                    delta,
                    revision=new[-1].revision,
                    lessons=[row.lesson for row in new],
                    takes_back=any(row.takes_back for row in new),
                )
                if decay is not None:
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
            made_of = self.snapshot.specification.deciding_as(specification)
            self.snapshot = replace(self.snapshot, specification=made_of)

    def follow(self, engine: Engine) -> int:
        """Add what any process has learned since, and return how many rows."""
        start = self.snapshot.revision
        while True:
            with reading(engine) as connection:
                rows = ledger.rows_after(
                    connection,
                    self.row.id,
                    revision=self.snapshot.revision,
                    limit=CATCH_UP_ROWS,
                )
            if not self.apply(rows):
                self.reload(engine, "a ledger row is missing")
                return self.snapshot.revision - start
            if not rows:
                return self.snapshot.revision - start

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
        return LiveProfile(
            self.row, _stored(engine, self.row, self.snapshot.specification)
        )

    def take_over(self, turned: LiveProfile) -> bool:
        """Answer as another does, unless that knows less; tell whether it did."""
        with self._learning:
            known = turned.snapshot.revision >= self.snapshot.revision
            if known:
                self._answer_as(turned)
        return known

    def _answer_as(self, other: LiveProfile) -> None:
        """Take what another has learned, but not its policy, which may be older."""
        made_of = other.snapshot.specification.deciding_as(self.snapshot.specification)
        self.snapshot = replace(other.snapshot, specification=made_of)
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
        known = {name: live.snapshot.revision for name, live in self._profiles.items()}
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
                elif row.revision > live.snapshot.revision:
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
                    live.snapshot.specification.decay,
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
