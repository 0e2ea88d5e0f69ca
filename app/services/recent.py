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
    from datetime import datetime

    from sqlalchemy import Engine

    from app.features.observation import Observation

# A second of scoring at full speed is under 1,500 messages; about 7 kB each.
# What does not fit while the database is away is dropped, oldest first: the
# id then gets the 404 that says to send the message itself.
CAPACITY: Final = 8_192


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
            If it cannot be written; all of it stays here.
        """
        with self._lock:
            waiting = dict(self._scored)
        if not waiting:
            return 0
        rows: dict[int, list[ScoredRow]] = {}
        for (profile_id, _), (observation, time) in waiting.items():
            row = ScoredRow.of(observation, time=time)
            rows.setdefault(profile_id, []).append(row)
        with writing(engine) as connection:
            # What a profile has scored that was replaced since goes with it.
            there = {row.id for row in profiles.list_all(connection)}
            for profile_id in sorted(rows.keys() & there):
                put_many(connection, profile_id, rows[profile_id])
        with self._lock:
            for key, written in waiting.items():
                # It may have been scored again meanwhile.
                if self._scored.get(key) is written:
                    del self._scored[key]
        return len(waiting)
