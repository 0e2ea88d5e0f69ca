"""History: what was scored and taught of one message, and its explanation of now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import UnknownMessage
from app.features.observation import Observation
from app.services.classify import classify_observation
from app.storage import ledger, scored
from app.storage.database.engine import reading

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Engine

    from app.ledger.entry import LedgerRow
    from app.ledger.teaching import ScoredRow
    from app.services.classify import Classified
    from app.services.memory.cache import CachedProfile, LiveProfiles
    from app.services.memory.live import LiveProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHistory:
    """One message in one profile.

    Parameters
    ----------
    profile : str
        Name of the profile.
    scored : datetime or None
        When it was scored last; None where that is not stored, or no longer.
    rows : tuple of LedgerRow
        What was taught of it, oldest first.
    now : Classified or None
        The verdict of the profile as it is now, which knows what was taught since;
        None where the features of the message are not stored, or no longer.
    """

    profile: str
    scored: datetime | None
    rows: tuple[LedgerRow, ...]
    now: Classified | None


class MessageHistories:
    """Looks up single messages.

    Parameters
    ----------
    live : LiveProfiles
        The profiles in memory.
    engine : Engine
        The database.
    """

    def __init__(self, live: LiveProfiles, engine: Engine) -> None:
        self._live = live
        self._engine = engine

    def __call__(
        self, digest: bytes, *, profile: str | None, strongest: int
    ) -> list[MessageHistory]:
        """Return what is stored of a message, by profile.

        Parameters
        ----------
        digest : bytes
            The message.
        profile : str or None
            The one profile to look in; None looks in all.
        strongest : int
            How many features of each side the explanation names.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        UnknownMessage
            If nothing is stored of the message.
        """
        asked = self._live if profile is None else (self._live.find(profile),)
        found = [
            each
            for cached in asked
            if (each := self._look_up(cached, digest, strongest)) is not None
        ]
        if not found:
            msg = (
                f"nothing is stored of a message {digest.hex()}: it was not taught, "
                "nor scored within POSTBAYES_SCORED_DAYS and POSTBAYES_SCORED_ROWS; "
                "the log may still have its line"
            )
            raise UnknownMessage(msg)
        return found

    def _look_up(
        self, profile: CachedProfile, digest: bytes, strongest: int
    ) -> MessageHistory | None:
        with reading(self._engine) as connection:
            rows = ledger.history(connection, profile.row.id, digest)
            found = scored.get_many(connection, profile.row.id, [digest])
            remembered = found.get(digest)
        if not rows and remembered is None:
            return None
        stored = [row for row in (remembered, *reversed(rows)) if row and row.vector]
        now = None
        if stored:
            now = _classified(self._live.get(profile.row.name), stored[0], strongest)
        return MessageHistory(
            profile=profile.row.name,
            scored=None if remembered is None else remembered.time,
            rows=tuple(rows),
            now=now,
        )


def _classified(
    live: LiveProfile, stored: LedgerRow | ScoredRow, strongest: int
) -> Classified | None:
    if stored.feature_set != live.row.feature_set:
        return None
    observation = Observation(
        stored.digest, stored.feature_set, stored.views, stored.names
    )
    return classify_observation(live, observation, strongest=strongest)
