"""Hidden profiles: imports in preparation, and what was replaced or deleted.

Contract of this file: a profile is hidden while its name contains a blank, which no
name from a client can contain (`app.classifier.specification.check_name`).  So one
update of its name shows or hides a profile.  The `created_at` of a hidden profile is
the time of the last work on it.

`leave_out` and `move` need the locks of both profiles, and unfolded rows.
Moving a row changes its key and not its vector: 16,055 messages take 0.35 s on SQLite.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, select, tuple_, update

from app.errors import DatabaseUnavailable
from app.storage import lists, tables
from app.storage.database.dialect import tuple_of
from app.storage.database.engine import writing_then_pause
from app.storage.profiles import HIDDEN, change, find
from app.storage.tables import fold, ledger, profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine, Table

    from app.storage.profiles import ProfileRow

# Tables without rows of a profile, and the table whose row is deleted last.
_OF_NONE: Final = frozenset({profile, *tables.OF_THE_SITE})
LEASE: Final = timedelta(days=1)
"""Time without progress after which the rows of an import are removed.

Its longest pause, the check of the whole ledger, takes minutes.  But another machine
may remove them, whose clock is hours ahead: set to the time of another zone.
"""
_GONE: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Rows that are deleted in one transaction.  Most are of some 40 bytes, but those of
# the ledger of some 8 kB, and a part of a run of some 150 kB.
_ROWS: Final = 4096
_LARGE_ROWS: Final = {"ledger": 512, "scored": 512, "run": 64}


def hidden_name(name: str) -> str:
    """Return a unique hidden name for a profile that may later get another name."""
    return f"{name} (import {token_hex(8)})"


def renew(connection: Connection, hidden: ProfileRow, *, now: datetime) -> None:
    """Renew the lease of a hidden profile, and lock it.

    Raises
    ------
    DatabaseUnavailable
        If it was removed, because it was not renewed for longer than `LEASE`.
    """
    if not _date(connection, hidden, now):
        raise DatabaseUnavailable(
            "this import was idle for so long that its data were removed; nothing was "
            "learned. Import it again"
        )


def show(
    connection: Connection,
    hidden: ProfileRow,
    *,
    instead_of: ProfileRow,
    created_at: datetime,
    policy: object,
) -> ProfileRow:
    """Return a hidden profile, shown in place of another and with its name.

    The other is hidden, for `remove_step`; the caller holds its lock.  Its lists stay
    with the name, because they are not learned.
    """
    hide(connection, instead_of, why="replaced")
    lists.move(connection, instead_of.id, hidden.id)
    change(
        connection,
        hidden.id,
        name=instead_of.name,
        created_at=created_at,
        policy=policy or None,
    )
    return find(connection, instead_of.name)


def hide(connection: Connection, row: ProfileRow, *, why: str) -> None:
    """Hide a profile for `remove_step`; the caller holds its lock."""
    connection.execute(delete(fold).where(fold.c.profile_id == row.id))
    change(
        connection,
        row.id,
        name=f"{row.name} ({why} {row.id})",
        created_at=_GONE,
        # An older version would append to the profile that it holds, by the key
        # alone.  With a row 1 it fails, and loses nothing.
        revision=0,
    )


def abandon(connection: Connection, hidden: ProfileRow) -> None:
    """End the lease of a hidden profile; one that was shown stays."""
    _date(connection, hidden, _GONE)


def _date(connection: Connection, hidden: ProfileRow, time: datetime) -> bool:
    """Set the time of a hidden profile; return whether it is there and hidden."""
    still = update(profile).filter_by(id=hidden.id, name=hidden.name)
    return connection.execute(still.values(created_at=time)).rowcount > 0


def abandoned(connection: Connection, *, now: datetime) -> list[int]:
    """Return the keys of the hidden profiles whose lease is over."""
    over = profile.c.created_at < now - LEASE
    query = select(profile.c.id).where(HIDDEN, over).order_by(profile.c.id)
    return list(connection.scalars(query))


def remove(engine: Engine, profile_id: int) -> Iterator[int]:
    """Delete a hidden profile; yield 1 after each step, for a bar."""
    more = True
    while more:
        with writing_then_pause(engine) as connection:
            more = remove_step(connection, profile_id)
        yield 1


def remove_step(connection: Connection, profile_id: int) -> bool:
    """Delete some rows, finally the hidden profile; return whether there is more."""
    # Processes that delete the same rows take turns.
    mine = select(profile.c.id).filter_by(id=profile_id).where(HIDDEN)
    if connection.scalar(mine.with_for_update()) is None:
        return False
    for table in reversed(tables.metadata.sorted_tables):
        if table not in _OF_NONE and _delete(connection, table, profile_id):
            return True
    connection.execute(delete(profile).filter_by(id=profile_id))
    return False


def _delete(connection: Connection, table: Table, profile_id: int) -> int:
    """Delete rows of a table, the first ones by its key."""
    key = [column for column in table.primary_key if column.name != "profile_id"]
    statement = delete(table).filter_by(profile_id=profile_id)
    if key:
        rows = select(*key).filter_by(profile_id=profile_id).order_by(*key)
        others = rows.offset(_LARGE_ROWS.get(table.name, _ROWS))
        first_left: Any = connection.execute(others.limit(1)).first()
        if first_left is not None:
            statement = statement.where(tuple_(*key) < tuple_of(key, first_left))
    return connection.execute(statement).rowcount


def leave_out(
    connection: Connection, hidden: ProfileRow, into: ProfileRow, *, after: int
) -> int:
    """Delete the messages that the other profile was taught after a revision.

    Returns
    -------
    int
        Rows that were deleted: the whole history of each of these messages.
    """
    row = ledger.c
    taught = (
        select(row.digest).filter_by(profile_id=into.id).where(row.revision > after)
    )
    gone = delete(ledger).filter_by(profile_id=hidden.id).where(row.digest.in_(taught))
    return connection.execute(gone).rowcount


def move(connection: Connection, hidden: ProfileRow, into: ProfileRow) -> int:
    """Append the rows of the hidden profile to the other; return their number."""
    last = select(profile.c.revision).where(profile.c.id == into.id).scalar_subquery()
    # Consecutive, whatever was left out.
    number = func.row_number().over(order_by=ledger.c.revision).label("number")
    rows = select(ledger.c.revision, number).filter_by(profile_id=hidden.id)
    numbered = rows.subquery()
    moved = connection.execute(
        update(ledger)
        .filter_by(profile_id=hidden.id)
        .where(ledger.c.revision == numbered.c.revision)
        .values(profile_id=into.id, revision=last + numbered.c.number)
    ).rowcount
    change(connection, into.id, revision=profile.c.revision + moved)
    return moved
