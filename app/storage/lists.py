"""Lists in the database: entries of each profile, and digests of correspondents."""

from __future__ import annotations

from dataclasses import fields
from operator import gt
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import delete, func, insert, literal, select, update

from app.access.lists import ListEntry, ListSubject
from app.storage.database.dialect import upsert, values_of, where_in, where_place
from app.storage.profiles import change
from app.storage.tables import correspondent, list_entry, profile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

_FIELDS: Final = [field.name for field in fields(ListEntry) if field.name != "subject"]


def versions(connection: Connection) -> dict[int, tuple[datetime, int]]:
    """Return the version of the lists of each profile whose lists have changed.

    It includes the time of the profile, because a database that was restored from a
    backup gives a key again.
    """
    changed = select(*profile.c["id", "created_at", "lists"])
    rows = connection.execute(changed.where(profile.c.lists > 0))
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
    after : ListSubject or None
        Only entries after this one; None: all.
    now : datetime or None
        Only those that have not expired then; None: all.
    """
    place = list_entry.c.kind, list_entry.c.value
    wanted = select(list_entry).filter_by(profile_id=profile_id)
    wanted = wanted.where(*where_place(place, gt, after))
    if now is not None:
        expires = list_entry.c.expires_at
        wanted = wanted.where(expires.is_(None) | (expires > now))
    rows = connection.execute(wanted.order_by(*place).limit(limit))
    return [
        ListEntry(**values_of(row, _FIELDS, subject=ListSubject(row.kind, row.value)))
        for row in rows
    ]


def count(connection: Connection, profile_id: int) -> int:
    """Return the number of entries of a profile."""
    mine = list_entry.c.profile_id == profile_id
    return connection.execute(select(func.count()).where(mine)).scalar_one()


def put_many(connection: Connection, profile_id: int, new: Iterable[ListEntry]) -> None:
    """Store entries, each in place of an existing one with its subject.

    The caller holds the lock of the profile, as for every change.
    """
    rows = [
        values_of(each, _FIELDS, profile_id=profile_id, **each.subject._asdict())
        for each in new
    ]
    if rows:
        upsert(connection, list_entry, rows)
        _changed(connection, profile_id)


def remove(connection: Connection, profile_id: int, subject: ListSubject) -> bool:
    """Remove the entry of a subject; return whether there was one."""
    mine = {"profile_id": profile_id, **subject._asdict()}
    done = connection.execute(delete(list_entry).filter_by(**mine))
    if done.rowcount:
        _changed(connection, profile_id)
    return bool(done.rowcount)


def expire(connection: Connection, profile_id: int, *, now: datetime) -> None:
    """Remove expired entries."""
    mine = delete(list_entry).filter_by(profile_id=profile_id)
    connection.execute(mine.where(list_entry.c.expires_at <= now))


def move(connection: Connection, profile_id: int, to: int) -> None:
    """Give the entries of a profile to another, which has none."""
    mine = update(list_entry).filter_by(profile_id=profile_id)
    if connection.execute(mine.values(profile_id=to)).rowcount:
        _changed(connection, to)


def _changed(connection: Connection, profile_id: int) -> None:
    change(connection, profile_id, lists=profile.c.lists + 1)


# Rows that are fetched at once.
_PART: Final = 10_000


class CorrespondentRow(NamedTuple):
    """An address that a profile wrote to.

    Parameters
    ----------
    address, domain : bytes
        Digests (`app.classifier.statement.identity_digest`).
    last : datetime
        The day of the last one.
    """

    profile_id: int
    address: bytes
    domain: bytes
    messages: int
    last: datetime


class CorrespondentFigures(NamedTuple):
    """The number of correspondents of a profile.

    Parameters
    ----------
    addresses, messages : int
        Number of addresses, and of messages to all of them.
    last : datetime
        The day of the last one.
    """

    profile_id: int
    addresses: int
    messages: int
    last: datetime


_ALL: Final = select(*correspondent.c[CorrespondentRow._fields])


def add_correspondents(
    connection: Connection, rows: Iterable[CorrespondentRow]
) -> None:
    """Add messages to the counts; the days of these rows are the latest."""
    # In the order of the key, so processes that add to the same rows never deadlock.
    found = [row._asdict() for row in sorted(rows)]
    upsert(connection, correspondent, found, adding_to=["messages"])


def correspondents_in_parts(
    connection: Connection, since: datetime | None = None
) -> Iterator[Sequence[CorrespondentRow]]:
    """Yield all rows, in parts; with `since`, those that changed since that day."""
    query = _ALL
    if since is not None:
        # Profile by profile, in the order of the index; otherwise every row is read.
        whose = correspondent.c.profile_id.in_(select(profile.c.id))
        query = _ALL.where(whose, correspondent.c.last >= since)
    # Of the statement: a connection would keep the option.
    parts = connection.execute(query.execution_options(yield_per=_PART))
    for part in parts.partitions():
        yield [CorrespondentRow(*row) for row in part]


def count_correspondents(connection: Connection) -> int:
    """Return how many rows there are."""
    return connection.scalar(select(func.count()).select_from(correspondent)) or 0


def correspondent_figures(
    connection: Connection,
    profile_ids: Iterable[int],
    addresses: Collection[bytes] | None,
) -> list[CorrespondentFigures]:
    """Return the number of correspondents of each of some profiles that has any.

    If `addresses` are given, only these count.
    """
    table = correspondent.c
    figures = func.count(), func.sum(table.messages), func.max(table.last)
    query = select(table.profile_id, *figures).group_by(table.profile_id)
    if addresses is not None:
        query = query.where(table.address.in_(addresses))
    rows = where_in(connection, query, table.profile_id, profile_ids)
    return [CorrespondentFigures._make(row) for row in rows]


def forget_correspondent(
    connection: Connection, profile_id: int, address: bytes
) -> bool:
    """Delete the rows of an address; return whether there were any."""
    mine = {"profile_id": profile_id, "address": address}
    return connection.execute(delete(correspondent).filter_by(**mine)).rowcount > 0


def drop_oldest_correspondents(
    connection: Connection, profile_id: int, *, most: int
) -> None:
    """Delete the oldest rows of a profile that has too many, and some more."""
    of_profile = correspondent.c.profile_id == profile_id
    there = connection.execute(select(func.count()).where(of_profile)).scalar_one()
    if there <= most:
        return
    # A tenth of them at once, to make room for the next ones.
    oldest = (
        select(correspondent.c.address)
        .where(of_profile)
        .order_by(correspondent.c.last, correspondent.c.messages)
        .limit(there - most + most // 10)
        # As an expiry does: whom another process writes to again is not old, and
        # waiting for it might deadlock.
        .with_for_update(skip_locked=True)
    )
    gone = correspondent.c.address.in_(oldest.scalar_subquery())
    connection.execute(delete(correspondent).where(of_profile, gone))


def copy_correspondents(connection: Connection, profile_id: int, *, to: int) -> None:
    """Give another profile the correspondents of one that it is about to replace."""
    fields = CorrespondentRow._fields
    query = select(literal(to), *correspondent.c[fields[1:]])
    mine = query.filter_by(profile_id=profile_id)
    connection.execute(insert(correspondent).from_select(fields, mine))
