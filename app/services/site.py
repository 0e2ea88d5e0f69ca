"""Site: the settings in force without their secrets, and their reload.

Contract of this file: a reload applies every setting that needs no restart, or none if
any setting is invalid.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from app.services.log import keep_log
from app.services.startup import require_startable, specify
from app.settings import PREFIX, Settings
from app.storage.database.dialect import parse, without_password

if TYPE_CHECKING:
    from app.services.application import Application

HIDDEN: Final = "(hidden)"
"""Shown in place of a secret."""
_SECRET: Final = ("password", "secret", "key", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingState:
    """One setting in force.

    Parameters
    ----------
    variable : str
        Name of its variable.
    value, default : str or None
        The present and the default value, as in a variable; None if unset.
    description : str
        Its effect.
    """

    variable: str
    value: str | None
    default: str | None
    description: str


def in_force(settings: Settings) -> tuple[SettingState, ...]:
    """Return all settings without their secrets."""
    return tuple(
        SettingState(
            variable=f"{PREFIX}{name.upper()}",
            value=_shown(name, getattr(settings, name)),
            default=_shown(name, field.default),
            description=" ".join((field.description or "").split()),
        )
        for name, field in Settings.model_fields.items()
    )


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
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.hostname}/{HIDDEN}"
    # Numbers and networks are not secrets, and a path only tells where one is.
    secret = any(each in name for each in _SECRET) and isinstance(value, str)
    return HIDDEN if secret else _written(value)


def _written(value: Any) -> str:
    """Return a value as it is written in a variable."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


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
    """The settings that have changed.

    Parameters
    ----------
    taken : tuple of str
        The settings in force from now on.
    left : tuple of str
        The settings that need a restart.
    """

    taken: tuple[str, ...]
    left: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as a sentence for the log."""
        taken = f"changed: {_named(self.taken)}" if self.taken else "none changed"
        text = f"the settings, aliases and policies were read again; {taken}"
        if self.left:
            text += f"; restart the service for {_named(self.left)}"
        return text


def take_over(application: Application, found: Settings) -> Reloaded:
    """Apply new settings to a running application, as far as possible.

    Raises
    ------
    InvalidSetting
        If they contradict each other, or the aliases cannot be read; nothing is
        changed.
    """
    old = application.settings
    changed = [
        name
        for name in Settings.model_fields
        if getattr(old, name) != getattr(found, name)
    ]
    taken = {name: getattr(found, name) for name in changed if name in RELOADED}
    settings = old.model_copy(update=taken)
    service, aliases = require_startable(settings)
    application.gate.configure(settings)
    application.settings, application.service = settings, service
    application.aliases.become(aliases)
    live = application.live
    live.limit(settings.profile_bytes, idle=60 * settings.profile_minutes)
    live.respecify(specify(settings))
    keep_log(settings)
    left = (name for name in changed if name not in RELOADED)
    return Reloaded(tuple(taken), tuple(left))


def _named(settings: tuple[str, ...]) -> str:
    return ", ".join(PREFIX + name.upper() for name in settings)
