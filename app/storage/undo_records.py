"""What is kept of an undo, as it is?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import insert, select

from app.storage import tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection


# As in `app.storage.undo_work`.
_TAKE: Final = {
    "sqlite": "INSERT INTO undone (profile_id, number, revision) VALUES (?, ?, ?)",
    "postgresql": (
        "INSERT INTO undone (profile_id, number, revision)"
        " SELECT %(profile_id)s, %(number)s, unnest(%(revisions)s::bigint[])"
    ),
}


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
    undo, undone = tables.undo, tables.undone
    rows = connection.execute(
        select(undo).where(undo.c.profile_id == profile_id).order_by(undo.c.number)
    ).all()
    for row in rows:
        revisions = connection.execute(
            select(undone.c.revision)
            .where(undone.c.profile_id == profile_id, undone.c.number == row.number)
            .order_by(undone.c.revision)
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
        insert(tables.undo).values(
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
    if not revisions:
        return
    statement = _TAKE[connection.dialect.name]
    if connection.dialect.name == "sqlite":
        rows = [(profile_id, number, revision) for revision in revisions]
        connection.exec_driver_sql(statement, rows)
    else:
        connection.exec_driver_sql(
            statement,
            {"profile_id": profile_id, "number": number, "revisions": list(revisions)},
        )
