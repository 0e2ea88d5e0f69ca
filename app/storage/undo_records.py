"""Undo records: the undos of a profile, their rows, and the basis of a plan."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import func, insert, or_, select

from app.bayes.state import History
from app.errors import Expired, Irreversible
from app.ledger.entry import PRUNED
from app.ledger.undo import Selection, UndoRow, in_force
from app.ledger.vector import IN_SUM
from app.storage import fold, ledger, tables
from app.storage.database.dialect import chunks, values_of, where_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection

    from app.bayes.state import State
    from app.kernels import Ints
    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

_LEDGER: Final = tables.ledger
_UNDO: Final = tables.undo
_UNDONE: Final = tables.undone
_MANY: Final = 8


@dataclass(frozen=True, slots=True)
class TaughtRow:
    """A row of the ledger that an undo may take back."""

    revision: int
    digest: bytes
    time: datetime
    is_sum: bool
    kept: bool
    in_sum: bool
    pruning: bool


def all_of(connection: Connection, profile_id: int) -> list[UndoRow]:
    """Return the undos of a profile, oldest first."""
    rows = connection.execute(
        select(*(column for column in _UNDO.c if column.name != "profile_id"))
        .where(_UNDO.c.profile_id == profile_id)
        .order_by(_UNDO.c.number)
    )
    return [UndoRow(**row._asdict()) for row in rows]


def newest(undos: Iterable[UndoRow]) -> int:
    """Return the number of the newest undo, 0 without one."""
    return max((undo.number for undo in undos), default=0)


def matching(
    connection: Connection, profile_id: int, selection: Selection
) -> list[TaughtRow]:
    """Return the taught rows that a selection is true of, in force or not."""
    conditions = [_LEDGER.c.undo.is_(None), *ledger.asked_for(selection)]
    if not selection.ids:
        return _taught(connection, profile_id, *conditions)
    conditions.append(_LEDGER.c.kind != "sum")
    found = []
    for chunk in chunks(sorted(selection.ids)):
        of_them = _LEDGER.c.digest.in_(chunk)
        found += _taught(connection, profile_id, *conditions, of_them)
    return found


def standing(connection: Connection, profile_id: int) -> frozenset[int]:
    """Return the numbers of the undos of a profile that are in force."""
    return in_force(all_of(connection, profile_id))


def taken_back(
    connection: Connection,
    profile_id: int,
    revisions: Iterable[int],
    undos: Collection[int],
) -> set[int]:
    """Return those of the rows that some undos take back."""
    query = select(*_UNDONE.c["revision", "number"]).filter_by(profile_id=profile_id)
    rows = where_in(connection, query, _UNDONE.c.revision, sorted(revisions))
    return {row.revision for row in rows if row.number in undos}


def sums_in_force(connection: Connection, profile_id: int, source: str) -> bool | None:
    """Return whether sums of a source are in force; None if they were never learned."""
    rows = matching(connection, profile_id, Selection(source=source))
    sums = {row.revision for row in rows if row.is_sum}
    undos = standing(connection, profile_id)
    gone = taken_back(connection, profile_id, sums, undos)
    return gone != sums if sums else None


def rows_of(
    connection: Connection, profile_id: int, numbers: Iterable[int]
) -> list[TaughtRow]:
    """Return the rows that some undos take back."""
    found = []
    for number in sorted(numbers):
        of_it = select(_UNDONE.c.revision).filter_by(
            profile_id=profile_id, number=number
        )
        found += _taught(connection, profile_id, _LEDGER.c.revision.in_(of_it))
    return found


def _taught(
    connection: Connection, profile_id: int, *conditions: ColumnElement[bool]
) -> list[TaughtRow]:
    """Return the rows that some conditions are true of, oldest first.

    Not those of a message up to where it was forgotten: they are settled.
    """
    rows = connection.execute(
        select(
            *_LEDGER.c["revision", "digest", "time"],
            (_LEDGER.c.kind == "sum").label("is_sum"),
            # Forgetting has no features, and takes none to be taken back.
            or_(_LEDGER.c.vector.is_not(None), _LEDGER.c.kind == "note").label("kept"),
            _LEDGER.c.vector.is_not_distinct_from(IN_SUM).label("in_sum"),
            (_LEDGER.c.source == PRUNED).label("pruning"),
        ).where(_LEDGER.c.profile_id == profile_id, *conditions)
    ).all()
    # Once for each message.  Where each row asked whether a later one forgets, an undo
    # of a message that was moved 10,000 times took 44 s instead of 1.2 s.
    digest = _LEDGER.c.digest
    last = select(digest, func.max(_LEDGER.c.revision)).group_by(digest)
    forget = last.filter_by(
        profile_id=profile_id, kind="message", label=None, undo=None
    )
    digests = sorted({row.digest for row in rows})
    upto = dict(map(tuple, where_in(connection, forget, digest, digests)))
    # Sorted here: to have them in this order, SQLite would walk through the ledger.
    return [
        TaughtRow(**row._asdict())
        for row in sorted(rows, key=attrgetter("revision"))
        if row.revision > upto.get(row.digest, 0)
    ]


def read(connection: Connection, profile_id: int) -> Iterator[UndoRow]:
    """Give the undos of a profile with their rows, oldest first."""
    for undo in all_of(connection, profile_id):
        revisions = connection.scalars(
            select(_UNDONE.c.revision)
            .filter_by(profile_id=profile_id, number=undo.number)
            .order_by(_UNDONE.c.revision)
        )
        yield replace(undo, revisions=tuple(revisions))


def write(connection: Connection, profile_id: int, undo: UndoRow) -> None:
    """Add an undo; its work is noted elsewhere, if it is not done."""
    key = {"profile_id": profile_id, "takes": sorted(undo.takes)}
    row = values_of(undo, ("number", "source", "time", "asked"), **key)
    connection.execute(insert(_UNDO).values(row))
    write_revisions(connection, profile_id, undo.number, undo.revisions)


def write_revisions(
    connection: Connection, profile_id: int, number: int, revisions: Sequence[int]
) -> None:
    """Add rows that an undo takes back."""
    if revisions:
        key = {"profile_id": profile_id, "number": number}
        rows = [{**key, "revision": revision} for revision in revisions]
        connection.execute(insert(_UNDONE), rows)


def require_kept(
    connection: Connection, profile: ProfileRow, rows: Iterable[TaughtRow]
) -> None:
    """Raise if a row has no vector any more."""
    missing = [row.revision for row in rows if not row.kept]
    if missing:
        raise Expired(too_old(connection, profile, min(missing)))


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
    raise Expired(
        f"the message {row.digest.hex()} was learned in a sum and cannot be undone "
        "alone; undo the part of the archive that contained it, by its source "
        f"{row.source!r}, from {since} until {until}. Nothing was undone"
    )


def too_old(connection: Connection, profile: ProfileRow, revision: int) -> str:
    """Return the sentence for a row that cannot be taken back any more."""
    first = select(func.min(_LEDGER.c.time)).filter_by(profile_id=profile.id)
    oldest = connection.scalar(first.where(_LEDGER.c.vector.is_not(None)))
    # The next whole second: a selection from there on is of nothing older.
    since = (
        "nothing"
        if oldest is None
        else f"only feedback from {oldest + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ} on"
    )
    return (
        f"row {revision} of the ledger is too old, and its features are no longer "
        f"stored (POSTBAYES_VECTOR_DAYS); {since} can be undone. Nothing was undone"
    )


def require_reachable(
    connection: Connection, profile: ProfileRow, changed: Mapping[int, int]
) -> dict[str, int]:
    """Return the messages that sums change, if no count becomes negative."""
    if not changed:
        return {}

    @cache
    def is_part(source: str, time: datetime) -> bool:
        """Return whether the messages of a sum have rows of their own."""
        # Not by their vectors, which are erased of what is forgotten.
        own = {"profile_id": profile.id, "source": source, "time": time}
        beside = select(_LEDGER.c.revision).filter_by(**own, kind="message")
        return connection.scalar(beside.limit(1)) is not None

    delta, counted = History(), History()
    for chunk in chunks(sorted(changed), most=ledger.ROWS_OF_QUERY):
        moved, beside = [delta], [counted]
        for row in ledger.get_many(connection, profile.id, chunk):
            added = row.delta(profile.labels)
            of_part = is_part(row.source, row.time)
            if changed[row.revision] > 0:
                _require_repeatable(row, added, of_part=of_part)
            else:
                added = -added
            moved.append(History({row.epoch: added}))
            # The messages of a part have rows of their own, and are counted there.
            if not of_part:
                beside.append(moved[-1])
        delta, counted = History.sum(moved), History.sum(beside)
    after = fold.load_by_epoch(connection, profile) + delta
    for epoch, view, _ in delta.parts():
        if after[epoch][view].negative:
            raise Irreversible(
                f"counts of {view} in {epoch} would become negative: they were "
                "removed since, by a pruning or by an import that replaced them; undo "
                "that first"
            )
    messages = np.zeros(len(profile.labels), np.int64)
    for views in counted.values():
        messages += max((part.messages for part in views.values()), key=_size)
    return dict(zip(profile.labels, messages.tolist(), strict=True))


def _require_repeatable(row: LedgerRow, added: State, *, of_part: bool) -> None:
    """Raise if a sum that was taken back cannot be added again."""
    if of_part:
        raise Irreversible(
            f"row {row.revision} of the ledger, by {row.source!r}, is the sum of "
            "messages that may have been taught again since it was undone; learn that "
            "archive again instead of undoing the undo"
        )
    if any(part.negative for part in added.values()):
        raise Irreversible(
            f"row {row.revision} of the ledger, by {row.source!r}, removes counts "
            "that other feedback may need since it was undone; repeat the operation "
            "that wrote it instead of undoing the undo"
        )


def _size(messages: Ints) -> int:
    """Return how many messages are counted; every view counts about as many."""
    return int(np.abs(messages).sum())


def require_readable(
    connection: Connection, profile: ProfileRow, vectors: Iterable[int]
) -> None:
    """Raise unless the features of some rows can be read.

    An undo copies them, and a ledger with a new row that cannot be read could not be
    folded or loaded.

    Raises
    ------
    CorruptVector
        If one of them cannot be read.
    """
    for _ in _read(connection, profile, vectors):
        pass


def _read(
    connection: Connection, profile: ProfileRow, vectors: Iterable[int]
) -> Iterator[list[dict[str, Ints]]]:
    """Yield the features of some rows, by view, several rows at a time."""
    for chunk in chunks(sorted(vectors), most=ledger.ROWS_OF_QUERY):
        rows = ledger.get_many(connection, profile.id, chunk)
        yield [row.ids(profile.labels) for row in rows if row.vector is not None]


def features_of(
    connection: Connection, profile: ProfileRow, vectors: Iterable[int]
) -> int:
    """Return the number of features that some rows have, each once.

    Raises
    ------
    CorruptVector
        If one of them cannot be read.
    """
    seen: defaultdict[str, list[Ints]] = defaultdict(list)
    for rows in _read(connection, profile, vectors):
        for found in rows:
            for view, ids in found.items():
                seen[view].append(ids)
        for view, (first, *more) in seen.items():
            # Not before there are several times as many, so that few are sorted again.
            # Of 20,000 messages it took 0.6 s, and 1.3 where each chunk was sorted.
            if sum(ids.size for ids in more) >= _MANY * first.size:
                seen[view] = [np.unique(np.concatenate([first, *more]))]
    return sum(np.unique(np.concatenate(ids)).size for ids in seen.values())
