"""Startup: the settings in force, and the database and specification for them."""

from __future__ import annotations

import math
import re
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from app.classifier.rule import VerdictRule, terms_of
from app.classifier.specification import Specification, classifiers_of
from app.classifier.verdict import ActionRule
from app.errors import DatabaseUnprepared, Inconsistent, InvalidSetting
from app.features.id_key import UNKEYED
from app.services.cache import LiveProfiles
from app.services.clock import now
from app.services.profiles import (
    create_profile,
    id_key_of_new,
    key_for,
    key_of,
    list_profiles,
    require_keys,
    specification_of,
)
from app.services.recipients import Aliases
from app.settings import PREFIX, Settings, is_web_address, naming, texts_below
from app.storage.database.dialect import dialect_of, missing, parse, without_password
from app.storage.database.engine import (
    disposing,
    migrate,
    open_engine,
    revision_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from sqlalchemy import Engine

    from app.storage.profiles import ProfileRow

HIDDEN: Final = "(hidden)"
"""Shown in place of a secret."""
_SECRET: Final = ("password", "secret", "key", "token")
_LOGIN: Final = re.compile(r"(?<=://)[^/?#\s]+(?=@)")


def open_database(settings: Settings, *, make: bool, upgrade: bool = False) -> Engine:
    """Return the engine of the settings' database, with the tables of this version.

    Parameters
    ----------
    settings : Settings
        Have its URL, and the name and labels of the site's profile.
    make : bool
        Whether to create a database that does not exist or has no profile.  A command
        that only reads must not create one, for instance in the wrong folder.
    upgrade : bool, default False
        Whether to migrate an older database.  A read with a newer version must not lock
        the running service out of its database.

    Raises
    ------
    InvalidSetting
        If the URL is invalid, there is no database and none may be created, or an older
        one needs a key that is missing; then it is not migrated.
    DatabaseUnprepared
        If its tables are of an older version of Postbayes, and `upgrade` is false.
    DatabaseUnavailable
        If the database does not answer.
    DatabaseDamaged
        If it is damaged, or the file is not a database.
    DatabaseTooNew
        If a newer version of Postbayes wrote it.
    """
    url, patience = settings.database_url, settings.busy_timeout
    with ExitStack() as on_error:
        engine = open_engine(url, busy_timeout=patience, make=make)
        on_error.callback(engine.dispose)
        check = partial(require_keys, settings=settings)
        migrate(engine, make=make, upgrade=upgrade, check=check)
        names = {row.name for row in list_profiles(engine)}
        if make and settings.profile not in names:
            create_profile(
                engine,
                settings.profile,
                labels=settings.labels,
                spam_labels=settings.spam_labels,
                time=now(),
                id_key=id_key_of_new(engine, settings),
            )
        elif not names:
            raise missing(dialect_of(engine).place(engine.url))
        on_error.pop_all()
    return engine


@contextmanager
def opened_database(
    settings: Settings, *, make: bool = False, upgrade: bool = False
) -> Iterator[Engine]:
    """Open the database as `open_database` does, and dispose of it at the end."""
    with disposing(open_database(settings, make=make, upgrade=upgrade)) as engine:
        yield engine


def prepare_database(settings: Settings) -> None:
    """Create or migrate the database and its key file, before workers start.

    Raises
    ------
    InvalidSetting, DatabaseUnprepared, DatabaseUnavailable
        As `open_database` and `key_of`, whose other errors are raised as well.
    """
    with opened_database(settings, make=True, upgrade=True) as engine:
        key_of(engine, settings)


def upgrade_database(settings: Settings) -> tuple[str, str]:
    """Migrate the settings' database; return its migration before and after.

    Raises
    ------
    DatabaseUnprepared
        If it has no tables.
    """
    url, patience = settings.database_url, settings.busy_timeout
    with disposing(open_engine(url, busy_timeout=patience, make=False)) as engine:
        before = revision_of(engine)
        if before is None:
            raise DatabaseUnprepared(
                "There is nothing to migrate: the database that "
                "POSTBAYES_DATABASE_URL names has no tables. `postbayes serve` "
                "creates them."
            )
        migrate(engine)
        return before, revision_of(engine) or before


def load_profiles(engine: Engine, settings: Settings) -> LiveProfiles:
    """Return the profiles of a database, for a command without threads."""
    # Here a missing key is an error of the command, not of one profile.
    key_of(engine, settings)
    live = LiveProfiles(engine, specify(settings))
    live.refresh()
    return live


def specification(settings: Settings, *, without: Container[str] = ()) -> Specification:
    """Return the specification of a new profile, `without` some text views."""
    spam_from = math.log(settings.ham_cost)
    views = tuple(view for view in settings.text_views if view not in without)
    with naming("POSTBAYES_TEXT_VIEWS"):
        classifiers = classifiers_of(views)
    verdict = VerdictRule(
        terms=terms_of(views), spam_threshold=spam_from, ham_threshold=-spam_from
    )
    with naming("POSTBAYES_QUARANTINE_FROM and POSTBAYES_REJECT_FROM"):
        action = ActionRule(
            spam_from=spam_from,
            quarantine_from=settings.quarantine_from,
            reject_from=settings.reject_from,
        )
    made = Specification(
        labels=settings.labels,
        spam_labels=settings.spam_labels,
        classifiers=classifiers,
        verdict=verdict,
        action=action,
    )
    months = settings.half_life_months
    return made if months is None else made.decaying(months)


def specify(settings: Settings) -> Callable[[ProfileRow], Specification]:
    """Return the function from a stored profile to its specification."""
    service = specification(settings)
    hidden = specification(settings, without=UNKEYED)

    def specified(row: ProfileRow) -> Specification:
        try:
            key = key_for(row, settings)
        # An error of one profile must not stop the others; a start checks this before.
        except InvalidSetting as error:
            raise Inconsistent(str(error)) from error
        readable = key is None and settings.store_words
        return specification_of(row, service if readable else replace(hidden, key=key))

    return specified


def require_startable(settings: Settings) -> tuple[Specification, Aliases]:
    """Return the specification and the aliases of the settings, before anything opens.

    Raises
    ------
    InvalidSetting
        If thresholds contradict each other, the filter would learn unsure verdicts, or
        the aliases cannot be read.
    """
    service, own_from = specification(settings), settings.autolearn_from
    spam_from = service.verdict.spam_threshold
    if own_from is not None and not spam_from <= own_from < math.inf:
        raise InvalidSetting(
            f"POSTBAYES_AUTOLEARN_FROM is {own_from:g}; it must be at least the spam "
            f"threshold {spam_from:.3f}, the log of POSTBAYES_HAM_COST"
        )
    return service, Aliases(settings.aliases)


def in_force(settings: Settings) -> list[dict[str, str | None]]:
    """Return the variable, value, default and description of all settings.

    Values are as a variable has them, without secrets; None is unset.
    """
    return [
        {
            "variable": f"{PREFIX}{name.upper()}",
            "value": _shown(name, getattr(settings, name)),
            "default": _shown(name, field.default),
            "description": texts_below(Settings)[name],
        }
        for name, field in Settings.model_fields.items()
    ]


def _shown(name: str, value: Any) -> str | None:
    """Return a value as text, without the secrets in it.

    A setting named like a secret is hidden, unless it is the path of a file with the
    secret.
    """
    if value is None:
        return None
    if name == "database_url":
        return without_password(parse(value))
    if name == "webhook":
        # For many webhooks, the path itself is the secret.
        if not is_web_address(value):
            return HIDDEN
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.hostname}/{HIDDEN}"
    # Numbers and networks are not secrets, and a path only tells where one is.
    secret = any(each in name for each in _SECRET) and isinstance(value, str)
    # An address may have a name and a password before its host.
    return HIDDEN if secret else _LOGIN.sub(HIDDEN, _written(value))


def _written(value: Any) -> str:
    """Return a value as it is written in a variable."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)
