"""Is a plan of an undo still of the ledger as it is?

A plan of many rows is made without a lock, and noted under it.  What people teach
in between changes nothing of it: the messages to put right are looked at again when
that is done, and what they teach is not asked to be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from app.storage import profiles, tables
from app.storage.undos import chunks

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection

    from app.storage.profiles import ProfileRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a plan was made on.

    Parameters
    ----------
    revision : int
        Of the newest row of the ledger.
    undo : int
        Number of the newest undo, 0 without one.
    kept : (datetime, int) or None
        Time and revision of the oldest row with a vector; None without any.
    needed : datetime or None
        Time of the oldest row whose vector the plan needs; None if it needs none.
    """

    revision: int
    undo: int
    kept: tuple[datetime, int] | None
    needed: datetime | None

    def holds(self, connection: Connection, profile: ProfileRow) -> bool:
        """Return whether what was planned is still what is to be done.

        Parameters
        ----------
        connection : Connection
            From `app.storage.engine.writing`; it holds the profile's lock.
        profile : ProfileRow
            Whose ledger.
        """
        ledger = tables.ledger
        if self.undo != _newest_undo(connection, profile.id):
            return False
        # Counts that a sum has taken away may be those that the plan takes back.
        summed = connection.execute(
            select(ledger.c.revision)
            .where(
                ledger.c.profile_id == profile.id,
                ledger.c.revision > self.revision,
                ledger.c.kind == "sum",
            )
            .limit(1)
        ).first()
        if summed is not None:
            return False
        # Of the rows that there were, the oldest lose their vectors first.
        kept = _oldest_kept(connection, profile.id, upto=self.revision)
        return (
            self.needed is None
            or kept == self.kept
            or (kept is not None and kept[0] < self.needed)
        )


def basis_of(
    connection: Connection,
    profile: ProfileRow,
    *,
    needed: Iterable[bytes],
    sums: Iterable[int],
) -> Basis:
    """Return what a plan is made on that needs some messages and sums.

    Parameters
    ----------
    connection : Connection
        The snapshot that the plan is made on.
    profile : ProfileRow
        Whose ledger.
    needed : iterable of bytes
        Digests of the messages.
    sums : iterable of int
        Revisions of the sums.
    """
    ledger = tables.ledger
    revision = profiles.last_revision(connection, profile.id)
    times = [
        *_times(connection, profile.id, ledger.c.digest, sorted(needed)),
        *_times(connection, profile.id, ledger.c.revision, sorted(sums)),
    ]
    return Basis(
        revision=revision,
        undo=_newest_undo(connection, profile.id),
        kept=_oldest_kept(connection, profile.id, upto=revision),
        needed=min(times, default=None),
    )


def _times(
    connection: Connection,
    profile_id: int,
    column: ColumnElement[object],
    values: list[bytes] | list[int],
) -> list[datetime]:
    """Return times of which one is that of the oldest of some rows with vectors."""
    ledger = tables.ledger
    found = [
        connection.execute(
            select(func.min(ledger.c.time)).where(
                ledger.c.profile_id == profile_id,
                column.in_(chunk),
                ledger.c.vector.is_not(None),
            )
        ).scalar_one()
        for chunk in chunks(values)
    ]
    return [time for time in found if time is not None]


def _newest_undo(connection: Connection, profile_id: int) -> int:
    """Return the number of the newest undo, 0 without one."""
    undo = tables.undo
    found: int = connection.execute(
        select(func.coalesce(func.max(undo.c.number), 0)).where(
            undo.c.profile_id == profile_id
        )
    ).scalar_one()
    return found


def _oldest_kept(
    connection: Connection, profile_id: int, *, upto: int
) -> tuple[datetime, int] | None:
    """Return time and revision of the row, of some, that loses its vector first."""
    ledger = tables.ledger
    row = connection.execute(
        select(ledger.c.time, ledger.c.revision)
        .where(
            ledger.c.profile_id == profile_id,
            ledger.c.revision <= upto,
            ledger.c.vector.is_not(None),
        )
        .order_by(ledger.c.time, ledger.c.revision)
        .limit(1)
    ).first()
    return None if row is None else (row.time, row.revision)
