"""Profile cache: all profiles by name, and the counts of those that are asked.

Contract of this file: the row of every profile is in memory, and its counts from the
first request on, until nobody has asked for some time or others need the room
(decision 0025).  The site's own stay.  However many ask at once, a profile is loaded
once; and while anybody uses what is dropped, it is followed, and is what the next
request gets: there are never two of one profile that learn apart.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from app.errors import Inconsistent, PostbayesError, ProfileLoading, UnknownProfile
from app.services.clock import Failures
from app.services.memory.live import diverged, load, newest_epoch
from app.services.recipients import above
from app.storage import ledger, profiles
from app.storage.database.engine import connections_opened, reading, with_short_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from numpy.typing import NDArray
    from sqlalchemy import Connection, Engine, Row

    from app.classifier.specification import Specification
    from app.ledger.entry import Identity, LedgerRow
    from app.services.memory.live import Clock, LiveProfile
    from app.storage.profiles import MonthlyCounts, ProfileMark, ProfileRow

    Specify = Callable[[ProfileRow], Specification]

log = logging.getLogger(__name__)
# A request waits so long for a profile; then others answer in its place, or the sender
# tries again.  Precedent: rspamd gives a message 8 s (`task_timeout`), and Postfix a
# milter 30 s for a command.  Unit: seconds.
PATIENCE: Final = 5.0


class CachedProfile:
    """A profile of the database, whether its counts are in memory or not.

    Parameters
    ----------
    row : ProfileRow
        The profile when it was read last.
    specification : Specification
        What it is made of.

    Attributes
    ----------
    used : float
        When it was asked for last.  Unit: seconds.
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
        """The counts, where they are in memory: kept, or in use by somebody."""
        return self.kept or self._alive()

    @property
    def row(self) -> ProfileRow:
        """The profile when it was read last."""
        live = self.live
        return self._row if live is None else live.row

    @property
    def specification(self) -> Specification:
        """The specification of the profile."""
        live = self.live
        return self._specification if live is None else live.specification

    @property
    def revision(self) -> int:
        """The ledger row that was learned last."""
        live = self.live
        return self._row.revision if live is None else live.revision

    @property
    def messages(self) -> NDArray[np.int64]:
        """Messages learned per class, shape (K,); see `Specification.in_messages`."""
        live = self.live
        return self._messages if live is None else live.snapshot.messages

    def apply(self, rows: Iterable[LedgerRow]) -> None:
        """Learn ledger rows where the counts are in memory, as `LiveProfile.apply`."""
        live = self.live
        if live is not None:
            live.apply(rows)

    def keep(self, live: LiveProfile) -> None:
        """Keep counts in memory."""
        self.kept = live
        self._alive = weakref.ref(live)

    def drop(self) -> None:
        """Let the counts go, as soon as nobody uses them, and keep their figures."""
        live, self.kept = self.kept, None
        if live is not None:
            snapshot = live.snapshot
            self._row = replace(live.row, revision=snapshot.revision)
            self._specification = snapshot.specification
            self._messages = snapshot.messages

    def decide_as(self, row: ProfileRow, specification: Specification) -> None:
        """Decide by another policy from the next message on."""
        live = self.live
        if live is not None:
            live.adopt(row, specification)
        self._row = row
        self._specification = self._specification.deciding_as(specification)

    def count(self, row: ProfileRow, counts: MonthlyCounts, epoch: int | None) -> None:
        """Take over a row with the messages of each month; ages are from `epoch` on."""
        self._row = row
        self._specification = made_of = self._specification.as_of(epoch)
        decay, messages = made_of.decay, np.zeros_like(self._messages)
        term = made_of.verdict.terms[0]
        view = made_of.classifiers[term.classifier].view
        for (of_view, month, label), n in counts.messages.items():
            if of_view in {view, None} and label in made_of.labels:
                weight = 1 if decay is None else decay.weight(month)
                messages[made_of.labels.index(label)] += n * weight
        self._messages = messages


class Loading:
    """A profile on its way into memory.

    Attributes
    ----------
    ended : Future of LiveProfile or None
        The profile, as soon as it is there; None if it could not be loaded.
    """

    def __init__(self, patience: float) -> None:
        self.ended: Future[LiveProfile | None] = Future()
        self._until = time.monotonic() + patience

    @property
    def patience(self) -> float:
        """How long a request still waits for it.  Unit: seconds."""
        return self._until - time.monotonic()


