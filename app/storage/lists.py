"""Lists in the database: the entries of each profile, and their versions."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final, cast

from sqlalchemy import delete, func, select, tuple_, update

from app.access.lists import ListEntry, ListKind, ListSubject
from app.storage.database.dialect import tuple_of, upsert
from app.storage.tables import list_entry, profile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from sqlalchemy import Connection

_FIELDS: Final = [field.name for field in fields(ListEntry) if field.name != "subject"]


def versions(connection: Connection) -> dict[int, tuple[datetime, int]]:
    """Return the version of the lists of each profile whose lists have changed.

    It includes the time of the profile, because SQLite gives the key of a deleted
    profile to the next one.
    """
    rows = connection.execute(
        select(profile.c.id, profile.c.created_at, profile.c.lists).where(
            profile.c.lists > 0
        )
    )
    return {row.id: (row.created_at, row.lists) for row in rows}


def entries(
    connection: Connection,
    profile_id: int,
    *,
    after: ListSubject | None = None,
    limit: int | None = None,
    now: datetime | None = None,
) -> list[ListEntry]:
    """Return entries of a profile by kind and value.

    Parameters
    ----------
    connection : Connection
        The database.
    profile_id : int
        The profile.
    after : ListSubject or None
        Only entries after this one; None: all.
    limit : int or None
        How many at most; None: all.
    now : datetime or None
        Only those that have not expired then; None: all.
    """
    place = list_entry.c.kind, list_entry.c.value
    wanted = select(list_entry).where(list_entry.c.profile_id == profile_id)
    if after is not None:
        wanted = wanted.where(tuple_(*place) > tuple_of(place, after))
    if now is not None:
        expires = list_entry.c.expires_at
        wanted = wanted.where(expires.is_(None) | (expires > now))
    rows = connection.execute(wanted.order_by(*place).limit(limit))
    return [
        ListEntry(
            subject=ListSubject(cast("ListKind", row.kind), row.value),
            **{name: getattr(row, name) for name in _FIELDS},
        )
        for row in rows
    ]


def count(connection: Connection, profile_id: int) -> int:
    """Return the number of entries of a profile."""
    wanted = select(func.count()).where(list_entry.c.profile_id == profile_id)
    return int(connection.scalar(wanted) or 0)


def put_many(connection: Connection, profile_id: int, new: Iterable[ListEntry]) -> None:
    """Store entries, each in place of an existing one with its subject.

    The caller holds the lock of the profile, as for every change.
    """
    rows = [
        {
            "profile_id": profile_id,
            "kind": each.subject.kind,
            "value": each.subject.value,
            **{name: getattr(each, name) for name in _FIELDS},
        }
        for each in new
    ]
    if rows:
        upsert(connection, list_entry, rows)
        _changed(connection, profile_id)


def remove(connection: Connection, profile_id: int, subject: ListSubject) -> bool:
    """Remove the entry of a subject; return whether there was one."""
    done = connection.execute(
        delete(list_entry).where(
            list_entry.c.profile_id == profile_id,
            list_entry.c.kind == subject.kind,
            list_entry.c.value == subject.value,
        )
    )
    if done.rowcount:
        _changed(connection, profile_id)
    return bool(done.rowcount)


def expire(connection: Connection, profile_id: int, *, now: datetime) -> None:
    """Remove expired entries."""
    connection.execute(
        delete(list_entry).where(
            list_entry.c.profile_id == profile_id, list_entry.c.expires_at <= now
        )
    )


def move(connection: Connection, profile_id: int, to: int) -> None:
    """Give the entries of a profile to another, which has none."""
    moved = connection.execute(
        update(list_entry)
        .where(list_entry.c.profile_id == profile_id)
        .values(profile_id=to)
    )
    if moved.rowcount:
        _changed(connection, to)


def _changed(connection: Connection, profile_id: int) -> None:
    connection.execute(
        update(profile)
        .where(profile.c.id == profile_id)
        .values(lists=profile.c.lists + 1)
    )
