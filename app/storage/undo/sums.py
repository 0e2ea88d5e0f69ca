"""Sums of an undo: whether they can be taken from the counts, and their size."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.state import History
from app.errors import Expired, Irreversible
from app.storage import ledger
from app.storage.counts import state
from app.storage.database.statements import chunks
from app.storage.undo import records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from app.storage.profiles import ProfileRow
    from app.storage.undo.records import TaughtRow


def require_kept(
    connection: Connection, profile: ProfileRow, rows: Iterable[TaughtRow]
) -> None:
    """Raise if a row has no vector any more."""
    gone = [row.revision for row in rows if not row.kept]
    if gone:
        raise Expired(too_old(connection, profile, min(gone)))


def too_old(connection: Connection, profile: ProfileRow, revision: int) -> str:
    """Return the sentence for a row that cannot be taken back any more."""
    oldest = records.oldest_kept(connection, profile.id)
    # The next whole second: a selection from there on is of nothing older.
    since = (
        "nothing"
        if oldest is None
        else f"what came from {oldest[0] + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ} on"
    )
    return (
        f"row {revision} of the ledger is too old: its features are not kept any "
        f"more (POSTBAYES_VECTOR_DAYS); {since} can be undone, and nothing was"
    )


def require_reachable(
    connection: Connection, profile: ProfileRow, changed: Mapping[int, int]
) -> dict[str, int]:
    """Return the messages that sums change, if no count becomes negative."""
    if not changed:
        return {}
    delta = History()
    for revision in sorted(changed):
        (row,) = ledger.get_many(connection, profile.id, [revision])
        added = row.delta(profile.labels)
        if changed[revision] > 0 and any(part.negative for part in added.values()):
            msg = (
                f"row {revision} of the ledger, by {row.source!r}, takes counts "
                "away that may be needed since it was undone; do again what "
                "wrote it instead of undoing the undo"
            )
            raise Irreversible(msg)
        delta += History({row.epoch: added if changed[revision] > 0 else -added})
    after = state.load_by_epoch(connection, profile) + delta
    for epoch, view, _ in delta.parts():
        if after[epoch][view].negative:
            msg = (
                f"counts of {view} in {epoch} would become negative: something "
                "else has taken them away since, such as a pruning or an import "
                "that replaced them; undo that first"
            )
            raise Irreversible(msg)
    messages = np.zeros(len(profile.labels), np.int64)
    for views in delta.values():
        messages += max((part.messages for part in views.values()), key=_size)
    return dict(zip(profile.labels, messages.tolist(), strict=True))


def _size(messages: NDArray[np.int64]) -> int:
    """Return how many messages are counted; every view counts about as many."""
    return int(np.abs(messages).sum())


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
        for row in ledger.get_many(connection, profile.id, chunk):
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
