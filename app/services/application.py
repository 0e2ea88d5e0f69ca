"""Application: the use cases composed from the settings."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from app.access.rights import ROLES
from app.classifier.learn import knows_both_sides
from app.classifier.levels import agree
from app.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    PostbayesError,
    UnknownProfile,
    explaining,
)
from app.services import profiles as policies
from app.services.access import Gate, LiveKeys, add_key, revoke_key
from app.services.cache import PATIENCE, LiveProfiles
from app.services.classify import Classify, warm_up
from app.services.clock import SteadyClock, WriteHealth, now
from app.services.correspondents import Correspondents
from app.services.delivery import Delivery
from app.services.feedback import Feedback
from app.services.figures import WATCH_SECONDS, Figures, Teachers
from app.services.follow import SiteFollower
from app.services.history import VerdictHistory, VerdictRecorder
from app.services.inspection import inspect, ledger_page, word_state
from app.services.lists import LiveLists, add_entries, remove_entry
from app.services.log import keep_log, logging_if_slow
from app.services.metrics import tally_of
from app.services.notifier import Notifier
from app.services.openid import provider_of
from app.services.profiles import create_profile, id_key_of_new, key_of
from app.services.recent import Recall, RecentMessages
from app.services.recipients import Recipients
from app.services.scheduler import INTERVAL, Maintenance, Scheduler
from app.services.sessions import Sessions, add_person, remove_person, set_password
from app.services.startup import open_database, require_startable, specify
from app.services.undo import Undo
from app.services.webhook import webhook_of
from app.services.writer import AutoLearn, Writer
from app.settings import PREFIX, Settings
from app.storage import profiles
from app.storage.database.dialect import dialect_of, without_password
from app.storage.database.engine import reading, with_short_timeout, writing
from app.storage.fold import folded_revision
from app.storage.retention import clock_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from app.access.lists import ListEntry, ListSubject
    from app.access.rights import AccessKey, Person, Principal
    from app.storage.profiles import ProfileRow

log = logging.getLogger(__name__)
RELOADED: Final = frozenset(
    {
        *("log_level", "log_format"),
        *("ham_cost", "quarantine_from", "reject_from", "aliases"),
        *("keyless_from", "proxies", "rate_per_key", "rate_per_address"),
        "max_request_bytes",
        *("profile_bytes", "profile_minutes"),
    }
)
"""The settings that need no restart."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The changed settings: those in force now, and those that need a restart."""

    taken: tuple[str, ...]
    left: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as a sentence for the log."""
        taken = f"changed: {_variables(self.taken)}" if self.taken else "none changed"
        text = f"the settings, aliases and policies were read again; {taken}"
        if self.left:
            text += f"; restart the service for {_variables(self.left)}"
        return text


def _variables(settings: tuple[str, ...]) -> str:
    return ", ".join(PREFIX + name.upper() for name in settings)


def _refresh(refresh: Callable[[], object], done: str) -> None:
    """Read again what was stored; `done` says what else waits for the database."""
    with explaining(f"{done} as soon as the database can be read"):
        refresh()


class Application:
    """The use cases of a service, loaded; it learns once it is started.

    Parameters
    ----------
    make : bool, default True
        Whether to create a missing database.
    upgrade : bool, default False
        Whether to migrate an older database.
    patience : float
        How long a request waits for a profile to be loaded.  Unit: seconds.
    clock : callable
        Returns the time of the system.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        make: bool = True,
        upgrade: bool = False,
        patience: float = PATIENCE,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.settings, self._clock = settings, clock
        self.service, self.aliases = require_startable(settings)
        # Closed in reverse order, each whatever happens to the others.
        with ExitStack() as opened:
            self.tally = tally_of(settings)
            opened.callback(self.tally.close)
            self.webhook = webhook_of(settings, self.tally)
            self.engine = open_database(settings, make=make, upgrade=upgrade)
            opened.callback(self.engine.dispose)
            with reading(self.engine) as connection:
                steady = SteadyClock(clock_mark(connection), clock)
            # Raised before anything is served, as errors of the site's profile are.
            key_of(self.engine, settings)
            self.live = LiveProfiles(
                self.engine,
                specify(settings),
                site=settings.profile,
                levels=settings.levels,
                most_bytes=settings.profile_bytes,
                idle=60 * settings.profile_minutes,
                patience=patience,
            )
            opened.callback(self.live.close)
            self.live.refresh()
            # An error of the site's own profile is raised here, before anything is
            # served; the others are loaded when somebody asks for them.
            self.live.load(settings.profile)
            self.keys = LiveKeys(self.engine)
            self.keys.refresh()
            self.sessions = Sessions(
                self.keys,
                idle=3600 * settings.session_hours,
                most=86_400 * settings.session_days,
                refused=self.tally.sign_in_refused,
            )
            self.provider = provider_of(settings, self.sessions)
            self.gate = Gate(
                self.keys, settings, self.sessions, refused=self.tally.refused
            )
            self.recipients = Recipients(
                self.live,
                site=settings.profile,
                aliases=self.aliases,
                ready=self._ready,
            )
            self.lists = LiveLists(self.live, self.recipients.levels)
            self.correspondents = Correspondents(
                self.live,
                self.recipients,
                believed=settings.authserv_id if settings.correspondents else (),
                clock=clock,
            )
            self._compose(steady)
            opened.callback(self._store, "sent messages", self.correspondents.flush)
            opened.callback(self._store, "uses of keys", self.keys.flush)
            # First, as in the maintenance.
            flush = partial(self.recent.flush, self.engine)
            opened.callback(self._store, "scored messages", flush)
            self._opened = opened.pop_all()

    def _compose(self, steady: SteadyClock) -> None:
        """Compose the threads and the use cases over what is loaded."""
        settings = self.settings
        self.recent = RecentMessages(
            rows=settings.scored_rows if settings.scored_days > 0 else 0,
            store_words=settings.store_words,
        )
        refreshes = self.keys.refresh, self.lists.refresh
        self.maintenance = Maintenance(
            self.live,
            self.recent,
            settings,
            clock=steady,
            on_follow=(*refreshes, self.correspondents.flush),
            on_expire=(self.keys.flush, self.correspondents.follow),
        )
        # SQLite has nothing that notifies others of a commit.
        is_server = dialect_of(self.engine).is_server
        self.notifier = None
        self.writer = Writer(self.engine, successor=self.live.successor)
        if is_server:
            self.notifier = Notifier(self.engine, self.live.refresh)
            self.writer = Writer(self.engine, self.notifier.notify, self.live.successor)
        self.scheduler = Scheduler(
            "maintenance", self._maintain, lambda: self.writer.idle
        )
        # A thread of its own: reloading a large profile takes seconds, and the
        # maintenance must go on meanwhile.
        self.decay_scheduler = (
            None
            if settings.half_life_months is None
            else Scheduler("month change", self.live.advance_month)
        )
        self._health = WriteHealth()
        self._watch_at = 0.0
        known = self.correspondents
        witnesses = (self.lists, known) if known.on else (self.lists,)
        autolearn = None
        if settings.autolearn_from is not None:
            autolearn = AutoLearn(self.writer, self._clock, settings)
        self.classify = Classify(
            self.live, self.recent, self.tally, autolearn, witnesses
        )
        self.inspect = partial(inspect, self.live, self.recent, witnesses)
        # Other processes may score messages that are taught here.
        behind = 2 * INTERVAL if settings.workers > 1 or is_server else 0.0
        self.recall = Recall(self.live, self.recent, write_behind=behind)
        self.figures = Figures(self.live)
        self.teachers = Teachers(self.figures, settings)
        self.feedback = Feedback(
            self.writer,
            self.recall,
            self._clock,
            self.tally,
            self._health,
            teachers=self.teachers,
            webhook=self.webhook,
        )
        self.undo = Undo(self.live)
        self.follower = SiteFollower(self.engine, settings, self._clock)
        # A thread of its own, since it waits for other sites.
        self.follow_scheduler = (
            Scheduler("site follower", self.follower) if settings.follow else None
        )
        self.words = partial(word_state, self.live)
        self.ledgers = partial(ledger_page, self.live)
        self.history = VerdictHistory(self.live)
        recorder = None
        if self.recent.on and settings.history_days and settings.history_rows:
            recorder = VerdictRecorder(self.recent, self.live)
        self.delivery = Delivery(
            self.classify,
            self.recipients,
            recorder,
            words=settings.store_words,
            webhook=self.webhook,
        )

    @property
    def database_url(self) -> str:
        """The URL of the database, without its password."""
        return without_password(self.engine.url)

    @property
    def database(self) -> str:
        """The kind of the database: `sqlite` or `postgresql`."""
        return type(dialect_of(self.engine)).__name__.lower()

    def _ready(self, name: str) -> bool:
        """Whether a profile can answer: it is loaded, and knows enough or backs off."""
        # It may be gone by now.
        with suppress(UnknownProfile):
            cached = self.live.find(name)
            return self.live.answers(name) and (
                knows_both_sides(cached)
                or any(
                    agree(cached.specification, each.specification)
                    for each in self.live.above(name)
                )
            )
        return False

    def _maintain(self) -> float:
        self.aliases.refresh()
        patience = self.maintenance()
        if time.monotonic() >= self._watch_at:
            self.teachers.watch()
            self._watch_at = time.monotonic() + WATCH_SECONDS
        if self._health.due:
            try:
                with writing(with_short_timeout(self.engine)) as connection:
                    site = self.live.find(self.settings.profile)
                    profiles.touch(connection, site.row)
            except PostbayesError as error:
                self._health.failed(error)
            else:
                self._health.succeeded()
        return patience

    @property
    def write_failure(self) -> str | None:
        """The reason why the last write of this process failed; None if it did not."""
        return self._health.failure or self.scheduler.failure

    def warm_up(self) -> None:
        """Load all kernels before the first request; a command loads what it needs."""
        with logging_if_slow(
            "loading the kernels; the first start after an installation compiles them, "
            "which takes 20 seconds of CPU time"
        ):
            warm_up()

    def start(self) -> None:
        """Start the threads that learn and maintain the database."""
        # Stopped in the opposite order: the webhook posts the feedback of the writer.
        for thread in (
            self.webhook,
            self.follow_scheduler,
            self.decay_scheduler,
            self.scheduler,
            self.notifier,
            self.writer,
        ):
            if thread is not None:
                thread.start()
                self._opened.callback(thread.stop)

    def stop(self) -> None:
        """Finish the waiting work, and close the database."""
        self._opened.close()

    def _store(self, what: str, flush: Callable[[], object]) -> None:
        """Store what waits in memory; it is lost if the database is not available."""
        try:
            flush()
        except (DatabaseUnavailable, DatabaseDamaged) as error:
            log.warning("the latest %s could not be stored: %s", what, error)

    def take_over(self, found: Settings) -> Reloaded:
        """Apply every new setting that needs no restart, or none if one is invalid.

        Raises
        ------
        InvalidSetting
            If they contradict each other, or the aliases cannot be read; nothing is
            changed.
        """
        changed = [
            name
            for name in Settings.model_fields
            if getattr(self.settings, name) != getattr(found, name)
        ]
        taken = {name: getattr(found, name) for name in changed if name in RELOADED}
        settings = self.settings.model_copy(update=taken)
        service, aliases = require_startable(settings)
        self.gate.configure(settings)
        self.settings, self.service = settings, service
        self.aliases = self.recipients.aliases = aliases
        self.live.most_bytes = settings.profile_bytes
        self.live.idle = 60 * settings.profile_minutes
        self.live.respecify(specify(settings))
        keep_log(settings)
        left = (name for name in changed if name not in RELOADED)
        return Reloaded(tuple(taken), tuple(left))

    def create_profile(self, name: str, **given: Any) -> None:
        """Create a profile, as `app.services.profiles.create_profile`; here at once."""
        id_key = id_key_of_new(self.engine, self.settings)
        create_profile(self.engine, name, time=self._clock(), id_key=id_key, **given)
        _refresh(self.live.refresh, "the profile is created, and takes effect")

    def change_policy(
        self, name: str, changes: Mapping[str, Any], *, actor: str = "http"
    ) -> None:
        """Change the policy of a profile; this process follows at once.

        Raises
        ------
        UnknownProfile, InvalidPolicy, DatabaseUnavailable
            As `app.services.profiles.change`; or if the policy was changed but could
            not be read again, and the error says so.
        """
        policies.change(self.engine, name, self.service, changes, actor=actor)
        _refresh(self.live.refresh, "the policy is changed, and takes effect")

    def add_list_entries(
        self, name: str, entries: Sequence[ListEntry], *, actor: str
    ) -> None:
        """Store entries, as `app.services.lists.add_entries`; here at once."""
        add_entries(self.engine, name, entries, actor=actor)
        _refresh(self.lists.refresh, "the entries are stored, and take effect")

    def remove_list_entry(self, name: str, subject: ListSubject, *, actor: str) -> None:
        """Remove an entry, as `app.services.lists.remove_entry`; here at once."""
        remove_entry(self.engine, name, subject, actor=actor)
        _refresh(self.lists.refresh, "the entry is removed, and loses its effect")

    def add_key(self, key: AccessKey, *, actor: str) -> None:
        """Store a new key, as `app.services.access.add_key`; here at once."""
        add_key(self.engine, key, actor=actor)
        _refresh(self.keys.refresh, "the key is created, and works")

    def revoke_key(self, name: str, *, actor: str) -> AccessKey:
        """Revoke a key, as `app.services.access.revoke_key`; here at once."""
        revoked = revoke_key(self.engine, name, actor=actor)
        _refresh(self.keys.refresh, "the key is revoked, and stops working")
        return revoked

    def add_person(self, name: str, **given: Any) -> None:
        """Add a person, as `app.services.sessions.add_person`; here at once."""
        add_person(self.engine, name, **given)
        _refresh(self.keys.refresh, "the person is added, and can sign in")

    def set_password(self, name: str, password: str, *, principal: Principal) -> Person:
        """Set the password of a person, and return them.

        Raises
        ------
        Forbidden
            If they have a right that the caller lacks, and could then use.
        UnknownPerson, InvalidInput
            As `app.services.sessions.set_password`.
        """
        # Another process may have added them within the last second.
        if name not in self.keys.people:
            self.keys.refresh()
        if name in self.keys.people:
            principal.require_rights(ROLES[self.keys.people[name].role])
        set_password(self.engine, name, password, actor=principal.name)
        _refresh(self.keys.refresh, "the password is set, and takes effect")
        return self.keys.people[name]

    def remove_person(self, name: str, *, actor: str) -> None:
        """Remove a person, as `app.services.sessions.remove_person`."""
        remove_person(self.engine, name, actor=actor)
        _refresh(self.keys.refresh, "the person is removed, and their sessions end")

    def revisions(self, profile: ProfileRow) -> tuple[int, int]:
        """Return the revisions of the newest ledger row and of the last counted one."""
        with reading(self.engine) as connection:
            newest = profiles.last_revision(connection, profile.id)
            return newest, folded_revision(connection, profile.id)

    @property
    def backlog(self) -> dict[str, int]:
        """The waiting work of this process, by kind."""
        return {
            "feedback": self.writer.waiting,
            "look-up": self.recall.waiting,
            "scored": self.recent.waiting,
        }

    def ping(self) -> None:
        """Raise DatabaseUnavailable if the database does not answer, or a write failed.

        Writes of feedback and of scored messages show whether the database can be
        written.
        """
        with reading(with_short_timeout(self.engine)) as connection:
            profiles.find(connection, self.settings.profile)
        failure = self.write_failure
        if failure is not None:
            msg = f"nothing can be learned, because the last write failed: {failure}"
            raise DatabaseUnavailable(msg, confidential=True)
