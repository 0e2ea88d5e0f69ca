"""Which vectors are too old to be kept?

A row of the ledger keeps its digest, labels, scores and time for ever.  Its
vector is what an undo needs, and most of its bytes; once it is dropped, the row
can no longer be taken back, and what it has added is in the sealed sums.

A step has two halves, as that of a fold has: `prepare` reads and adds without a
lock, `write` drops.

Contract of this file: of the rows that have vectors, the oldest lose them first.  So
an undo that was planned without a lock knows by one row whether those that it needs
are there (`app.storage.undo_basis`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from app.storage import ledger, profiles, sealed, tables, undo_work
from app.storage.deltas import sum_by_epoch
from app.storage.mark import folded_revision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from app.storage.profiles import ProfileRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Rows whose vectors are to be dropped, and what they have added.

    Parameters
    ----------
    revisions : tuple of int
        The rows.
    last : (datetime, int)
        Time and revision of the newest of them.
    sums : mapping of int to tuple of bytes
        What they have added to each epoch, as `app.storage.sealed.encode` gives it.
    """

    revisions: tuple[int, ...]
    last: tuple[datetime, int]
    sums: Mapping[int, tuple[bytes, ...]]


def prepare(
    connection: Connection, profile: ProfileRow, *, before: datetime, limit: int
) -> Drop | None:
    """Return the oldest rows whose vectors can go; None if there are none.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.reading`.
    profile : ProfileRow
        Whose ledger.
    before : datetime
        Rows from then on keep their vectors.
    limit : int
        Rows at most.

    Raises
    ------
    CorruptVector, InconsistentCounts
        If a row cannot be read.
    """
    table = tables.ledger
    oldest = connection.execute(
        select(table.c.time, table.c.revision)
        .where(
            table.c.profile_id == profile.id,
            table.c.vector.is_not(None),
            table.c.time < before,
        )
        .order_by(table.c.time, table.c.revision)
        .limit(limit)
    ).all()
    # What is not folded yet is read from the ledger by every start.
    folded = folded_revision(connection, profile.id)
    ready = list(takewhile(lambda row: row.revision <= folded, oldest))
    if not ready:
        return None
    revisions = tuple(row.revision for row in ready)
    rows = ledger.many(connection, profile.id, revisions)
    return Drop(
        revisions=revisions,
        last=(ready[-1].time, ready[-1].revision),
        sums=sealed.encode(profile, sum_by_epoch(rows, profile.labels)),
    )


def write(connection: Connection, profile: ProfileRow, drop: Drop) -> bool:
    """Drop the vectors and names of rows, and seal what they added.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile : ProfileRow
        Whose ledger.
    drop : Drop
        From `prepare`, in an earlier transaction.

    Returns
    -------
    bool
        False if another process has dropped some of them, an older row was appended
        since, or an undo that is not carried out yet may need them; nothing is
        changed.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    """
    # The lock of everybody who needs vectors: an undo that has begun is sure of
    # those it found.
    profiles.lock(connection, profile)
    if undo_work.pending(connection, profile.id):
        return False
    table = tables.ledger
    time, revision = drop.last
    of_profile = table.c.profile_id == profile.id
    oldest = connection.execute(
        select(table.c.revision)
        .where(
            of_profile,
            table.c.vector.is_not(None),
            (table.c.time < time)
            | ((table.c.time == time) & (table.c.revision <= revision)),
        )
        .limit(len(drop.revisions) + 1)
    ).scalars()
    if set(oldest) != set(drop.revisions):
        return False
    mine = (of_profile, table.c.revision.in_(drop.revisions))
    sealed.add(connection, profile, drop.sums)
    connection.execute(update(table).where(*mine).values(vector=None, names=None))
    return True
