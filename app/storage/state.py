"""What has a profile learned, up to now?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from app.classifier.decay import weighted
from app.errors import UnknownProfile
from app.storage import counts, tables
from app.storage.deltas import sum_by_epoch, sum_by_view
from app.storage.fold import folded_revision
from app.storage.ledger import rows_after

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Connection

    from app.classifier.decay import Decay
    from app.classifier.snapshot import Statistics
    from app.storage.entry import LedgerRow
    from app.storage.profiles import ProfileRow

# Ledger rows held in memory at once while they are summed: some 10 MB.
ROWS_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The training state that the database holds.

    Parameters
    ----------
    tables : dict of str to FeatureCounts or MomentSums
        Per view, the sum of the count tables and the unfolded ledger rows; no
        entry for a view that nothing was learned of.
    revision : int
        Of the newest ledger row in that sum.
    folded_revision : int
        Of the newest ledger row in the count tables.
    """

    tables: dict[str, Statistics]
    revision: int
    folded_revision: int


def load(
    connection: Connection, profile: ProfileRow, decay: Decay | None = None
) -> StoredState:
    """Return the state of a profile.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.reading`: one snapshot, so that a fold or a
        feedback meanwhile changes nothing.
    profile : ProfileRow
        Whose state.
    decay : Decay or None
        What the counts of each epoch weigh in the sum; None: all alike.

    Raises
    ------
    UnknownProfile
        If the profile is gone.
    InconsistentCounts
        If the database holds a label that the profile has not.
    """
    revision = connection.execute(
        select(tables.profile.c.revision).where(tables.profile.c.id == profile.id)
    ).scalar_one_or_none()
    if revision is None:
        msg = f"The profile {profile.name!r} does not exist any more."
        raise UnknownProfile(msg)
    folded = folded_revision(connection, profile.id)
    parts: list[Mapping[str, Statistics]] = [
        counts.load(connection, profile.id, profile.labels, decay)
    ]
    for rows in batches_after(connection, profile.id, revision=folded):
        parts += weighted(sum_by_epoch(rows, profile.labels), decay)
    return StoredState(
        tables=sum_by_view(parts, n_classes=len(profile.labels)),
        revision=revision,
        folded_revision=folded,
    )


def load_by_epoch(
    connection: Connection, profile: ProfileRow
) -> dict[int, dict[str, Statistics]]:
    """Return the state of a profile, taken apart by epoch.

    Raises
    ------
    InconsistentCounts
        As `load`.
    """
    n_classes = len(profile.labels)
    held = counts.load_by_epoch(connection, profile.id, profile.labels)
    folded = folded_revision(connection, profile.id)
    for rows in batches_after(connection, profile.id, revision=folded):
        for epoch, views in sum_by_epoch(rows, profile.labels).items():
            held[epoch] = sum_by_view((held.get(epoch, {}), views), n_classes=n_classes)
    return held


def batches_after(
    connection: Connection,
    profile_id: int,
    *,
    revision: int,
    at_once: int = ROWS_AT_ONCE,
) -> Iterator[list[LedgerRow]]:
    """Give all rows after a revision, some at a time, oldest first."""
    while rows := rows_after(connection, profile_id, revision=revision, limit=at_once):
        yield rows
        revision = rows[-1].revision
