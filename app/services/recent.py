"""Which messages were scored so lately that the database has not seen them?

Scoring writes nothing.  It leaves the observation here, and the writer puts
what has gathered into the `scored` table about once a second.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from app.storage import scored
from app.storage.engine import writing

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from app.storage.scored import ScoredRow

# A second of scoring at full speed is under 1,500 messages; about 4 kB each.
# What does not fit while the database is away is dropped, oldest first: the
# id then gets the 404 that says to send the message itself.
CAPACITY: Final = 8_192


class Recent:
    """A bounded buffer of scored messages on their way to the database.

    Parameters
    ----------
    capacity : int
        Messages kept at most; the oldest is dropped for a new one.
    store_words : bool
        Whether the text of features is kept with them.
    """

    def __init__(self, capacity: int = CAPACITY, *, store_words: bool = True) -> None:
        self._capacity = capacity
        self._store_words = store_words
        self._rows: dict[tuple[int, bytes], ScoredRow] = {}
        self._lock = threading.Lock()

    def add(self, row: ScoredRow) -> None:
        """Remember one scored message."""
        if not self._store_words:
            row = replace(row, observation=row.observation.nameless())
        key = (row.profile_id, row.digest)
        with self._lock:
            self._rows.pop(key, None)
            self._rows[key] = row
            if len(self._rows) > self._capacity:
                self._rows.pop(next(iter(self._rows)))

    def get(self, profile_id: int, digest: bytes) -> ScoredRow | None:
        """Return a message that is still here."""
        return self._rows.get((profile_id, digest))

    def flush(self, engine: Engine) -> int:
        """Write what is here to the database, and return how many rows.

        Raises
        ------
        DatabaseUnavailable
            If it cannot be written; all of it stays here.
        """
        with self._lock:
            rows = list(self._rows.values())
        if not rows:
            return 0
        with writing(engine) as connection:
            scored.put_many(connection, rows)
        with self._lock:
            for row in rows:
                key = (row.profile_id, row.digest)
                # The same message may have been scored again meanwhile.
                if self._rows.get(key) is row:
                    del self._rows[key]
        return len(rows)
