"""Which vectors are too old to be kept?

A row of the ledger keeps its digest, labels, scores and time for ever.  Its
vector is what an undo needs, and most of its bytes; once it is dropped, the row
can no longer be taken back, and what it has added is in the sealed sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select, update

from app.storage import ledger, sealed, tables, undo_work
from app.storage.deltas import sum_by_epoch
from app.storage.fold import folded_revision

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from app.storage.profiles import ProfileRow


def drop_vectors(
    connection: Connection, profile: ProfileRow, *, before: datetime, limit: int
) -> int:
    """Drop the vectors and names of the oldest rows, and seal what they added.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile : ProfileRow
        Whose ledger.
    before : datetime
        Rows from then on keep their vectors.
    limit : int
        Rows at most.

    Returns
    -------
    int
        Rows whose vectors were dropped.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    CorruptVector, InconsistentCounts
        If a row cannot be read; nothing is dropped.
    """
    # The lock of everybody who needs vectors: an undo that has begun is sure of
    # those it found.
    ledger.lock(connection, profile)
    if undo_work.pending(connection, profile.id):
        return 0
    table = tables.ledger
    revisions = (
        connection.execute(
            select(table.c.revision)
            .where(
                table.c.profile_id == profile.id,
                table.c.vector.is_not(None),
                table.c.time < before,
                # What is not folded yet is read from the ledger by every start.
                table.c.revision <= folded_revision(connection, profile.id),
            )
            .order_by(table.c.time, table.c.revision)
            .limit(limit)
        )
        .scalars()
        .all()
    )
    if not revisions:
        return 0
    rows = ledger.many(connection, profile.id, revisions)
    sealed.add(connection, profile, sum_by_epoch(rows, profile.labels))
    connection.execute(
        update(table)
        .where(table.c.profile_id == profile.id, table.c.revision.in_(revisions))
        .values(vector=None, names=None)
    )
    return len(revisions)
