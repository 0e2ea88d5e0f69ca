"""Sums of an undo: whether they can be taken from the counts, and their size."""

from __future__ import annotations

from datetime import UTC, timedelta
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
    from datetime import datetime

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from app.bayes.state import State
    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow
    from app.storage.undo.records import TaughtRow


def require_kept(
    connection: Connection, profile: ProfileRow, rows: Iterable[TaughtRow]
) -> None:
    """Raise if a row has no vector any more."""
    gone = [row.revision for row in rows if not row.kept]
    if gone:
        raise Expired(too_old(connection, profile, min(gone)))


def require_whole(
    connection: Connection, profile: ProfileRow, rows: Iterable[TaughtRow]
) -> None:
    """Raise if messages are to be taken back whose features are in a sum.

    Raises
    ------
    Expired
        With the selection of the part of one of them.
    """
    alone = [row.revision for row in rows if row.in_sum]
    if not alone:
        return
    (row,) = ledger.get_many(connection, profile.id, [min(alone)])
    since, until = (
        f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        for time in (row.time, row.time + timedelta(microseconds=1))
    )
    msg = (
        f"the message {row.digest.hex()} was learned in a sum, and cannot be undone "
        f"alone; the part of the archive that it was in can be, by its source "
        f"{row.source!r}, from {since} until {until}. Nothing was undone"
    )
    raise Expired(msg)


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
    delta, counted = History(), History()
    parts: dict[tuple[str, datetime], bool] = {}
    for chunk in chunks(sorted(changed)):
        moved, beside = [delta], [counted]
        for row in ledger.get_many(connection, profile.id, chunk):
            added = row.delta(profile.labels)
            written = row.source, row.time
            if written not in parts:
                parts[written] = records.has_messages(connection, profile.id, row)
            if changed[row.revision] > 0:
                _require_repeatable(row, added, of_part=parts[written])
            else:
                added = -added
            moved.append(History({row.epoch: added}))
            # The messages of a part have rows of their own, and are counted there.
            if not parts[written]:
                beside.append(moved[-1])
        delta, counted = History.sum(moved), History.sum(beside)
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
    for views in counted.values():
        messages += max((part.messages for part in views.values()), key=_size)
    return dict(zip(profile.labels, messages.tolist(), strict=True))


def _require_repeatable(row: LedgerRow, added: State, *, of_part: bool) -> None:
    """Raise if a sum that was taken back cannot be added again."""
    if of_part:
        msg = (
            f"row {row.revision} of the ledger, by {row.source!r}, is the sum of "
            "messages that may have been taught again since it was undone; learn that "
            "archive again instead of undoing the undo"
        )
        raise Irreversible(msg)
    if any(part.negative for part in added.values()):
        msg = (
            f"row {row.revision} of the ledger, by {row.source!r}, takes counts "
            "away that may be needed since it was undone; do again what "
            "wrote it instead of undoing the undo"
        )
        raise Irreversible(msg)


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
