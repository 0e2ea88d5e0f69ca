"""What has a ledger heard of already?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from app.storage import tables, undos

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

# As in `app.storage.ledger`.
_PER_QUERY: Final = 500


def known_digests(
    connection: Connection, profile_id: int, digests: Iterable[bytes], *, until: int
) -> set[bytes]:
    """Return those of the digests that have a row up to a revision."""
    ledger = tables.ledger
    asked = list(digests)
    found: set[bytes] = set()
    for start in range(0, len(asked), _PER_QUERY):
        rows = connection.execute(
            select(ledger.c.digest)
            .where(
                ledger.c.profile_id == profile_id,
                ledger.c.digest.in_(asked[start : start + _PER_QUERY]),
                ledger.c.revision <= until,
            )
            .distinct()
        )
        found.update(rows.scalars())
    return found


def sums_stand(connection: Connection, profile_id: int, source: str) -> bool:
    """Return whether sums of a source are learned, and were not taken back."""
    rows = undos.matching(connection, profile_id, undos.Selection(source=source))
    sums = [row.revision for row in rows if row.is_sum]
    taken = undos.taken_by(connection, profile_id, sums)
    in_force = undos.in_force(undos.all_of(connection, profile_id))
    return any(not taken.get(revision, set()) & in_force for revision in sums)
