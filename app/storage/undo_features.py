"""Of how many features are the rows that an undo changes?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.storage import ledger
from app.storage.undos import chunks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from app.storage.profiles import ProfileRow

# Ids, 8 MB of them.
_SORTED_AT_ONCE: Final = 1_000_000


def features_of(
    connection: Connection, profile: ProfileRow, work: Iterable[tuple[int, int]]
) -> int:
    """Return of how many features and fields a plan's rows are, each once.

    It reads every vector, so a plan does without it.
    """
    seen: dict[str, _Distinct] = {}
    for chunk in chunks(sorted(revision for revision, _ in work)):
        for row in ledger.many(connection, profile.id, chunk):
            if row.vector is None:
                continue
            for view, ids in row.ids(profile.labels).items():
                seen.setdefault(view, _Distinct()).add(ids)
    return sum(ids.count() for ids in seen.values())


class _Distinct:
    """Ids, each once; it takes the memory of twice as many as there are."""

    def __init__(self) -> None:
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)
        self._more: list[NDArray[np.int64]] = []
        self._waiting = 0

    def add(self, ids: NDArray[np.int64]) -> None:
        """Take ids in."""
        self._more.append(ids)
        self._waiting += ids.size
        # Sorted again each time they have doubled: after each 500 rows, those of
        # 16,000 took 10.7 s of CPU instead of 2.9 s.
        if self._waiting > max(self._ids.size, _SORTED_AT_ONCE):
            self.count()

    def count(self) -> int:
        """Return how many there are."""
        self._ids = np.unique(np.concatenate([self._ids, *self._more]))
        self._more = []
        self._waiting = 0
        return self._ids.size