class LiveProfiles:
    """All profiles of the database; the counts of those that are asked are in memory.

    Parameters
    ----------
    engine : Engine
        The database.
    specify : callable
        Returns the specification of a stored profile.
    clock : callable, optional
        Returns the time now, in UTC.
    site : str, optional
        The profile that is never dropped.
    levels : bool, default False
        Whether a profile backs off to that of its domain and that of the site.
    most_bytes : float
        Most memory of the counts together; the profile that was asked last and that
        of the site stay all the same.
    idle : float
        A profile that nobody has asked for so long is dropped.  Unit: seconds.
    patience : float
        How long a request waits for a profile to be loaded.  Unit: seconds.
    """

    def __init__(
        self,
        engine: Engine,
        specify: Specify,
        clock: Clock | None = None,
        *,
        site: str | None = None,
        levels: bool = False,
        most_bytes: float = math.inf,
        idle: float = math.inf,
        patience: float = math.inf,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._specify = specify
        self._site = site
        self._levels = levels
        self._most_bytes = most_bytes
        self._idle = idle
        self._patience = patience
        self._profiles: dict[str, CachedProfile] = {}
        # Memory of the counts, but for what they learned since `drop_idle`: a load that
        # adds up 10,000 profiles takes as long as for a large one.
        self._size = 0
        # Those that cannot be read at all, by name: their key is missing.
        self._broken: dict[str, Inconsistent] = {}
        # Why the counts of a profile cannot be had, by its key.
        self._errors: dict[int, Exception] = {}
        self._failures = Failures()
        self._opened = 0
        # What was last read of the profiles together, and of each by its key.
        self._total: Row[*tuple[Any, ...]] | None = None
        self._marks: dict[int, ProfileMark] = {}
        # Those to be read again although nothing changes: they could not be read, or
        # something older was loaded meanwhile.
        self._again: set[int] = set()
        # The last row of the ledger that is counted, where there are further ones.
        self.unfolded: dict[int, int] = {}
        self._refreshing = threading.Lock()
        # Which profiles are kept.
        self._changing = threading.Lock()
        # One at a time: a large one takes a core and, while it is read, twice its room.
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="profile-loader")

    def __iter__(self) -> Iterator[CachedProfile]:
        """Iterate over the profiles as they are now."""
        return iter(tuple(self._profiles.values()))

    def by_key(self, profile_id: int) -> CachedProfile | None:
        """Return a profile by its key; None where there is none that can be read."""
        mark = self._marks.get(profile_id)
        cached = None if mark is None else self._profiles.get(mark[1])
        return cached if cached is not None and cached.row.id == profile_id else None

    def __contains__(self, name: object) -> bool:
        """Return whether there is a profile of that name."""
        return name in self._profiles

    def find(self, name: str) -> CachedProfile:
        """Return a profile by name, without having its counts loaded.

        Raises
        ------
        UnknownProfile
            If there is none, or it was created within the last second.
        Inconsistent
            If it cannot be read without a key that is missing.
        """
        cached = self._profiles.get(name)
        if cached is not None:
            return cached
        if name in self._broken:
            raise self._broken[name].with_traceback(None)
        raise UnknownProfile.named(name)

    def get(self, name: str) -> LiveProfile:
        """Return a profile by name, with its counts.

        Where they are not in memory, a thread loads them: the caller waits, unless it
        is in an event loop.

        Raises
        ------
        UnknownProfile
            As `find`.
        ProfileLoading
            If the counts are not there yet.
        Inconsistent
            If its stored data cannot be read.
        DatabaseUnavailable
            If the database is away.
        """
        cached = self.find(name)
        cached.used = time.monotonic()
        live = cached.kept
        if live is not None:
            return live
        while True:
            loading = self._begin(cached)
            if not isinstance(loading, Loading):
                return loading
            patience = loading.patience
            if patience <= 0 or _in_event_loop():
                raise ProfileLoading.named(name, loading.ended, patience)
            with suppress(FutureTimeoutError):
                live = loading.ended.result(min(patience, threading.TIMEOUT_MAX))
                if live is not None:
                    return live

    def get_all(self, names: Iterable[str]) -> dict[str, LiveProfile]:
        """Return profiles by their names, as `get` does, with the levels above them.

        They are loaded together.
        """
        wanted = list(names)
        higher = (each.row.name for name in wanted for each in self.above(name))
        asked = dict.fromkeys([*wanted, *higher])
        for name in asked:
            cached = self.find(name)
            if cached.kept is None:
                self._begin(cached)
        found = {name: self.get(name) for name in asked}
        return {name: found[name] for name in wanted}

    def above(self, name: str) -> list[CachedProfile]:
        """Return the profiles that one backs off to, the most personal first.

        That of the domain of an address, and that of the site, where they exist.
        """
        if not self._levels or self._site is None:
            return []
        found = map(self._profiles.get, above(name, self._site))
        return [cached for cached in found if cached is not None]

    def load(self, name: str) -> LiveProfile:
        """Return a profile as `get` does, however long that takes."""
        while True:
            loading = self._begin(self.find(name))
            if not isinstance(loading, Loading):
                return loading
            live = loading.ended.result()
            if live is not None:
                return live

    def answers(self, name: str) -> bool:
        """Return whether the counts of a profile and its levels are there, or soon."""
        cached = self._profiles.get(name)
        return cached is not None and all(
            each.live is not None
            or (
                each.row.id not in self._errors
                and (each.loading is None or each.loading.patience > 0)
            )
            for each in (cached, *self.above(name))
        )

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

    def found_again(self, replaced: CachedProfile) -> CachedProfile:
        """Return the profile that is in the place of another, as `successor` does."""
        self.refresh()
        return self.find(replaced.row.name)

    def refresh(self) -> int:
        """Find new profiles, follow those in memory, and return the rows added.

        A profile that cannot be read is logged, and left as it is.
        """
        # One at a time: rows that are read first are applied first, so that a thread
        # that has changed a policy and refreshes does not get the old one back.
        with self._refreshing:
            try:
                return self._refresh()
            except BaseException:
                self._total, self._marks = None, {}
                raise

    def respecify(self, specify: Specify) -> None:
        """Have all profiles decide by other settings from the next message on."""
        with self._refreshing:
            self._specify = specify
            for cached in self:
                # The key of its ids is missing: it goes on as it was.
                with suppress(Inconsistent):
                    cached.decide_as(cached.row, specify(cached.row))

    def limit(self, most_bytes: float, *, idle: float) -> None:
        """Change the bounds; `drop_idle` applies them."""
        self._most_bytes, self._idle = most_bytes, idle

    def drop_idle(self) -> None:
        """Drop idle profiles, and the least recent ones beyond the limit."""
        with self._changing:
            before, now = self.nbytes, time.monotonic()
            self._size = before
            for cached in self._droppable():
                if now - cached.used >= self._idle:
                    self._drop(cached, "the profile was idle")
            self._make_room()
            dropped = self._size < before
        if dropped:
            _return_memory()

    def close(self) -> None:
        """Load nothing more."""
        self._loader.shutdown(cancel_futures=True)

    @property
    def nbytes(self) -> int:
        """Memory that the counts of all profiles take.  Unit: bytes."""
        return sum(each.kept.nbytes for each in self if each.kept is not None)

    def advance_month(self) -> bool:
        """Count ages from a month that has begun; return False, as nothing is left.

        Raises
        ------
        DatabaseUnavailable
            If the counts cannot be read; the old weights stay.
        """
        for cached in self:
            live = cached.live
            if live is not None and live.month_began:
                begun = time.monotonic()
                live.advance_month(self._engine)
                log.info(
                    "the profile %r now counts ages from %s (took %.1f s)",
                    live.row.name,
                    live.specification.decay,
                    time.monotonic() - begun,
                )
        return False

    def _begin(self, cached: CachedProfile) -> LiveProfile | Loading:
        """Return the counts, or have them loaded."""
        with self._changing:
            live = cached.live
            if live is not None:
                self._keep(cached, live)
                return live
            error = self._errors.get(cached.row.id)
            if error is not None:
                # Each raise would add to the traceback of the last, for ever.
                raise error.with_traceback(None)
            if cached.loading is None:
                cached.loading = Loading(self._patience)
                self._loader.submit(self._load, cached, cached.loading)
            return cached.loading

    def _load(self, cached: CachedProfile, loading: Loading) -> None:
        """Load a profile, and let go of who waits for it."""
        row, begun = cached.row, time.monotonic()
        live = None
        try:
            live = load(self._engine, row, self._specify(row), self._clock)
        # The outermost loop of the thread: whatever went wrong is their answer.
        except Exception as error:  # noqa: BLE001
            with self._changing:
                self._fail(row, error)
                cached.loading = None
        else:
            with self._changing:
                self._failures.resolve(row.id)
                self._keep(cached, live)
                self._again.add(row.id)
                cached.loading = None
            # The settings may have been read again meanwhile.
            with suppress(Inconsistent):
                live.adopt(row, self._specify(row))
            if row.name != self._site:
                seconds = time.monotonic() - begun
                log.info("the profile %r was loaded in %.1f s", row.name, seconds)
        loading.ended.set_result(live)

    def _fail(self, row: ProfileRow, error: Exception) -> None:
        """Have an error answered until the profile can be tried again."""
        if self._failures.report(row.id, error):
            if isinstance(error, PostbayesError):
                log.error("the profile %r cannot be loaded: %s", row.name, error)
            else:
                log.error("the profile %r cannot be loaded", row.name, exc_info=error)
        self._errors[row.id] = error.with_traceback(None)

    def _keep(self, cached: CachedProfile, live: LiveProfile) -> None:
        """Keep the counts of a profile; the lock is held."""
        cached.used = time.monotonic()
        live.above = partial(self._live_above, live.row.name)
        if cached.kept is None:
            self._size += live.nbytes
        cached.keep(live)
        self._make_room()

    def _live_above(self, name: str) -> list[LiveProfile]:
        """Return the profiles that one backs off to, those that are in memory."""
        lives = (cached.live for cached in self.above(name))
        return [live for live in lives if live is not None]

    def _make_room(self) -> None:
        """Drop profiles until the others have room; the lock is held."""
        if self._size <= self._most_bytes:
            return
        # Somebody waits for the one that was asked last.
        for cached in sorted(self._droppable(), key=lambda each: each.used)[:-1]:
            self._drop(
                cached, "other profiles need the memory (POSTBAYES_PROFILE_BYTES)"
            )
            if self._size <= self._most_bytes:
                return

    def _droppable(self) -> list[CachedProfile]:
        return [
            cached
            for name, cached in tuple(self._profiles.items())
            if cached.kept is not None and name != self._site
        ]

    def _drop(self, cached: CachedProfile, why: str) -> None:
        if cached.kept is not None:
            self._size -= cached.kept.nbytes
        cached.drop()
        self._again.add(cached.row.id)
        log.info("the counts of %r were dropped from memory: %s", cached.row.name, why)

    def _refresh(self) -> int:
        with reading(with_short_timeout(self._engine)) as connection:
            # With this connection among them, which may be the first to a new server.
            opened = connections_opened(self._engine)
            # The ledger of another server may be as long, by other rows.
            moved = self._opened != opened
            total = profiles.total(connection)
            rows: list[ProfileRow] = []
            last_rows: Mapping[int, Identity] = {}
            marks = self._marks
            if moved or total != self._total:
                marks = profiles.marks(connection)
            if moved:
                self._marks = {}
                last_rows = ledger.identities(connection)
            if marks is not self._marks or self._again:
                rows = self._list(connection, marks)
        followed = sum(self._take_over(row, last_rows) for row in rows)
        self._opened, self._total = opened, total
        site = None if self._site is None else self._profiles.get(self._site)
        if site is not None and site.live is None:
            self._load_again(site)
        self._retry()
        return followed

    def _take_over(self, row: ProfileRow, last_rows: Mapping[int, Identity]) -> int:
        """Follow a profile that has changed, and return the rows added."""
        cached = self._profiles.get(row.name)
        live = None if cached is None else cached.live
        if cached is None or live is None:
            return 0
        # A profile that was replaced has its name and another key.
        if live.row.id != row.id:
            self._replace(row)
            return 0
        return self._follow(cached, live, row, last_rows)

    def _follow(
        self,
        cached: CachedProfile,
        live: LiveProfile,
        row: ProfileRow,
        last_rows: Mapping[int, Identity],
    ) -> int:
        """Add the rows since to a profile in memory, and return their number."""
        followed = 0
        try:
            if row.policy != live.row.policy:
                cached.decide_as(row, self._specify(row))
            # Fewer rows are there, or feedback was given since: that looks which.
            if row.revision != live.revision or diverged(live, last_rows):
                followed = live.follow(self._engine)
        # An error of one profile must not stop the others.
        except Inconsistent as error:
            self._again.add(row.id)
            if self._failures.report(row.id, error):
                log.error(  # noqa: TRY400
                    "the profile %r cannot follow its ledger: %s", row.name, error
                )
                self._start_over(live)
        else:
            self._failures.resolve(row.id)
        return followed

    def _list(
        self, connection: Connection, there: dict[int, ProfileMark]
    ) -> list[ProfileRow]:
        """Take over the profiles that have changed, and count those not in memory."""
        # Before the profiles are compared: what is loaded from now on comes next time.
        with self._changing:
            again, self._again = self._again, set()
        changed = [
            key
            for key, mark in there.items()
            if key in again or mark != self._marks.get(key)
        ]
        self._marks = there
        names = {name for _, name, *_ in there.values()}
        # Renamed or deleted.
        for name in self._profiles.keys() - names:
            log.info("the profile %r was deleted or renamed", name)
            del self._profiles[name]
        for name in self._broken.keys() - (names - self._profiles.keys()):
            del self._broken[name]
        self.unfolded = {
            key: folded
            for key, _, revision, _, folded in there.values()
            if folded < revision
        }
        rows = profiles.get_many(connection, changed)
        stale = [(row, each) for row in rows if (each := self._read(row)) is not None]
        counts = profiles.count_by_month(connection, [row.id for row, _ in stale])
        for row, cached in stale:
            epoch = None
            if cached.specification.decay is not None:
                epoch = newest_epoch(connection, row.id, self._clock)
            cached.count(row, counts[row.id], epoch)
        return rows

    def _read(self, row: ProfileRow) -> CachedProfile | None:
        """Take over a row; return a profile whose messages are to be counted."""
        cached, key = self._profiles.get(row.name), ("specify", row.id)
        # One that was replaced goes on scoring until the new one is loaded.
        if cached is not None and cached.live is not None:
            # Dropped, and counted once nobody uses it any more.
            if cached.kept is None:
                self._again.add(row.id)
            return None
        if self._failures.pausing(key):
            self._again.add(row.id)
            return None
        # An error of one profile must not stop the others.
        try:
            if cached is None or cached.row.id != row.id:
                cached = self._profiles[row.name] = CachedProfile(
                    row, self._specify(row)
                )
            elif row.policy != cached.row.policy:
                cached.decide_as(row, self._specify(row))
        except Inconsistent as error:
            self._again.add(row.id)
            self._profiles.pop(row.name, None)
            self._broken[row.name] = error
            if self._failures.report(key, error):
                log.error("the profile %r cannot be loaded: %s", row.name, error)  # noqa: TRY400
            return None
        self._failures.resolve(key)
        return cached

    def _replace(self, row: ProfileRow) -> None:
        """Load a profile that has taken the place of one in memory."""
        if self._failures.pausing(row.id):
            self._again.add(row.id)
            return
        log.info("the profile %r was replaced; loading the new one", row.name)
        try:
            cached = CachedProfile(row, self._specify(row))
            live = load(self._engine, row, self._specify(row), self._clock)
        # An error of one profile must not stop the others.
        except Inconsistent as error:
            self._again.add(row.id)
            self._fail(row, error)
        else:
            self._failures.resolve(row.id)
            with self._changing:
                self._profiles[row.name] = cached
                self._keep(cached, live)

    def _load_again(self, cached: CachedProfile) -> None:
        """Have the profile of the site loaded; an error is that of who asks for it."""
        with suppress(Exception):
            self._begin(cached)

    def _retry(self) -> None:
        """Let profiles be tried again: the database answers."""
        for key, error in tuple(self._errors.items()):
            if not (isinstance(error, Inconsistent) and self._failures.pausing(key)):
                self._errors.pop(key, None)

    def _start_over(self, live: LiveProfile) -> None:
        """Load a profile that cannot follow once, in case memory is wrong."""
        with suppress(Inconsistent):
            live.reload(
                self._engine,
                "it cannot follow its ledger; the copy in memory may be wrong",
            )


def _return_memory() -> None:
    """Give memory that is free back to the system."""
    # glibc keeps blocks of this size: of nine profiles, 46 MB went back without this,
    # and 169 with it, in 9 ms (experiment 0077).  Other C libraries lack it.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _in_event_loop() -> bool:
    """Return whether waiting here would block all connections."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
