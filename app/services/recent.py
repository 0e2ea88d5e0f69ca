"""Which messages were scored so lately that the database has not seen them?

Scoring writes nothing.  It leaves the observation here, and the writer puts
what has gathered into the `scored` table about once a second.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from app.storage import profiles
from app.storage.engine import writing
from app.storage.scored import ScoredRow, put_many

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import Engine

    from app.features.observation import Observation

# A second of scoring at full speed is under 1,500 messages; about 7 kB each.
# What does not fit while the database is away is dropped, oldest first: the
# id then gets the 404 that says to send the message itself.
CAPACITY: Final = 8_192
# Written in one transaction, for which feedback may have to wait.
FLUSH_ROWS: Final = 64


class _Scored(NamedTuple):
    observation: Observation
    time: datetime


class Recent:
    """A bounded buffer of scored messages on their way to the database.

    Parameters
    ----------
    capacity : int
        Messages kept at most; the oldest is dropped for a new one.
    store_words : bool
        Whether the text of features is kept with them.
    """

    def __init__(self, capacity: int = CAPACITY, *, store_words: bool) -> None:
        self._capacity = capacity
        self._store_words = store_words
        self._scored: dict[tuple[int, bytes], _Scored] = {}
        self._lock = threading.Lock()

    def add(self, profile_id: int, observation: Observation, time: datetime) -> None:
        """Remember one message that a profile has scored."""
        observation = (
            observation.browsable() if self._store_words else observation.nameless()
        )
        key = (profile_id, observation.digest)
        with self._lock:
            # Removed first, so that a message that is scored again is the newest.
            self._scored.pop(key, None)
            self._scored[key] = _Scored(observation, time)
            if len(self._scored) > self._capacity:
                self._scored.pop(next(iter(self._scored)))

    def get(self, profile_id: int, digest: bytes) -> Observation | None:
        """Return what was seen of a message that is still here."""
        scored = self._scored.get((profile_id, digest))
        return None if scored is None else scored.observation

    def flush(self, engine: Engine) -> int:
        """Write what is here to the database, and return how many messages.

        Raises
        ------
        DatabaseUnavailable
            If it cannot be written; it stays here.
        """
        with self._lock:
            waiting = dict(self._scored)
        if not waiting:
            return 0
        by_profile: dict[int, list[bytes]] = {}
        for profile_id, digest in waiting:
            by_profile.setdefault(profile_id, []).append(digest)
        for profile_id, digests in sorted(by_profile.items()):
            for start in range(0, len(digests), FLUSH_ROWS):
                part = {
                    digest: waiting[profile_id, digest]
                    for digest in digests[start : start + FLUSH_ROWS]
                }
                self._write(engine, profile_id, part)
        return len(waiting)

    def _write(
        self, engine: Engine, profile_id: int, part: Mapping[bytes, _Scored]
    ) -> None:
        """Write some messages of one profile, and let go of them."""
        rows = [ScoredRow.of(seen, time=time) for seen, time in part.values()]
        with writing(engine) as connection:
            # What a profile has scored that was replaced since goes with it.
            if profile_id in {row.id for row in profiles.list_all(connection)}:
                put_many(connection, profile_id, rows)
        with self._lock:
            for digest, written in part.items():
                # It may have been scored again meanwhile.
                if self._scored.get((profile_id, digest)) is written:
                    del self._scored[profile_id, digest]
