"""Undo records: the rows that are in force, and those that were taken back.

An undo takes back rows of the ledger and earlier undos.  What an undo took back
is in force again once the undo is taken back itself, unless another undo took
it back too.  So the order of undos does not matter, only which are in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, exists, insert, select

from app.storage import tables
from app.storage.database.statements import BulkInsert, chunks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection

_LEDGER: Final = tables.ledger
_UNDO: Final = tables.undo
_UNDONE: Final = tables.undone
PREFIX: Final = "undo:"
"""What the source of the rows that an undo writes begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which teachings to take back: those that all of it is true of.

    Parameters
    ----------
    ids : frozenset of bytes
        Digests of messages; empty means any.
    source : str or None
        Who said so, as the ledger has it, or ``undo:7`` for an undo; None means
        anybody.
    since, until : datetime or None
        From then on, and before then; None means any time.
    """

    ids: frozenset[bytes] = frozenset()
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def document(self) -> dict[str, object]:
        """Return the selection as JSON takes it."""
        return {
            "ids": sorted(digest.hex() for digest in self.ids),
            "source": self.source,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRow:
    """One undo.

    Parameters
    ----------
    number : int
        Counted from 1 in each profile.
    source : str
        Who asked for it.
    time : datetime
        When.
    takes : frozenset of int
        Numbers of earlier undos that it takes back.
    """

    number: int
    source: str
    time: datetime
    takes: frozenset[int]

    @property
    def name(self) -> str:
        """The source of the rows that it writes, by which it can be undone."""
        return f"{PREFIX}{self.number}"


@dataclass(frozen=True, slots=True)
class Taught:
    """A row of the ledger that an undo may take back."""

    revision: int
    digest: bytes
    is_sum: bool
    kept: bool


def all_of(connection: Connection, profile_id: int) -> list[UndoRow]:
    """Return the undos of a profile, oldest first."""
    rows = connection.execute(
        select(_UNDO).where(_UNDO.c.profile_id == profile_id).order_by(_UNDO.c.number)
    )
    return [
        UndoRow(
            number=row.number,
            source=row.source,
            time=row.time,
            takes=frozenset(row.takes),
        )
        for row in rows
    ]


def in_force(undos: Sequence[UndoRow]) -> frozenset[int]:
    """Return the numbers of the undos that no undo in force takes back.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> def undo(number, *takes):
    ...     return UndoRow(number=number, source="ann", takes=frozenset(takes),
    ...                    time=datetime(2026, 3, 1, tzinfo=UTC))
    >>> sorted(in_force([undo(1), undo(2, 1), undo(3, 2)]))
    [1, 3]
    """
    kept: set[int] = set()
    taken: set[int] = set()
    # An undo takes back earlier ones only, so the newest is in force.
    for each in sorted(undos, key=lambda undo: undo.number, reverse=True):
        if each.number not in taken:
            kept.add(each.number)
            taken |= each.takes
    return frozenset(kept)


def newest(undos: Iterable[UndoRow]) -> int:
    """Return the number of the newest undo, 0 without one."""
    return max((undo.number for undo in undos), default=0)


def to_take(undos: Sequence[UndoRow], unwanted: Collection[int]) -> frozenset[int]:
    """Return which undos a new one has to take back, so that none of some is in force.

    Not only those that are in force now: one that another of them has taken back
    would be in force again without that.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> def undo(number, *takes):
    ...     return UndoRow(number=number, source="ann", takes=frozenset(takes),
    ...                    time=datetime(2026, 3, 1, tzinfo=UTC))
    >>> both = [undo(1), undo(2, 1)]
    >>> sorted(to_take(both, {1, 2})), sorted(to_take(both, {2}))
    ([1, 2], [2])
    >>> sorted(to_take(both, {1}))
    []
    """
    found: set[int] = set()
    taken: set[int] = set()
    # As in `in_force`: whether one is taken back is known from those after it.
    for each in sorted(undos, key=lambda undo: undo.number, reverse=True):
        if each.number in taken:
            continue
        if each.number in unwanted:
            found.add(each.number)
        else:
            taken |= each.takes
    return frozenset(found)


def matching(connection: Connection, profile_id: int, asked: Selection) -> list[Taught]:
    """Return the taught rows that a selection is true of, in force or not."""
    conditions = [_LEDGER.c.profile_id == profile_id, _LEDGER.c.undo.is_(None)]
    if asked.source is not None:
        conditions.append(_LEDGER.c.source == asked.source)
    if asked.since is not None:
        conditions.append(_LEDGER.c.time >= asked.since)
    if asked.until is not None:
        conditions.append(_LEDGER.c.time < asked.until)
    if not asked.ids:
        return _taught(connection, conditions)
    conditions.append(_LEDGER.c.kind == "message")
    found = []
    for chunk in chunks(sorted(asked.ids)):
        found += _taught(connection, [*conditions, _LEDGER.c.digest.in_(chunk)])
    return found


def undos_matching(undos: Iterable[UndoRow], asked: Selection) -> frozenset[int]:
    """Return the numbers of the undos that a selection is true of."""
    if asked.ids:
        return frozenset()
    return frozenset(
        undo.number
        for undo in undos
        if (asked.source is None or asked.source == undo.name)
        and (asked.since is None or undo.time >= asked.since)
        and (asked.until is None or undo.time < asked.until)
    )


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
) -> list[Taught]:
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
    mine = _LEDGER.c.profile_id == profile_id, _LEDGER.c.source == source
    found: bool = connection.execute(select(exists().where(*mine))).scalar_one()
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
) -> list[Taught]:
    """Return the rows that some conditions are true of, oldest first."""
    rows = connection.execute(
        select(
            _LEDGER.c.revision,
            _LEDGER.c.digest,
            _LEDGER.c.kind,
            _LEDGER.c.vector.is_not(None).label("kept"),
        )
        .where(and_(*conditions))
        .order_by(_LEDGER.c.revision)
    )
    return [
        Taught(row.revision, row.digest, row.kind == "sum", bool(row.kept))
        for row in rows
    ]


_TAKE: Final = BulkInsert(_UNDONE, shared=("profile_id", "number"), given=("revision",))


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRecord:
    """One undo; the fields are the columns of the table, and what it takes back.

    Parameters
    ----------
    number : int
        Counted from 1 in each profile.
    source : str
        Who asked for it.
    time : datetime
        When.
    asked : mapping
        What for.
    takes : tuple of int
        Numbers of earlier undos that it takes back.
    revisions : tuple of int
        Rows of the ledger that it takes back, in their order.
    """

    number: int
    source: str
    time: datetime
    asked: Mapping[str, Any]
    takes: tuple[int, ...]
    revisions: tuple[int, ...]


def read(connection: Connection, profile_id: int) -> Iterator[UndoRecord]:
    """Give the undos of a profile, oldest first."""
    rows = connection.execute(
        select(_UNDO).where(_UNDO.c.profile_id == profile_id).order_by(_UNDO.c.number)
    ).all()
    for row in rows:
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
        shared = {"profile_id": profile_id, "number": number}
        _TAKE.run(connection, shared, revisions)
