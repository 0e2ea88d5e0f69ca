"""Where is an import until it is whole? In a profile that nobody sees."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from app.errors import Unavailable
from app.features.extract import FEATURE_SET
from app.storage import hidden
from app.storage.engine import reading, writing
from app.storage.turn import brief

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from sqlalchemy import Engine

    from app.storage.profiles import ProfileRow


class Labelled(Protocol):
    """What has labels, as a profile or an export has."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What people may call a message."""

    @property
    def spam_labels(self) -> tuple[str, ...]:
        """Those of the labels that stand for unwanted mail."""


@contextmanager
def unseen(
    engine: Engine, name: str, *, like: Labelled, clock: Callable[[], datetime]
) -> Iterator[ProfileRow]:
    """Give a hidden profile; what is left of it in the end is removed.

    Parameters
    ----------
    engine : Engine
        The database.
    name : str
        What it may be shown as.
    like : Labelled
        Whose labels it has.
    clock : callable
        Returns the time now, in UTC.
    """
    _clear(engine, now=clock())
    with writing(engine) as connection:
        new = hidden.begin(
            connection,
            name=name,
            labels=like.labels,
            spam_labels=like.spam_labels,
            feature_set=FEATURE_SET,
            now=clock(),
        )
    try:
        yield new
    finally:
        # If not now, then by the next import or the upkeep of a service.
        with suppress(Unavailable):
            with writing(engine) as connection:
                hidden.leave(connection, new)
            _clear(engine, now=clock())


def _clear(engine: Engine, *, now: datetime) -> None:
    """Remove what nobody works on any more."""
    with reading(engine) as connection:
        abandoned = hidden.abandoned(connection, now=now)
    for each in abandoned:
        more = True
        while more:
            with brief(engine) as connection:
                more = hidden.remove_step(connection, each)
