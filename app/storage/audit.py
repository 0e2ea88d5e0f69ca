"""Do the tables hold what the ledger says, and nothing else?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import func, select

from app.bayes.statistics import FeatureCounts
from app.errors import UnknownProfile
from app.storage import counts, tables
from app.storage.deltas import sum_by_epoch
from app.storage.fold import folded_revision
from app.storage.state import batches_after

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from app.storage.profiles import ProfileRow

Epochs = dict[int, dict[str, FeatureCounts]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit found; a sound database has three zeros.

    Parameters
    ----------
    difference : int
        Sum over all cells of ``|tables + unfolded rows - replayed ledger|``.
        Unit: messages and occurrences.
    missing_revisions : int
        Revisions that were given out and have no ledger row.
    broken_rows : int
        Ledger rows whose label before is not the label of the row before.
    revision : int
        Of the newest ledger row.
    folded_revision : int
        Of the newest ledger row in the count tables.
    ledger_rows : int
        Rows replayed.
    """

    difference: int
    missing_revisions: int
    broken_rows: int
    revision: int
    folded_revision: int
    ledger_rows: int

    @property
    def sound(self) -> bool:
        """Whether the tables and the ledger agree."""
        return not (self.difference or self.missing_revisions or self.broken_rows)


def audit(connection: Connection, profile: ProfileRow) -> Audit:
    """Replay the whole ledger of a profile and compare it with the tables.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.reading`: one snapshot, so that learning may go
        on meanwhile.
    profile : ProfileRow
        Whose ledger.

    Raises
    ------
    UnknownProfile
        If the profile is gone.
    CorruptVector
        If a stored vector cannot be read, or was dropped.
    """
    revision = connection.execute(
        select(tables.profile.c.revision).where(tables.profile.c.id == profile.id)
    ).scalar_one_or_none()
    if revision is None:
        msg = f"The profile {profile.name!r} does not exist any more."
        raise UnknownProfile(msg)
    folded = folded_revision(connection, profile.id)
    n_classes = len(profile.labels)
    replayed: Epochs = {}
    held = counts.load_by_epoch(connection, profile.id, profile.labels)
    ledger_rows = 0
    for rows in batches_after(connection, profile.id, revision=0):
        ledger_rows += len(rows)
        _add(replayed, sum_by_epoch(rows, profile.labels), n_classes=n_classes)
        unfolded = [row for row in rows if row.revision > folded]
        _add(held, sum_by_epoch(unfolded, profile.labels), n_classes=n_classes)
    return Audit(
        difference=_distance(held, replayed, n_classes=n_classes)
        + _uncounted(connection, profile.id),
        missing_revisions=revision - ledger_rows,
        broken_rows=_broken_rows(connection, profile.id),
        revision=revision,
        folded_revision=folded,
        ledger_rows=ledger_rows,
    )


def _add(epochs: Epochs, more: Epochs, *, n_classes: int) -> None:
    """Add one set of counts to another, in place."""
    for epoch, views in more.items():
        here = epochs.setdefault(epoch, {})
        for view, part in views.items():
            here[view] = here.get(view, FeatureCounts.zero(n_classes)) + part


def _distance(one: Epochs, other: Epochs, *, n_classes: int) -> int:
    """Return the sum of the absolute differences of all cells."""
    zero = FeatureCounts.zero(n_classes)
    total = 0
    for epoch in one.keys() | other.keys():
        here: Mapping[str, FeatureCounts] = one.get(epoch, {})
        there: Mapping[str, FeatureCounts] = other.get(epoch, {})
        for view in here.keys() | there.keys():
            left = here.get(view, zero) - there.get(view, zero)
            total += sum(
                int(np.abs(cells).sum())
                for cells in (left.messages, left.occurrences, left.documents)
            )
    return total


def _uncounted(connection: Connection, profile_id: int) -> int:
    """Return the counts of features whose label has no messages at all.

    `counts.load` finds the features by the class counts, so it cannot see them.
    """
    feature, klass = tables.feature_count, tables.class_count
    total = connection.execute(
        select(
            func.coalesce(func.sum(feature.c.occurrences + feature.c.messages), 0)
        ).where(
            feature.c.profile_id == profile_id,
            ~select(klass.c.messages)
            .where(
                klass.c.profile_id == feature.c.profile_id,
                klass.c.epoch == feature.c.epoch,
                klass.c.view == feature.c.view,
                klass.c.label == feature.c.label,
            )
            .exists(),
        )
    ).scalar_one()
    return int(total)


def _broken_rows(connection: Connection, profile_id: int) -> int:
    """Return how many rows do not start where the row before left off."""
    ledger = tables.ledger
    steps = (
        select(
            ledger.c.label_before,
            func.lag(ledger.c.label)
            .over(partition_by=ledger.c.digest, order_by=ledger.c.revision)
            .label("left"),
        )
        .where(ledger.c.profile_id == profile_id)
        .subquery()
    )
    broken: int = connection.execute(
        select(func.count())
        .select_from(steps)
        .where(steps.c.label_before.is_distinct_from(steps.c.left))
    ).scalar_one()
    return broken
