"""Deltas: sums added to the count tables, and the tables loaded.

Contract of this file: a count is never clamped.  What would become negative, or
is taken from a row that does not exist, raises `InconsistentCounts`, and the
caller's transaction rolls back.  Rows that become zero are deleted, so that the
tables equal those of a database that never learned the message.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.moment_rows import from_rows, rows
from app.bayes.moments import MomentSums
from app.bayes.state import History, State
from app.bayes.statistics import total
from app.errors import InconsistentCounts, InvalidObservation
from app.storage.counts import classes
from app.storage.counts import features as feature_rows
from app.storage.counts import moments as moment_rows
from app.storage.counts.features import Columns, Key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from app.bayes.statistics import Statistics
    from app.classifier.decay import Decay
    from app.storage.counts.classes import ClassRow
    from app.storage.counts.features import Counted

Group = TypeVar("Group")


def add(
    connection: Connection,
    profile_id: int,
    *,
    epoch: int,
    labels: Sequence[str],
    delta: State,
) -> None:
    """Add deltas to the counts of one epoch.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile_id : int
        Whose counts; the caller holds the lock of its `fold` row.
    epoch : int
        Month, YYYYMM.
    labels : sequence of str
        Name of each class index.
    delta : State
        What to add.

    Raises
    ------
    InconsistentCounts
        If a count is not there to be taken from, or would become negative
        (then the database raises and `writing` translates), if no messages
        have such sums, or if the view is of another kind in the tables.
    """
    features, moments = delta.features, delta.moments
    for view, part in sorted(delta.items()):
        for index, label in enumerate(labels):
            key = Key(profile_id, epoch, view, label)
            classes.add(connection, key, int(part.messages[index]), kind=part.kind)
            if view in moments:
                _add_moments(connection, key, _column(moments[view], index))
            else:
                counts = features[view]
                _add_features(
                    connection,
                    key,
                    ids=counts.ids,
                    occurrences=counts.occurrences[:, index],
                    documents=counts.documents[:, index],
                )


def load(
    connection: Connection,
    profile_id: int,
    labels: Sequence[str],
    decay: Decay | None = None,
) -> State:
    """Return the sum of all epochs, view by view.

    A view that was learned has an entry even if none of its messages had any
    of its features or fields: their number counts.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`.
    profile_id : int
        Whose counts.
    labels : sequence of str
        Name of each class index.
    decay : Decay or None
        What the counts of each epoch weigh in the sum; None: all alike.

    Raises
    ------
    InconsistentCounts
        If the tables hold a label that is not one of `labels`, or a kind of
        view that is unknown or not the same everywhere.
    InvalidObservation
        If a count is too large to be weighted.
    """
    views: dict[str, list[ClassRow]] = {}
    for row in classes.read(connection, profile_id, labels):
        views.setdefault(row.view, []).append(row)
    # View by view, so that the parts of one are let go before the next.
    return State(_sums(connection, profile_id, labels, views, decay))


def load_by_epoch(
    connection: Connection, profile_id: int, labels: Sequence[str]
) -> History:
    """Return the counts of each epoch, view by view.

    Raises
    ------
    InconsistentCounts
        As `load`.
    """
    views: dict[tuple[int, str], list[ClassRow]] = {}
    for row in classes.read(connection, profile_id, labels):
        views.setdefault((row.epoch, row.view), []).append(row)
    epochs = History()
    for (epoch, view), found in _sums(connection, profile_id, labels, views):
        epochs.setdefault(epoch, State())[view] = found
    return epochs


def _add_features(
    connection: Connection,
    key: Key,
    *,
    ids: NDArray[np.int64],
    occurrences: NDArray[np.int64],
    documents: NDArray[np.int64],
) -> None:
    """Add the column of one label to the feature counts."""

    def columns(where: NDArray[np.bool_]) -> Columns:
        return Columns(
            ids[where].tolist(), occurrences[where].tolist(), documents[where].tolist()
        )

    lost = (occurrences < 0) | (documents < 0)
    gained = ~lost & ((occurrences != 0) | (documents != 0))
    # Two statements, not one upsert.  Both databases test CHECK (n >= 0) on the
    # row as it is proposed for insertion, before ON CONFLICT turns it into an
    # update, so an upsert of -1 fails even where the sum would be fine.
    if gained.any():
        feature_rows.gain(connection, key, columns(gained))
    if lost.any():
        taken = columns(lost)
        changed = feature_rows.lose(connection, key, taken)
        classes.require(changed, len(taken.features), key)


def _add_moments(connection: Connection, key: Key, part: MomentSums) -> None:
    """Add the column of one label, a delta of one class, to its sums."""
    if not (part.ids.size or part.messages.any()):
        return
    stored = moment_rows.read(connection, key, label=0)
    # The class counts have the messages of this delta already.
    messages = np.array([classes.messages_of(connection, key)])
    after = from_rows(stored, messages - part.messages) + part
    try:
        after.require_reachable()
        written = rows(after)
    except (InconsistentCounts, InvalidObservation) as error:
        msg = (
            f"The sums of {key.view} for {key.label} in {key.epoch} cannot be "
            f"changed so: {error}."
        )
        raise InconsistentCounts(msg) from error
    moment_rows.replace(connection, key, stored, written)


def _column(part: MomentSums, index: int) -> MomentSums:
    """Return the delta of one class alone, as if there were no other."""
    at = [index]
    # Without the fields that only other classes have.
    return MomentSums.of_sums(
        part.messages[at],
        part.ids,
        part.sums[:, at],
        part.pairs[:, :, at],
        part.products[:, :, at],
    )


def _sums(
    connection: Connection,
    profile_id: int,
    labels: Sequence[str],
    groups: Mapping[Group, Sequence[ClassRow]],
    decay: Decay | None = None,
) -> Iterator[tuple[Group, Statistics]]:
    """Give the sum of each group: of some epochs and labels of one view."""

    def key(row: ClassRow) -> Key:
        return Key(profile_id, row.epoch, row.view, row.label)

    # From the class counts, not by DISTINCT over millions of features: every
    # feature was counted with its message.  The audit looks for others.
    rows = [row for group in groups.values() for row in group]
    # Before the features, whose reading has the connection for itself.
    moments = {
        key(row): moment_rows.read(connection, key(row), label=labels.index(row.label))
        for row in rows
        if row.kind == classes.MOMENTS
    }
    features = [key(row) for row in rows if row.kind != classes.MOMENTS]
    with closing(feature_rows.read_each(connection, features)) as columns:
        for name, group in groups.items():
            alone: dict[str, list[FeatureCounts]] = {label: [] for label in labels}
            parts: list[Statistics] = []
            for row in group:
                weight = 1 if decay is None else decay.weight(row.epoch)
                if row.kind == classes.MOMENTS:
                    messages = np.zeros(len(labels), np.int64)
                    messages[labels.index(row.label)] = row.messages
                    parts.append(from_rows(moments[key(row)], messages) * weight)
                else:
                    counted = _of_one_class(row, next(columns))
                    alone[row.label].append(counted * weight)
            if any(alone.values()):
                sums = (FeatureCounts.sum(of, n_classes=1) for of in alone.values())
                parts.append(FeatureCounts.beside(list(sums)))
            yield name, total(parts)


def _of_one_class(row: ClassRow, read: Counted) -> FeatureCounts:
    """Return what was counted in one epoch, as if there were no other label."""
    return FeatureCounts.of_class(
        0,
        read.features,
        read.occurrences,
        read.messages,
        messages=row.messages,
        n_classes=1,
    )
