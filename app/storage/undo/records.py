"""Undo records: the undos of a profile, and the rows that each of them takes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, bindparam, exists, insert, select

from app.ledger.undo import UndoRecord, UndoRow
from app.ledger.vector import IN_SUM
from app.storage import tables
from app.storage.database.statements import chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection

    from app.ledger.entry import LedgerRow
    from app.ledger.undo import Selection

_LEDGER: Final = tables.ledger
_UNDO: Final = tables.undo
_UNDONE: Final = tables.undone
_ALL: Final = (
    select(_UNDO)
    .where(_UNDO.c.profile_id == bindparam("profile_id"))
    .order_by(_UNDO.c.number)
)


@dataclass(frozen=True, slots=True)
class TaughtRow:
    """A row of the ledger that an undo may take back."""

    revision: int
    digest: bytes
    is_sum: bool
    kept: bool
    in_sum: bool


def all_of(connection: Connection, profile_id: int) -> list[UndoRow]:
    """Return the undos of a profile, oldest first."""
    return [
        UndoRow(
            number=row.number,
            source=row.source,
            time=row.time,
            takes=frozenset(row.takes),
        )
        for row in connection.execute(_ALL, {"profile_id": profile_id})
    ]


def newest(undos: Iterable[UndoRow]) -> int:
    """Return the number of the newest undo, 0 without one."""
    return max((undo.number for undo in undos), default=0)


def matching(
    connection: Connection, profile_id: int, asked: Selection
) -> list[TaughtRow]:
    """Return the taught rows that a selection is true of, in force or not."""
    conditions = [_LEDGER.c.profile_id == profile_id, _LEDGER.c.undo.is_(None)]
    if asked.source is not None:
        conditions.append(_LEDGER.c.source == asked.source)
    if asked.since is not None:
        conditions.append(_LEDGER.c.time >= asked.since)
    if asked.until is not None:
        conditions.append(_LEDGER.c.time < asked.until)
    if asked.upto is not None:
        conditions.append(_LEDGER.c.revision <= asked.upto)
    if not asked.ids:
        return _taught(connection, conditions)
    conditions.append(_LEDGER.c.kind == "message")
    found = []
    for chunk in chunks(sorted(asked.ids)):
        found += _taught(connection, [*conditions, _LEDGER.c.digest.in_(chunk)])
    return found


def taken_by(
    connection: Connection, profile_id: int, revisions: Iterable[int]
) -> dict[int, set[int]]:
    """Return the undos that take back each of the rows, in force or not."""
    found: dict[int, set[int]] = {}
    for chunk in chunks(sorted(revisions)):
        rows = connection.execute(
            select(_UNDONE.c.revision, _UNDONE.c.number).where(
                _UNDONE.c.profile_id == profile_id, _UNDONE.c.revision.in_(chunk)
            )
        )
        for row in rows:
            found.setdefault(row.revision, set()).add(row.number)
    return found


def rows_of(
    connection: Connection, profile_id: int, numbers: Iterable[int]
) -> list[TaughtRow]:
    """Return the rows that some undos take back."""
    found = []
    for number in sorted(numbers):
        of_it = select(_UNDONE.c.revision).where(
            _UNDONE.c.profile_id == profile_id, _UNDONE.c.number == number
        )
        found += _taught(
            connection,
            [_LEDGER.c.profile_id == profile_id, _LEDGER.c.revision.in_(of_it)],
        )
    return found


def source_exists(connection: Connection, profile_id: int, source: str) -> bool:
    """Return whether a source of that name ever taught the profile."""
    taught_by = _LEDGER.c.profile_id == profile_id, _LEDGER.c.source == source
    found: bool = connection.execute(select(exists().where(*taught_by))).scalar_one()
    return found


def digests_known(
    connection: Connection, profile_id: int, digests: Iterable[bytes]
) -> set[bytes]:
    """Return those of the messages that the ledger has a row of."""
    found: set[bytes] = set()
    for chunk in chunks(sorted(digests)):
        found |= set(
            connection.execute(
                select(_LEDGER.c.digest).where(
                    _LEDGER.c.profile_id == profile_id,
                    _LEDGER.c.digest.in_(chunk),
                    _LEDGER.c.kind == "message",
                )
            ).scalars()
        )
    return found


def has_messages(connection: Connection, profile_id: int, row: LedgerRow) -> bool:
    """Return whether a sum is of messages that have rows of their own beside it."""
    # Not by their vectors, which are erased of what is forgotten.
    beside = exists().where(
        _LEDGER.c.profile_id == profile_id,
        _LEDGER.c.source == row.source,
        _LEDGER.c.time == row.time,
        _LEDGER.c.kind == "message",
    )
    found: bool = connection.execute(select(beside)).scalar_one()
    return found


def oldest_kept(
    connection: Connection, profile_id: int, *, upto: int | None = None
) -> tuple[datetime, int] | None:
    """Return time and revision of the row that loses its vector first.

    None without any vector; `upto` is the newest revision that counts.
    """
    query = (
        select(_LEDGER.c.time, _LEDGER.c.revision)
        .where(_LEDGER.c.profile_id == profile_id, _LEDGER.c.vector.is_not(None))
        .order_by(_LEDGER.c.time, _LEDGER.c.revision)
        .limit(1)
    )
    if upto is not None:
        query = query.where(_LEDGER.c.revision <= upto)
    row = connection.execute(query).first()
    return None if row is None else (row.time, row.revision)


def _taught(
    connection: Connection, conditions: Iterable[ColumnElement[bool]]
) -> list[TaughtRow]:
    """Return the rows that some conditions are true of, oldest first.

    Not those of a message up to where it was forgotten: they are settled.
    """
    later = _LEDGER.alias("later")
    forgotten = exists().where(
        later.c.profile_id == _LEDGER.c.profile_id,
        later.c.digest == _LEDGER.c.digest,
        later.c.revision >= _LEDGER.c.revision,
        later.c.kind == "message",
        later.c.label.is_(None),
        later.c.undo.is_(None),
    )
    rows = connection.execute(
        select(
            _LEDGER.c.revision,
            _LEDGER.c.digest,
            _LEDGER.c.kind,
            _LEDGER.c.vector.is_not(None).label("kept"),
            (_LEDGER.c.vector == IN_SUM).label("in_sum"),
        )
        .where(and_(*conditions), ~forgotten)
        .order_by(_LEDGER.c.revision)
    )
    return [
        TaughtRow(
            row.revision,
            row.digest,
            row.kind == "sum",
            bool(row.kept),
            bool(row.in_sum),
        )
        for row in rows
    ]


def read(connection: Connection, profile_id: int) -> Iterator[UndoRecord]:
    """Give the undos of a profile, oldest first."""
    for row in connection.execute(_ALL, {"profile_id": profile_id}).all():
        revisions = connection.execute(
            select(_UNDONE.c.revision)
            .where(_UNDONE.c.profile_id == profile_id, _UNDONE.c.number == row.number)
            .order_by(_UNDONE.c.revision)
        ).scalars()
        yield UndoRecord(
            number=row.number,
            source=row.source,
            time=row.time,
            asked=row.asked,
            takes=tuple(row.takes),
            revisions=tuple(revisions),
        )


def write(connection: Connection, profile_id: int, record: UndoRecord) -> None:
    """Add an undo; its work is noted elsewhere, if it is not done."""
    connection.execute(
        insert(_UNDO).values(
            profile_id=profile_id,
            number=record.number,
            source=record.source,
            time=record.time,
            asked=record.asked,
            takes=list(record.takes),
        )
    )
    write_revisions(connection, profile_id, record.number, record.revisions)


def write_revisions(
    connection: Connection, profile_id: int, number: int, revisions: Sequence[int]
) -> None:
    """Add rows that an undo takes back."""
    if revisions:
        key = {"profile_id": profile_id, "number": number}
        rows = [{**key, "revision": revision} for revision in revisions]
        connection.execute(insert(_UNDONE), rows)
