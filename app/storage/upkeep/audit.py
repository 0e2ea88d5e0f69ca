"""Audit: the difference between the tables and the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import case, exists, func, select

from app.bayes.state import State
from app.ledger.entry import sum_by_epoch
from app.storage import tables
from app.storage.counts import classes
from app.storage.counts.features import Key
from app.storage.fold import state
from app.storage.fold.state import folded_revision
from app.storage.ledger import batches_after
from app.storage.profiles import require_revision
from app.storage.upkeep import retention

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.bayes.state import History
    from app.storage.profiles import ProfileRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result of an audit; a sound database has three zeros.

    Parameters
    ----------
    difference : int
        Sum over all cells of ``|tables + unfolded rows - replayed ledger|``.
        Unit: messages, occurrences, and the steps and steps squared of sums of
        measurements.
    missing_revisions : int
        Revisions that were given out and have no ledger row.
    broken_rows : int
        Ledger rows whose label before is not the label of the row before.
    revision : int
        Of the newest ledger row.
    folded_revision : int
        Of the newest ledger row that the count tables hold as a whole.
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
        From `app.storage.database.engine.reading`: one snapshot, so that learning
        may go on meanwhile.
    profile : ProfileRow
        Whose ledger.

    Raises
    ------
    UnknownProfile
        If the profile is gone.
    CorruptVector
        If a stored vector or sealed sum cannot be read.
    InconsistentCounts
        If the tables hold a label that the profile has not, or a view of
        another kind than the ledger does.
    """
    revision = require_revision(connection, profile)
    held = state.load_by_epoch(connection, profile)
    mine = tables.ledger.c.profile_id == profile.id
    ledger_rows: int = connection.execute(select(func.count()).where(mine)).scalar_one()
    return Audit(
        difference=_distance(held, replayed(connection, profile))
        + _uncounted(connection, profile.id)
        + _contradictory(connection, profile.id),
        missing_revisions=revision - ledger_rows,
        broken_rows=broken_rows(connection, profile.id),
        revision=revision,
        folded_revision=folded_revision(connection, profile.id),
        ledger_rows=ledger_rows,
    )


def replayed(connection: Connection, profile: ProfileRow) -> History:
    """Return the sums of the whole ledger, month by month.

    Raises
    ------
    CorruptVector
        If a stored vector or sealed sum cannot be read.
    InconsistentCounts
        If a row has a label that the profile has not, or a view holds features in
        one row and measurements in another.
    """
    # What was dropped for its age is in the sealed sums.
    epochs = retention.load(connection, profile)
    for rows in batches_after(connection, profile.id, revision=0):
        epochs += sum_by_epoch(rows, profile.labels)
    return epochs


def _distance(one: History, other: History) -> int:
    """Return the sum of the absolute differences of all cells."""
    # Month by month, so that the difference of one is let go before the next.
    return sum(
        left.magnitude
        for month in one.keys() | other.keys()
        for left in (one.get(month, State()) - other.get(month, State())).values()
    )


def _uncounted(connection: Connection, profile_id: int) -> int:
    """Return the counts that no class count of their kind leads to.

    `counts.load` finds rows by the class counts, so it cannot see them.
    """
    feature, moment, klass = (
        tables.feature_count,
        tables.moment_sum,
        tables.class_count,
    )
    uncounted = 0
    for table, kind, cells in (
        (feature, classes.FEATURES, feature.c.occurrences + feature.c.messages),
        (moment, classes.MOMENTS, moment.c.messages),
    ):
        counted = exists().where(
            klass.c.kind == kind,
            *(klass.c[name] == table.c[name] for name in Key._fields),
        )
        stray = select(func.coalesce(func.sum(cells), 0)).where(
            table.c.profile_id == profile_id, ~counted
        )
        uncounted += int(connection.execute(stray).scalar_one())
    return uncounted


def _contradictory(connection: Connection, profile_id: int) -> int:
    """Return by how much the two message counts of measured fields differ.

    The sum of a field and that of its square have one each, and a state takes
    only the second.
    """
    moment = tables.moment_sum
    signed = case((moment.c.degree == 1, moment.c.messages), else_=-moment.c.messages)
    fields = (
        select(func.abs(func.sum(signed)).label("gap"))
        .where(moment.c.profile_id == profile_id, moment.c.field == moment.c.other)
        .group_by(moment.c.epoch, moment.c.view, moment.c.label, moment.c.field)
        .subquery()
    )
    gap = connection.execute(
        select(func.coalesce(func.sum(fields.c.gap), 0))
    ).scalar_one()
    return int(gap)


def broken_rows(connection: Connection, profile_id: int) -> int:
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
