"""Application: the use cases put together from the settings."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.bayes.prior import UniformPrior
from app.classifier.rule import VerdictRule, terms_of
from app.classifier.specification import Specification, classifiers_of
from app.classifier.verdict import ActionRule
from app.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    InvalidSetting,
    PostbayesError,
    decided,
)
from app.features.extract import FEATURE_SET
from app.services import profiles as policies
from app.services.autolearn import AutoLearn
from app.services.classify import Classify
from app.services.delivery import Aliases, Delivery, Recipients
from app.services.feedback import Feedback
from app.services.figures import Figures
from app.services.memory.live import LiveProfiles
from app.services.memory.recall import Recall
from app.services.memory.recent import Recent
from app.services.metrics import Tally
from app.services.profiles import ProfileState, decided_by, describe
from app.services.threads.notifications import Bell
from app.services.threads.scheduler import INTERVAL, Keeper, Upkeep
from app.services.threads.writer import Writer
from app.services.undo import Undo
from app.services.words import Words
from app.storage import profiles
from app.storage.database.dialect import dialect_of
from app.storage.database.engine import (
    open_engine,
    reading,
    with_short_timeout,
    writing,
)
from app.storage.database.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sqlalchemy import Engine

    from app.services.profiles import Changed
    from app.settings import Settings
    from app.storage.profiles import ProfileRow

log = logging.getLogger(__name__)


def now() -> datetime:
    """Return the time now, in UTC."""
    return datetime.now(UTC)


def open_database(settings: Settings) -> Engine:
    """Return the engine of the settings' database, migrated to this version.

    Raises
    ------
    InvalidSetting
        If the URL cannot be used.
    DatabaseUnavailable
        If the database does not answer.
    DatabaseDamaged
        If it is damaged, or the file is no database.
    DatabaseTooNew
        If a newer version of Postbayes wrote it.
    """
    engine = open_engine(settings.database_url, busy_timeout=settings.busy_timeout)
    migrate(engine)
    with reading(engine) as connection:
        names = {row.name for row in profiles.list_all(connection)}
    if settings.profile in names:
        return engine
    with writing(engine) as connection:
        profiles.create(
            connection,
            name=settings.profile,
            labels=settings.labels,
            spam_labels=settings.spam_labels,
            feature_set=FEATURE_SET,
            created_at=now(),
        )
    return engine


def specification(settings: Settings) -> Specification:
    """Return what a new profile is made of under the settings."""
    spam_from = math.log(settings.ham_cost)
    verdict = VerdictRule(
        terms=terms_of(settings.text_views),
        spam_threshold=spam_from,
        ham_threshold=-spam_from,
    )
    if settings.taught == "mistakes":
        verdict = replace(verdict, prior=UniformPrior(), fusion=None)
    made = Specification(
        labels=settings.labels,
        spam_labels=settings.spam_labels,
        classifiers=classifiers_of(settings.text_views),
        verdict=verdict,
        action=_actions(settings, spam_from),
    )
    months = settings.half_life_months
    return made if months is None else made.decaying(months)


def _actions(settings: Settings, spam_from: float) -> ActionRule:
    """Return what mail servers are asked to do under the settings.

    Raises
    ------
    InvalidSetting
        If the thresholds contradict each other.
    """
    try:
        return ActionRule(
            spam_from=spam_from,
            quarantine_from=settings.quarantine_from,
            reject_from=settings.reject_from,
        )
    except InvalidSetting as error:
        msg = f"POSTBAYES_QUARANTINE_FROM and POSTBAYES_REJECT_FROM: {error}"
        raise InvalidSetting(msg) from error


def require_confident(own_from: float | None, spam_from: float) -> None:
    """Raise if the filter would learn verdicts that it is not sure of.

    Raises
    ------
    InvalidSetting
        If it is below the threshold of spam, or not a number.
    """
    if own_from is not None and not spam_from <= own_from < math.inf:
        msg = (
            f"POSTBAYES_AUTOLEARN_FROM is {own_from:g}, and must be a number not below "
            f"the spam threshold {spam_from:.3f}, the log of POSTBAYES_HAM_COST"
        )
        raise InvalidSetting(msg)


@dataclass(frozen=True, slots=True)
class Specify:
    """Returns the specification of a stored profile under the settings."""

    settings: Settings

    def __call__(self, row: ProfileRow) -> Specification:
        """Return what the profile is made of."""
        return decided_by(row, specification(self.settings))


def require_startable(settings: Settings) -> tuple[Specification, Aliases]:
    """Return what the settings say, or raise where a service cannot go by it.

    Before anything opens, and before there is a database.

    Raises
    ------
    InvalidSetting
        If thresholds contradict each other, or the aliases cannot be read.
    """
    service = specification(settings)
    require_confident(settings.autolearn_from, service.verdict.spam_threshold)
    return service, Aliases(settings.aliases)


class Application:
    """Everything that serves, put together and loaded; start it before it learns.

    Parameters
    ----------
    settings : Settings
        What the operator set.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.service, self.aliases = require_startable(settings)
        self.engine = open_database(settings)
        self.live = LiveProfiles(self.engine, Specify(settings))
        try:
            self.live.refresh()
            # What is wrong with the site's own profile shows here, before anything
            # is served; what is wrong with another shows in the log.
            self.live.get(settings.profile)
        except PostbayesError:
            self.engine.dispose()
            raise
        self.recipients = Recipients(
            self.live, site=settings.profile, aliases=self.aliases
        )
        self.recent = None
        if settings.scored_days > 0 and settings.scored_rows > 0:
            self.recent = Recent(
                rows=settings.scored_rows, store_words=settings.store_words
            )
        self.upkeep = Upkeep(
            self.engine,
            self.live,
            self.recent,
            scored_days=settings.scored_days,
            scored_rows=settings.scored_rows,
            vector_days=settings.vector_days,
            clock=now,
        )
        # SQLite has nothing that would tell others of a commit.
        self.bell = None
        self.writer = Writer(self.engine, successor=self.live.successor)
        if dialect_of(self.engine).is_server:
            self.bell = Bell(self.engine, self.live.refresh)
            self.writer = Writer(self.engine, self.bell.ring, self.live.successor)
        self.keeper = Keeper(self._keep_house, lambda: self.writer.idle)
        # A thread of its own: to read a large profile anew takes seconds, in
        # which the keeper has others to follow.
        self.turner = None
        if settings.half_life_months is not None:
            self.turner = Keeper(self.live.turn)
        self.tally = Tally()
        self.classify = Classify(
            self.live, self.recent, now, self.tally, self._autolearn()
        )
        self.recall = Recall(
            self.engine,
            self.live,
            self.recent,
            store_words=settings.store_words,
            write_behind=2 * INTERVAL if self._has_company else 0.0,
        )
        self.feedback = Feedback(
            self.live,
            self.writer,
            self.recall,
            now,
            self.tally,
            store_words=settings.store_words,
        )
        self.undo = Undo(self.engine, self.live, now)
        self.figures = Figures(self.live, self.engine)
        self.words = Words(self.live, self.engine)
        self.delivery = Delivery(self.classify, self.recipients)

    @property
    def _has_company(self) -> bool:
        """Whether other processes may score what is taught here."""
        return self.settings.workers > 1 or dialect_of(self.engine).is_server

    def _autolearn(self) -> AutoLearn | None:
        if self.settings.autolearn_from is None:
            return None
        return AutoLearn(
            self.writer,
            now,
            own_from=self.settings.autolearn_from,
            per_day=self.settings.autolearn_per_day,
            store_words=self.settings.store_words,
        )

    def _keep_house(self) -> float:
        self.aliases.refresh()
        return self.upkeep()

    def start(self) -> None:
        """Start the threads that learn and keep house."""
        self.writer.start()
        self.recall.start()
        self.keeper.start()
        if self.bell is not None:
            self.bell.start()
        if self.turner is not None:
            self.turner.start()

    def stop(self) -> None:
        """Finish what is waiting, and let go of the database."""
        self.writer.stop()
        if self.bell is not None:
            self.bell.stop()
        self.recall.stop()
        self.keeper.stop()
        if self.turner is not None:
            self.turner.stop()
        if self.recent is not None:
            try:
                self.recent.flush(self.engine)
            except (DatabaseUnavailable, DatabaseDamaged) as error:
                log.warning("the last scored messages are not kept: %s", error)
        self.engine.dispose()

    def profile(self, name: str) -> ProfileState:
        """Return what a profile is made of and what it has learned."""
        return describe(
            self.live.get(name), undo_days=self.settings.vector_days or None
        )

    def change_policy(self, name: str, changes: Mapping[str, Any]) -> Changed:
        """Change what a profile decides by; this process does so at once.

        Raises
        ------
        UnknownProfile, InvalidPolicy, DatabaseUnavailable
            As `app.services.profiles.change`.  Or if it is changed and could not be
            read again, which the error says.
        """
        changed = policies.change(self.engine, name, self.service, changes)
        with decided(
            "the policy is changed, and this process decides by it as soon as it can "
            "read it"
        ):
            self.live.refresh()
        return changed

    def ping(self) -> None:
        """Raise DatabaseUnavailable if the database does not answer."""
        with reading(with_short_timeout(self.engine)) as connection:
            profiles.find(connection, self.settings.profile)
