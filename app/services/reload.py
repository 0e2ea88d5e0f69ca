"""Reload: the settings that a running service takes over when they are read again.

Contract of this file: a reload takes over all that it can, or nothing where a setting
cannot be used; the others stay as they were until a restart.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.services.application import require_startable, specify
from app.services.log import keep_log
from app.settings import PREFIX, Settings

if TYPE_CHECKING:
    from app.services.application import Application

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
        Those that count from now on.
    left : tuple of str
        Those that need a restart.
    """

    taken: tuple[str, ...]
    left: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as a sentence for the log."""
        taken = f"changed: {_named(self.taken)}" if self.taken else "none has changed"
        text = f"the settings, aliases and policies were read again; {taken}"
        if self.left:
            text += f"; restart the service for {_named(self.left)}"
        return text


def take_over(application: Application, found: Settings) -> Reloaded:
    """Have an application go on under other settings, as far as it can.

    Raises
    ------
    InvalidSetting
        If they contradict each other, or the aliases cannot be read; nothing is
        changed then.
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
