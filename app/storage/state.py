"""What has a profile learned, up to now?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from app.classifier.decay import weighted
from app.errors import UnknownProfile
from app.storage import counts, tables
from app.storage.batch import unfolded
from app.storage.deltas import sum_by_view
from app.storage.mark import folded_revision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from app.classifier.decay import Decay
    from app.classifier.snapshot import Statistics
    from app.storage.profiles import ProfileRow


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
        Of the newest ledger row that the count tables hold as a whole.
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
    parts: list[Mapping[str, Statistics]] = [
        counts.load(connection, profile.id, profile.labels, decay)
    ]
    for epochs in unfolded(connection, profile):
        parts += weighted(epochs, decay)
    return StoredState(
        tables=sum_by_view(parts, n_classes=len(profile.labels)),
        revision=revision,
        folded_revision=folded_revision(connection, profile.id),
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
    for epochs in unfolded(connection, profile):
        for epoch, views in epochs.items():
            held[epoch] = sum_by_view((held.get(epoch, {}), views), n_classes=n_classes)
    return held
