"""Hidden profiles: imports in preparation, and what was replaced or deleted.

Contract of this file: a profile is hidden while its name contains a blank, which no
name from a client can contain (`app.classifier.specification.check_name`).  So one
update of its name shows or hides a profile.  The `created_at` of a hidden profile is
the time of the last work on it.

The rows of an import into a profile with a ledger join that ledger in steps, each with
whole messages (decision 0040).  The name of a hidden profile tells that its rows do, so
that a service goes on with it.  They are unfolded.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from operator import lt
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, select, update

from app.errors import DatabaseUnavailable
from app.storage import lists, tables
from app.storage.database.dialect import where_place
from app.storage.database.engine import writing_then_pause
from app.storage.ledger import known_digests
from app.storage.profiles import HIDDEN, change, find, is_there, lock
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
# Messages that join another profile in one transaction, in 16 ms on SQLite (median).
_MESSAGES: Final = 128
_JOINS: Final = "(joins "


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
    going_on = joining(connection)
    return [key for key in connection.scalars(query) if key not in going_on]


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
        statement = statement.where(*where_place(key, lt, first_left))
    return connection.execute(statement).rowcount


def begin_to_join(connection: Connection, hidden: ProfileRow, into: ProfileRow) -> None:
    """Have the messages of a hidden profile join another by `join_some`.

    Whoever comes next goes on with it, so it has no lease any more.
    """
    change(connection, hidden.id, name=f"{hidden.name} {_JOINS}{into.id})")


def joining(connection: Connection) -> dict[int, int]:
    """Return the key of each profile that joins another, and the key of the other."""
    names = select(profile.c.id, profile.c.name).where(HIDDEN)
    found = connection.execute(names.where(profile.c.name.contains(_JOINS))).all()
    into = {row.id: int(row.name.rpartition(_JOINS)[2][:-1]) for row in found}
    return {each: key for each, key in into.items() if is_there(connection, key)}


def join_some(
    connection: Connection, hidden_id: int, into: ProfileRow
) -> tuple[int, int]:
    """Append the oldest messages of a hidden profile to another, with all their rows.

    Those that the other knows are deleted: it was taught them in the meantime, or
    another import of the same export has added them, sums included.

    Returns
    -------
    (int, int)
        Rows that were appended, and rows that were deleted; zeros once none was left,
        and the hidden profile is for `remove_step`.

    Raises
    ------
    ProfileReplaced
        If the other is gone.
    """
    revision = lock(connection, into)
    row = ledger.c
    mine = row.profile_id == hidden_id
    oldest = select(row.digest).where(mine).order_by(row.revision).limit(_MESSAGES)
    digests = set(connection.scalars(oldest))
    if not digests:
        change(connection, hidden_id, name=f"joined {hidden_id}", created_at=_GONE)
        return 0, 0
    known = known_digests(connection, into.id, digests)
    left_out = 0
    if known:
        gone = delete(ledger).where(mine, row.digest.in_(known))
        left_out = connection.execute(gone).rowcount
    # Sorted here, and moved one by one: otherwise SQLite reads all rows.
    moved = select(row.revision).where(mine, row.digest.in_(digests - known))
    revisions = sorted(connection.scalars(moved))
    # Consecutive, whatever was left out.
    places = [
        {"old": old, "new": new} for new, old in enumerate(revisions, revision + 1)
    ]
    if places:
        one = update(ledger).where(mine, row.revision == bindparam("old"))
        to = one.values(profile_id=into.id, revision=bindparam("new"))
        connection.execute(to, places)
        change(connection, into.id, revision=places[-1]["new"])
    return len(places), left_out


def join_at_once(connection: Connection, hidden_id: int, into: ProfileRow) -> int:
    """Do all steps of `join_some`; return how many rows were deleted."""
    steps = iter(partial(join_some, connection, hidden_id, into), (0, 0))
    return sum(left_out for _, left_out in steps)


def join(engine: Engine, hidden: ProfileRow, into: ProfileRow) -> int:
    """Do all steps of `join_some`, each in a transaction; return what was deleted."""

    def step() -> tuple[int, int]:
        with writing_then_pause(engine) as connection:
            return join_some(connection, hidden.id, into)

    return sum(left_out for _, left_out in iter(step, (0, 0)))
