"""How do deltas get into the count tables, and out again?

Contract of this file: a count is never clamped.  What would become negative, or
is taken from a row that does not exist, raises `InconsistentCounts`, and the
caller's transaction rolls back.  Rows that become zero are deleted, so that the
tables equal those of a database that never learned the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.bayes.moment_rows import from_rows, rows
from app.bayes.moments import MomentSums
from app.bayes.statistics import FeatureCounts
from app.errors import InconsistentCounts, InvalidObservation
from app.storage import class_rows, feature_rows, moment_rows
from app.storage.deltas import total
from app.storage.feature_rows import Columns, Key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from app.classifier.snapshot import Statistics


def add(
    connection: Connection,
    profile_id: int,
    *,
    epoch: int,
    labels: Sequence[str],
    delta: Mapping[str, Statistics],
) -> None:
    """Add deltas to the counts of one epoch.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile_id : int
        Whose counts; the caller holds the lock of its `fold` row.
    epoch : int
        Month, YYYYMM.
    labels : sequence of str
        Name of each class index.
    delta : mapping of str to FeatureCounts or MomentSums
        What to add, view by view.

    Raises
    ------
    InconsistentCounts
        If a count is not there to be taken from, or would become negative
        (then the database raises and `writing` translates), if no messages
        have such sums, or if the view is of another kind in the tables.
    """
    for view in sorted(delta):
        part = delta[view]
        moments = isinstance(part, MomentSums)
        kind = class_rows.MOMENTS if moments else class_rows.FEATURES
        for index, label in enumerate(labels):
            key = Key(profile_id, epoch, view, label)
            class_rows.add(connection, key, int(part.messages[index]), kind=kind)
            if isinstance(part, MomentSums):
                _add_moments(connection, key, _column(part, index))
            else:
                _add_features(
                    connection,
                    key,
                    ids=part.ids,
                    occurrences=part.occurrences[:, index],
                    documents=part.documents[:, index],
                )


def load(
    connection: Connection, profile_id: int, labels: Sequence[str]
) -> dict[str, Statistics]:
    """Return the sum of all epochs, view by view.

    A view that was learned has an entry even if none of its messages had any
    of its features or fields: their number counts.

    Raises
    ------
    InconsistentCounts
        If the tables hold a label that is not one of `labels`, or a kind of
        view that is unknown or not the same everywhere.
    """
    parts: dict[str, list[Statistics]] = {}
    for key, part in _parts(connection, profile_id, labels):
        parts.setdefault(key.view, []).append(part)
    return {view: total(found, n_classes=len(labels)) for view, found in parts.items()}


def load_by_epoch(
    connection: Connection, profile_id: int, labels: Sequence[str]
) -> dict[int, dict[str, Statistics]]:
    """Return the counts of each epoch, view by view.

    Raises
    ------
    InconsistentCounts
        As `load`.
    """
    parts: dict[int, dict[str, list[Statistics]]] = {}
    for key, part in _parts(connection, profile_id, labels):
        parts.setdefault(key.epoch, {}).setdefault(key.view, []).append(part)
    return {
        epoch: {
            view: total(found, n_classes=len(labels)) for view, found in views.items()
        }
        for epoch, views in parts.items()
    }


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
        class_rows.require(changed, len(taken.features), key)
        feature_rows.sweep(connection, key, taken.features)


def _add_moments(connection: Connection, key: Key, part: MomentSums) -> None:
    """Add the column of one label, a delta of one class, to its sums."""
    if not (part.ids.size or part.messages.any()):
        return
    stored = moment_rows.read(connection, key, label=0)
    # The class counts have the messages of this delta already.
    messages = np.array([class_rows.messages_of(connection, key)])
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
    column = MomentSums(
        part.messages[at],
        part.ids,
        part.sums[:, at],
        part.pairs[:, :, at],
        part.products[:, :, at],
    )
    # A sum leaves out the fields that only other classes have.
    return MomentSums.sum([column], n_classes=1)


def _parts(
    connection: Connection, profile_id: int, labels: Sequence[str]
) -> Iterator[tuple[Key, Statistics]]:
    """Give the counts of each epoch, view and label, as one group element."""
    # From the class counts, not by DISTINCT over millions of features: every
    # feature was counted with its message.  `app.storage.audit` looks for others.
    for row in class_rows.read(connection, profile_id, labels):
        key = Key(profile_id, row.epoch, row.view, row.label)
        index = labels.index(row.label)
        one_hot = np.zeros(len(labels), np.int64)
        one_hot[index] = 1
        messages = one_hot * row.messages
        if row.kind == class_rows.MOMENTS:
            stored = moment_rows.read(connection, key, label=index)
            yield key, from_rows(stored, messages)
            continue
        read = feature_rows.read(connection, key)
        yield (
            key,
            FeatureCounts(
                messages,
                read[:, 0].copy(),
                np.outer(read[:, 1], one_hot),
                np.outer(read[:, 2], one_hot),
            ),
        )
