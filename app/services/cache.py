"""Profile cache: all profiles by name, and the counts of the profiles in use.

Contract of this file: the row of every profile is in memory.  Its counts are in memory
from the first request until the profile is idle or others need the room (decision
0025); those of the site's profile stay.  Concurrent requests load a profile once.
Dropped counts that are still in use keep following the ledger, and the next request
gets them back, so a profile never has two sets of counts that learn separately.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final

from app.errors import (
    STOPPING,
    DatabaseUnavailable,
    Inconsistent,
    PostbayesError,
    ProfileLoading,
    UnknownProfile,
)
from app.services.clock import Failures
from app.services.live import CachedProfile, Loading, diverged, load, month_of
from app.services.log import SparingLog
from app.services.recipients import above
from app.storage import ledger, profiles
from app.storage.database.engine import connections_opened, reading, with_short_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from sqlalchemy import Connection, Engine, Row

    from app.classifier.specification import Specification
    from app.ledger.entry import Identity
    from app.services.live import LiveProfile
    from app.storage.profiles import ProfileMark, ProfileRow

    Specify = Callable[[ProfileRow], Specification]

log = logging.getLogger(__name__)
# How long a request waits for a profile.  Then others answer in its place, or the
# sender tries again.  Precedent: rspamd gives a message 8 s (`task_timeout`), and
# Postfix a milter 30 s for a command.  Unit: seconds.
PATIENCE: Final = 5.0


@dataclass(eq=False)
class LiveProfiles:
    """All profiles of the database, with the counts of those in use.

    Parameters
    ----------
    specify : callable
        Returns the specification of a stored profile.
    site : str, optional
        The profile that is never dropped.
    levels : bool, default False
        Whether a profile backs off to the profiles of its domain and of the site.
    most_bytes : float
        Most memory of all counts together.  The profile asked last and the site's
        profile stay in any case.
    idle : float
        Time without a request after which a profile is dropped.  Unit: seconds.
    patience : float
        How long a request waits for a profile to be loaded.  Unit: seconds.
    """

    engine: Engine
    specify: Specify
    _: KW_ONLY
    site: str | None = None
    levels: bool = False
    most_bytes: float = math.inf
    idle: float = math.inf
    patience: float = math.inf

    def __post_init__(self) -> None:
        """Begin without profiles."""
        self._profiles: dict[str, CachedProfile] = {}
        # Memory of the counts, without what they learned since `drop_idle`: to sum
        # 10,000 profiles at each load takes as long as loading a large one.
        self._size = 0
        # Whether counts were dropped, also by a load, since memory was returned.
        self._dropped = False
        # Profiles that cannot be read because their key is missing, by name.
        self._broken: dict[str, Inconsistent] = {}
        # Why the counts of a profile cannot be loaded, by its key.
        self._errors: dict[int, Exception] = {}
        self._failures = Failures()
        self._log = SparingLog(log)
        self._opened = 0
        # Last-read version of all profiles together, and of each by its key.
        self._total: Row[*tuple[Any, ...]] | None = None
        self._marks: dict[int, ProfileMark] = {}
        # Profiles to read again even if unchanged: they could not be read, or an older
        # version was loaded meanwhile.
        self._again: set[int] = set()
        # The last counted row of each ledger that has further rows.
        self.unfolded: dict[int, int] = {}
        self._refreshing = threading.Lock()
        # The profiles that are kept.
        self._changing = threading.Lock()
        # One load at a time: a large profile takes a core and, while it is read, twice
        # its memory.
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="profile-loader")

    def __iter__(self) -> Iterator[CachedProfile]:
        """Iterate over the profiles as they are now."""
        return iter(tuple(self._profiles.values()))

    def by_key(self, profile_id: int) -> CachedProfile | None:
        """Return a profile by its key; None if there is none or it cannot be read."""
        mark = self._marks.get(profile_id)
        cached = None if mark is None else self._profiles.get(mark[1])
        return cached if cached is not None and cached.row.id == profile_id else None

    def __contains__(self, name: object) -> bool:
        """Return whether there is a profile of that name."""
        return name in self._profiles

    def find(self, name: str) -> CachedProfile:
        """Return a profile by name, without loading its counts.

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

        If they are not in memory, a thread loads them.  The caller waits, unless it is
        in an event loop.

        Raises
        ------
        UnknownProfile
            As `find`.
        ProfileLoading
            If the counts are not loaded yet.
        Inconsistent
            If its stored data cannot be read.
        DatabaseUnavailable
            If the database does not answer.
        """
        cached = self.find(name)
        cached.used = time.monotonic()
        if cached.kept is not None:
            return cached.kept
        while isinstance(loading := self._begin(cached), Loading):
            patience = loading.patience
            if patience <= 0 or _in_event_loop():
                raise ProfileLoading.named(name, loading.ended, patience)
            with suppress(TimeoutError):
                loading.ended.result(min(patience, threading.TIMEOUT_MAX))
        return loading

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

        These are the profiles of an address's domain and of the site, if they exist.
        """
        if not self.levels or self.site is None:
            return []
        return self.among(above(name, self.site))

    def among(self, names: Iterable[str]) -> list[CachedProfile]:
        """Return those of some profiles that exist and can be read, in their order."""
        found = map(self._profiles.get, names)
        return [cached for cached in found if cached is not None]

    def load(self, name: str) -> LiveProfile:
        """Return a profile as `get` does, however long that takes."""
        while isinstance(loading := self._begin(self.find(name)), Loading):
            loading.ended.result()
        return loading

    def answers(self, name: str) -> bool:
        """Return whether counts of a profile and its levels are loaded, or will be."""
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
        """Load the profile that replaced another, and return it.

        Raises
        ------
        UnknownProfile
            If there is none.
        DatabaseUnavailable
            If it cannot be read.
        """
        self.refresh()
        return self.get(replaced.row.name)

    def refresh(self) -> None:
        """Find new profiles, and follow those in memory.

        A profile that cannot be read is logged and stays unchanged.
        """
        # One refresh at a time, so rows are applied in the order in which they are
        # read: a thread that changes a policy and refreshes must not get the old one
        # back.
        with self._refreshing:
            try:
                self._refresh()
            except BaseException:
                self._total, self._marks = None, {}
                raise

    def respecify(self, specify: Specify) -> None:
        """Apply other settings to all profiles from the next message on."""
        with self._refreshing:
            self.specify = specify
            for cached in self:
                # The key of its ids is missing: its old specification stays.
                with suppress(Inconsistent):
                    cached.decide_as(cached.row, specify(cached.row))

    def drop_idle(self) -> None:
        """Drop idle profiles, and the least recently used ones beyond the limit."""
        with self._changing:
            self._size, now = self.nbytes, time.monotonic()
            for cached in self._droppable():
                if now - cached.used >= self.idle:
                    self._drop(cached, "the profile was idle")
            self._make_room()
            dropped, self._dropped = self._dropped, False
        if dropped:
            _return_memory()

    def close(self) -> None:
        """Start no more loads, and release the callers that wait for one."""
        self._loader.shutdown(cancel_futures=True)
        with self._changing:
            for cached in self:
                loading, cached.loading = cached.loading, None
                if loading is not None:
                    loading.ended.set_result(None)

    @property
    def nbytes(self) -> int:
        """Memory that the counts of all profiles take.  Unit: bytes."""
        return sum(each.kept.nbytes for each in self if each.kept is not None)

    def advance_month(self) -> None:
        """Count ages from a month that has begun.

        Raises
        ------
        DatabaseUnavailable
            If the counts cannot be read; the old weights stay.
        """
        for cached in self:
            live = cached.live
            if live is not None and live.month_began:
                begun = time.monotonic()
                live.advance_month(self.engine)
                log.info(
                    "the profile %r now counts ages from %s (took %.1f s)",
                    live.row.name,
                    live.specification.decay,
                    time.monotonic() - begun,
                )

    def _begin(self, cached: CachedProfile) -> LiveProfile | Loading:
        """Return the counts, or start loading them."""
        with self._changing:
            live = cached.live
            if live is not None:
                self._keep(cached, live)
                return live
            error = self._errors.get(cached.row.id)
            if error is not None:
                # Each raise would lengthen the traceback of the last.
                raise error.with_traceback(None)
            if cached.loading is None:
                loading = Loading(self.patience)
                try:
                    self._loader.submit(self._load, cached, loading)
                except RuntimeError as closed:
                    raise DatabaseUnavailable(STOPPING) from closed
                cached.loading = loading
            return cached.loading

    def _load(self, cached: CachedProfile, loading: Loading) -> None:
        """Load a profile, and release the callers that wait for it."""
        row, begun = cached.row, time.monotonic()
        live = None
        try:
            live = load(self.engine, row, self.specify(row))
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
            # The settings may have been reloaded meanwhile.
            with suppress(Inconsistent):
                live.adopt(row, self.specify(row))
            if row.name != self.site:
                seconds = time.monotonic() - begun
                self._note(row.name, "was loaded in", f"{seconds:.1f} s")
        finally:
            loading.ended.set_result(live)

    def _fail(self, row: ProfileRow, error: Exception) -> None:
        """Answer requests with an error until the profile can be tried again."""
        if self._failures.report(row.id, error):
            if isinstance(error, PostbayesError):
                log.error("the profile %r cannot be loaded: %s", row.name, error)
            else:
                log.error("the profile %r cannot be loaded", row.name, exc_info=error)
        self._errors[row.id] = error.with_traceback(None)

    def _keep(self, cached: CachedProfile, live: LiveProfile) -> None:
        """Keep the counts of a profile; the lock is held."""
        cached.used = time.monotonic()
        name = live.row.name
        live.above = lambda: [x for each in self.above(name) if (x := each.live)]
        if cached.kept is None:
            self._size += live.nbytes
        cached.keep(live)
        self._make_room()

    def _make_room(self) -> None:
        """Drop profiles until the others have room; the lock is held."""
        if self._size <= self.most_bytes:
            return
        # A request waits for the profile that was asked last.
        for cached in sorted(self._droppable(), key=lambda each: each.used)[:-1]:
            self._drop(
                cached, "other profiles need the memory (POSTBAYES_PROFILE_BYTES)"
            )
            if self._size <= self.most_bytes:
                return

    def _droppable(self) -> list[CachedProfile]:
        return [
            cached
            for name, cached in tuple(self._profiles.items())
            if cached.kept is not None and name != self.site
        ]

    def _drop(self, cached: CachedProfile, why: str) -> None:
        if cached.kept is not None:
            self._size -= cached.kept.nbytes
        cached.drop()
        self._dropped = True
        self._again.add(cached.row.id)
        self._note(cached.row.name, "was dropped from memory:", why)

    def _note(self, name: str, what: str, more: str) -> None:
        """Log what happened to a profile, the same thing once a minute.

        If the memory is too small for the profiles in use, each request causes two.
        """
        left_out = self._log.passes(f"{what} {name}")
        if left_out is not None:
            log.info("the profile %r %s %s%s", name, what, more, left_out)

    def _refresh(self) -> None:
        with reading(with_short_timeout(self.engine)) as connection:
            # Including this connection, which may be the first to a new server.
            opened = connections_opened(self.engine)
            # The ledger of another server may be as long, but with different rows.
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
        for row in rows:
            self._follow(row, last_rows)
        self._opened, self._total = opened, total
        site = None if self.site is None else self._profiles.get(self.site)
        if site is not None and site.live is None:
            # The next request gets its error.
            with suppress(Exception):
                self._begin(site)
        # The database answers, so profiles that failed may be tried again.
        for key, error in tuple(self._errors.items()):
            if not (isinstance(error, Inconsistent) and self._failures.pausing(key)):
                self._errors.pop(key, None)

    def _follow(self, row: ProfileRow, last_rows: Mapping[int, Identity]) -> None:
        """Follow a profile that has changed, if it is in memory."""
        cached = self._profiles.get(row.name)
        live = None if cached is None else cached.live
        if cached is None or live is None:
            return
        # A profile that replaced another has its name.
        if row.is_other_than(live.row):
            self._replace(row)
            return
        try:
            if row.policy != live.row.policy:
                cached.decide_as(row, self.specify(row))
            # The ledger has fewer rows, or feedback came since; `follow` finds out.
            if row.revision != live.revision or diverged(live, last_rows):
                live.follow(self.engine)
        # An error of one profile must not stop the others.
        except Inconsistent as error:
            self._again.add(row.id)
            if self._failures.report(row.id, error):
                log.error(  # noqa: TRY400
                    "the profile %r cannot follow its ledger: %s", row.name, error
                )
                # Once, in case memory is wrong.
                with suppress(Inconsistent):
                    live.reload(
                        self.engine,
                        "it cannot follow its ledger; the copy in memory may be wrong",
                    )
        else:
            self._failures.resolve(row.id)

    def _list(
        self, connection: Connection, there: dict[int, ProfileMark]
    ) -> list[ProfileRow]:
        """Take over the profiles that have changed, and count those not in memory."""
        # Before the profiles are compared: later loads are handled next time.
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
            for key, _, revision, _, folded, _ in there.values()
            if folded < revision
        }
        rows = profiles.get_many(connection, changed)
        stale = [(row, each) for row in rows if (each := self._read(row)) is not None]
        counts = profiles.count_by_month(connection, [row.id for row, _ in stale])
        for row, cached in stale:
            epoch = None
            if cached.specification.decay is not None:
                epoch = month_of(ledger.newest_time(connection, row.id))
            cached.count(row, counts[row.id], epoch)
        return rows

    def _read(self, row: ProfileRow) -> CachedProfile | None:
        """Take over a row; return the profile if its messages are to be counted."""
        cached, key = self._profiles.get(row.name), ("specify", row.id)
        # A replaced profile goes on scoring until the new one is loaded.
        if cached is not None and cached.live is not None:
            # Dropped, and counted when it is no longer in use.
            if cached.kept is None:
                self._again.add(row.id)
            return None
        if self._failures.pausing(key):
            self._again.add(row.id)
            return None
        # An error of one profile must not stop the others.
        try:
            if cached is None or row.is_other_than(cached.row):
                cached = self._profiles[row.name] = CachedProfile(
                    row, self.specify(row)
                )
            elif row.policy != cached.row.policy:
                cached.decide_as(row, self.specify(row))
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
            cached = CachedProfile(row, self.specify(row))
            live = load(self.engine, row, self.specify(row))
        # An error of one profile must not stop the others.
        except Inconsistent as error:
            self._again.add(row.id)
            self._fail(row, error)
        else:
            self._failures.resolve(row.id)
            with self._changing:
                self._profiles[row.name] = cached
                self._keep(cached, live)


def _return_memory() -> None:
    """Return free memory to the operating system."""
    # glibc keeps blocks of this size.  Dropping nine profiles returned 46 MB without
    # this call and 169 MB with it, in 9 ms (experiment 0077).  Other C libraries lack
    # it.
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
