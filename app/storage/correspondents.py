"""Correspondents in the database: digests of the addresses that profiles wrote to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import delete, func, insert, literal, select

from app.storage.database.dialect import insert_into
from app.storage.tables import correspondent, profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

# Rows that are fetched at once.
_PART: Final = 10_000


class CorrespondentRow(NamedTuple):
    """An address that a profile wrote to.

    Parameters
    ----------
    profile_id : int
        The profile.
    address, domain : bytes
        Digests (`app.classifier.statement.identity_digest`).
    messages : int
        Number of messages.
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
    profile_id : int
        The profile.
    addresses, messages : int
        Number of addresses, and of messages to all of them.
    last : datetime
        The day of the last one.
    """

    profile_id: int
    addresses: int
    messages: int
    last: datetime


_ALL: Final = select(*(correspondent.c[each] for each in CorrespondentRow._fields))


def add(connection: Connection, rows: Iterable[CorrespondentRow]) -> None:
    """Add messages to the counts; the days of these rows are the latest."""
    # In the order of the key, so processes that add to the same rows never deadlock.
    found = [row._asdict() for row in sorted(rows)]
    if not found:
        return
    new = insert_into(connection, correspondent)
    statement = new.on_conflict_do_update(
        index_elements=[correspondent.c.profile_id, correspondent.c.address],
        set_={
            "messages": correspondent.c.messages + new.excluded.messages,
            "last": new.excluded.last,
        },
    )
    connection.execute(statement, found)


def every(
    connection: Connection, since: datetime | None = None
) -> Iterator[Sequence[CorrespondentRow]]:
    """Yield all rows, in parts; with `since`, those that changed since that day."""
    asked = _ALL
    if since is not None:
        # Profile by profile, in the order of the index; otherwise every row is read.
        whose = correspondent.c.profile_id.in_(select(profile.c.id))
        asked = _ALL.where(whose, correspondent.c.last >= since)
    for part in connection.execute(asked).partitions(_PART):
        yield [CorrespondentRow(*row) for row in part]


def count(connection: Connection) -> int:
    """Return how many rows there are."""
    return connection.scalar(select(func.count()).select_from(correspondent)) or 0


def figures(
    connection: Connection, profile_id: int | None = None, address: bytes = b""
) -> list[CorrespondentFigures]:
    """Return the number of correspondents of each profile that has any.

    Optionally only for one profile, or for one address.
    """
    table = correspondent.c
    asked = select(
        table.profile_id, func.count(), func.sum(table.messages), func.max(table.last)
    ).group_by(table.profile_id)
    if profile_id is not None:
        asked = asked.where(table.profile_id == profile_id)
    if address:
        asked = asked.where(table.address == address)
    return [CorrespondentFigures(*row) for row in connection.execute(asked)]


def forget(connection: Connection, profile_id: int, address: bytes) -> bool:
    """Delete the rows of an address; return whether there were any."""
    done = connection.execute(
        delete(correspondent).where(
            correspondent.c.profile_id == profile_id,
            correspondent.c.address == address,
        )
    )
    return done.rowcount > 0


def drop_oldest(connection: Connection, profile_id: int, *, most: int) -> None:
    """Delete the oldest rows of a profile that has too many, and some more."""
    of_profile = correspondent.c.profile_id == profile_id
    there = connection.scalar(
        select(func.count()).select_from(correspondent).where(of_profile)
    )
    if (there or 0) <= most:
        return
    # A tenth of them at once, to make room for the next ones.
    oldest = (
        select(correspondent.c.address)
        .where(of_profile)
        .order_by(correspondent.c.last, correspondent.c.messages)
        .limit((there or 0) - most + most // 10)
    )
    connection.execute(
        delete(correspondent).where(
            of_profile, correspondent.c.address.in_(oldest.scalar_subquery())
        )
    )


def copy(connection: Connection, profile_id: int, *, to: int) -> None:
    """Give another profile the correspondents of one that it is about to replace."""
    rest = [correspondent.c[name] for name in CorrespondentRow._fields[1:]]
    asked = select(literal(to), *rest).where(correspondent.c.profile_id == profile_id)
    connection.execute(
        insert(correspondent).from_select(CorrespondentRow._fields, asked)
    )
