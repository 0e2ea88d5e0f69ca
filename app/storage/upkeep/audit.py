"""Audit: the difference between the tables and the ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from app.bayes.state import History, State
from app.ledger.entry import sum_by_epoch
from app.storage import tables
from app.storage.counts import classes, runs, state
from app.storage.counts.classes import Key
from app.storage.counts.state import folded_revision
from app.storage.ledger import batches_after
from app.storage.profiles import require_revision

if TYPE_CHECKING:
    from sqlalchemy import Connection

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
        Of the newest ledger row that the counts hold as a whole.
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
    counts = runs.load(connection, profile, "counts")
    held = History.sum([counts, *state.unfolded(connection, profile)])
    mine = tables.ledger.c.profile_id == profile.id
    ledger_rows: int = connection.execute(select(func.count()).where(mine)).scalar_one()
    return Audit(
        difference=_distance(held, replayed(connection, profile))
        + _messages_apart(connection, profile, counts),
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
    epochs = runs.load(connection, profile, "sealed")
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


def _messages_apart(connection: Connection, profile: ProfileRow, held: History) -> int:
    """Return by how much the class counts differ from the messages of the counts."""
    counted = Counter(
        {
            Key(profile.id, row.epoch, row.view, row.label): row.messages
            for row in classes.read(connection, profile.id, profile.labels)
        }
    )
    for key, messages, _ in classes.changes(held, profile.id, profile.labels):
        counted[key] -= messages
    return sum(map(abs, counted.values()))


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
