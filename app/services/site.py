"""Site: the version, the database and the settings in force, without their secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from app import __version__
from app.settings import PREFIX, Settings
from app.storage.database.url import parse, without_password

if TYPE_CHECKING:
    from app.services.application import Application

HIDDEN: Final = "(hidden)"
"""In the place of a secret."""
_SECRET: Final = ("password", "secret", "key", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingState:
    """One setting in force.

    Parameters
    ----------
    variable : str
        Its variable.
    value, default : str or None
        What it is, and what it is where nobody sets it, as a variable has it; None is
        unset.
    description : str
        What it does.
    """

    variable: str
    value: str | None
    default: str | None
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteState:
    """What a service is made of.

    Parameters
    ----------
    version : str
        Of Postbayes.
    database : str
        `sqlite` or `postgresql`.
    database_url : str
        Where it is, without its password.
    workers : int
        Processes of the service.
    profiles : int
        Profiles of the database.
    memory_bytes : int
        What the counts of the profiles in memory take in this process.
    settings : tuple of SettingState
        All of them, in the order of the reference.
    """

    version: str
    database: str
    database_url: str
    workers: int
    profiles: int
    memory_bytes: int
    settings: tuple[SettingState, ...]


def site_state(application: Application) -> SiteState:
    """Return what a service is made of."""
    settings = application.settings
    return SiteState(
        version=__version__,
        database=application.database,
        database_url=application.database_url,
        workers=settings.workers,
        profiles=sum(1 for _ in application.live),
        memory_bytes=application.live.nbytes,
        settings=in_force(settings),
    )


def in_force(settings: Settings) -> tuple[SettingState, ...]:
    """Return all settings with what may be shown of them."""
    return tuple(
        SettingState(
            variable=f"{PREFIX}{name.upper()}",
            value=_shown(name, getattr(settings, name)),
            default=_shown(name, field.default),
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    )


def _shown(name: str, value: Any) -> str | None:
    """Return a value as text; of one that is a secret, or has one in it, the rest.

    What is named like a secret is hidden, whatever it holds, but for the path of a
    file that holds it.
    """
    if value is None:
        return None
    if name == "database_url":
        return without_password(parse(value))
    if name == "webhook":
        # The path of many a webhook is what proves who may call it.
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.hostname}/{HIDDEN}"
    # Numbers and networks are none, and a path is where one is.
    secret = any(each in name for each in _SECRET) and isinstance(value, str)
    return HIDDEN if secret else _written(value)


def _written(value: Any) -> str:
    """Return a value as a variable has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)
