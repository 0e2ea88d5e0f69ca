"""Moment sums in rows.

Contract of this file: a row is written as what it shall be, not as what is to
be added.  Words of sums that are added column by column keep their meaning but
not their form (2**31 learned twice in one step and unlearned in two is
``-2**32 + 1 * 2**32``), and the tables must equal those of a database that
never learned a message.  A label has few rows, 152 with 16 fields, and the
caller holds the profile's fold lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, delete, select

from app.bayes.moment_rows import MomentRow
from app.storage import tables
from app.storage.counts.features import Key
from app.storage.database.statements import BulkInsert

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

_TABLE: Final = tables.moment_sum
_PLACE: Final = ("field", "other", "degree")
_VALUES: Final = ("messages", "low", "middle", "high")
_AT: Final = tuple(_TABLE.c[name] == bindparam(name) for name in Key._fields)
_READ: Final = select(*(_TABLE.c[name] for name in _PLACE + _VALUES)).where(*_AT)
_FIELDS: Final = select(_TABLE.c.field).where(*_AT, _TABLE.c.degree == 1)
_DELETE: Final = delete(_TABLE).where(
    *_AT, *(_TABLE.c[name] == bindparam(name) for name in _PLACE)
)
_WRITE: Final = BulkInsert(
    _TABLE,
    shared=Key._fields,
    given=_PLACE + _VALUES,
    conflict="""
        ON CONFLICT (profile_id, epoch, view, label, field, other, degree)
        DO UPDATE SET messages = excluded.messages, low = excluded.low,
            middle = excluded.middle, high = excluded.high
    """,
)


def read(connection: Connection, key: Key, *, label: int) -> list[MomentRow]:
    """Return the sums of one label, whose class index is `label`."""
    rows = connection.execute(_READ, key._asdict())
    return [
        MomentRow(field, other, degree, label, messages, low, middle, high)
        for field, other, degree, messages, low, middle, high in rows
    ]


def replace(
    connection: Connection,
    key: Key,
    old: Iterable[MomentRow],
    new: Iterable[MomentRow],
) -> None:
    """Make the sums of one label, which are `old`, those of `new`."""
    before = {(row.field, row.other, row.degree): row for row in old}
    now = {(row.field, row.other, row.degree): row for row in new}
    changed = [row for place, row in now.items() if before.get(place) != row]
    gone = [place for place in before if place not in now]
    if changed:
        columns = zip(*((*row[:3], *row[4:]) for row in changed), strict=True)
        _WRITE.run(connection, key._asdict(), *columns)
    if gone:
        places = [dict(zip(_PLACE, place, strict=True)) for place in gone]
        connection.execute(_DELETE, [key._asdict() | place for place in places])


def counted(connection: Connection, key: Key, fields: Sequence[int]) -> set[int]:
    """Return those of the fields that have a row."""
    found = connection.execute(_FIELDS, key._asdict())
    return set(found.scalars()) & set(fields)
