"""Hidden profiles: imports in progress, and the rows that they replace.

Contract of this file: a profile is hidden while its name has a blank, which no name
that a client can ask for has (`app.classifier.specification.check_name`).  So one
update of its name shows or hides a profile, and `app.storage.profiles.lock` refuses a
profile that was hidden meanwhile.  The `created_at` of a hidden profile is the time of
the last work on it.

`leave_out` and `move` need the locks of both profiles, and rows that are not folded.
Moving a row changes its key and not its vector: 16,055 messages take 0.35 s on SQLite.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, literal, select, tuple_, update

from app.errors import DatabaseUnavailable
from app.storage import lists, profiles, tables

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from app.storage.profiles import ProfileRow

_LEDGER: Final = tables.ledger
_PROFILE: Final = tables.profile
# Tables without rows of a profile, and the one whose row goes last.
_OF_NONE: Final = frozenset({_PROFILE, *tables.OF_THE_SITE})
LEASE: Final = timedelta(hours=1)
"""How long an import may stand still before its rows are removed.

Its longest pause is the proof that the ledger adds up, which reads all of it.
"""
_GONE: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Rows that are deleted in one transaction.  Most are of some 40 bytes, but those of
# the ledger of some 8 kB, and a part of a run of some 150 kB.
_ROWS: Final = 4096
_LARGE_ROWS: Final = {"ledger": 512, "scored": 512, "run": 64}


def begin(
    connection: Connection,
    *,
    name: str,
    labels: tuple[str, ...],
    spam_labels: tuple[str, ...],
    feature_set: int,
    now: datetime,
    id_key: str | None = None,
) -> ProfileRow:
    """Return a new hidden profile; `name` is the name that it may be shown as."""
    return profiles.create(
        connection,
        name=f"{name} (import {token_hex(8)})",
        labels=labels,
        spam_labels=spam_labels,
        feature_set=feature_set,
        created_at=now,
        id_key=id_key,
    )


def renew(connection: Connection, hidden: ProfileRow, *, now: datetime) -> None:
    """Renew the lease of a hidden profile, and lock it.

    Raises
    ------
    DatabaseUnavailable
        If it was removed, because it was not renewed for longer than `LEASE`.
    """
    kept = connection.execute(
        update(_PROFILE)
        .where(_PROFILE.c.id == hidden.id, _PROFILE.c.name == hidden.name)
        .values(created_at=now)
    )
    if not kept.rowcount:
        msg = (
            "this import stood still for so long that what it had written was "
            "removed; nothing of it is learned. Import it again"
        )
        raise DatabaseUnavailable(msg)


def show(
    connection: Connection,
    hidden: ProfileRow,
    *,
    instead_of: ProfileRow,
    created_at: datetime,
    policy: object,
) -> ProfileRow:
    """Return a hidden profile in the place and under the name of another.

    That one is hidden, for `remove_step`; the caller holds its lock.  Its lists go on
    under the name, since they are no part of what is learned.
    """
    hide(connection, instead_of, why="replaced")
    lists.move(connection, instead_of.id, hidden.id)
    connection.execute(
        update(_PROFILE)
        .where(_PROFILE.c.id == hidden.id)
        .values(name=instead_of.name, created_at=created_at, policy=policy or None)
    )
    return profiles.find(connection, instead_of.name)


def hide(connection: Connection, row: ProfileRow, *, why: str) -> None:
    """Hide a profile for `remove_step`; the caller holds its lock."""
    connection.execute(delete(tables.fold).where(tables.fold.c.profile_id == row.id))
    connection.execute(
        update(_PROFILE)
        .where(_PROFILE.c.id == row.id)
        .values(
            name=f"{row.name} ({why} {row.id})",
            created_at=_GONE,
            # A Postbayes before this one would append to what it holds by the key
            # alone.  So it fails, since there is a row 1, and loses nothing.
            revision=0,
        )
    )


def abandon(connection: Connection, hidden: ProfileRow) -> None:
    """End the lease of a hidden profile; one that was shown stays."""
    connection.execute(
        update(_PROFILE)
        .where(_PROFILE.c.id == hidden.id, _PROFILE.c.name == hidden.name)
        .values(created_at=_GONE)
    )


def abandoned(connection: Connection, *, now: datetime) -> list[int]:
    """Return the keys of the hidden profiles whose lease is over."""
    rows = connection.execute(
        select(_PROFILE.c.id)
        .where(profiles.HIDDEN, _PROFILE.c.created_at < now - LEASE)
        .order_by(_PROFILE.c.id)
    )
    return list(rows.scalars())


def remove_step(connection: Connection, profile_id: int) -> bool:
    """Delete some rows of a hidden profile, and at last itself.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile_id : int
        From `abandoned`.

    Returns
    -------
    bool
        Whether there is more to delete.
    """
    # Two that delete the same rows take turns.
    there = connection.execute(
        select(_PROFILE.c.id)
        .where(_PROFILE.c.id == profile_id, profiles.HIDDEN)
        .with_for_update()
    ).first()
    if there is None:
        return False
    for table in reversed(tables.metadata.sorted_tables):
        if table in _OF_NONE:
            continue
        if _delete(connection, table, profile_id):
            return True
    connection.execute(delete(_PROFILE).where(_PROFILE.c.id == profile_id))
    return False


def _delete(connection: Connection, table: Table, profile_id: int) -> int:
    """Delete rows of a table, the first ones by its key."""
    of_profile = table.c.profile_id == profile_id
    key = [column for column in table.primary_key if column.name != "profile_id"]
    statement = delete(table).where(of_profile)
    if key:
        first_left: Any = connection.execute(
            select(*key)
            .where(of_profile)
            .order_by(*key)
            .offset(_LARGE_ROWS.get(table.name, _ROWS))
            .limit(1)
        ).first()
        if first_left is not None:
            bound = [
                literal(value, column.type)
                for value, column in zip(first_left, key, strict=True)
            ]
            statement = statement.where(tuple_(*key) < tuple_(*bound))
    return connection.execute(statement).rowcount


def leave_out(
    connection: Connection, hidden: ProfileRow, profile: ProfileRow, *, after: int
) -> int:
    """Delete what the other profile was taught of after a revision.

    Returns
    -------
    int
        Rows that were deleted: the whole history of each of these messages.
    """
    taught = select(_LEDGER.c.digest).where(
        _LEDGER.c.profile_id == profile.id, _LEDGER.c.revision > after
    )
    return connection.execute(
        delete(_LEDGER).where(
            _LEDGER.c.profile_id == hidden.id, _LEDGER.c.digest.in_(taught)
        )
    ).rowcount


def move(connection: Connection, hidden: ProfileRow, profile: ProfileRow) -> int:
    """Append the rows of the hidden profile to the ledger of the other.

    Returns
    -------
    int
        How many there were.
    """
    last = (
        select(_PROFILE.c.revision).where(_PROFILE.c.id == profile.id).scalar_subquery()
    )
    # Consecutive, whatever was left out.
    numbered = (
        select(
            _LEDGER.c.revision,
            func.row_number().over(order_by=_LEDGER.c.revision).label("number"),
        )
        .where(_LEDGER.c.profile_id == hidden.id)
        .subquery()
    )
    moved = connection.execute(
        update(_LEDGER)
        .where(
            _LEDGER.c.profile_id == hidden.id, _LEDGER.c.revision == numbered.c.revision
        )
        .values(profile_id=profile.id, revision=last + numbered.c.number)
    ).rowcount
    connection.execute(
        update(_PROFILE)
        .where(_PROFILE.c.id == profile.id)
        .values(revision=_PROFILE.c.revision + moved)
    )
    return moved
