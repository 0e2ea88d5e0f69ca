"""How do deltas get into the count tables, and out again?

Contract of this file: a count is never clamped.  What would become negative, or
is taken from a row that does not exist, raises `InconsistentCounts`, and the
caller's transaction rolls back.  Rows that become zero are deleted, so that the
tables equal those of a database that never learned the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import delete, select, update

from app.bayes.statistics import FeatureCounts
from app.errors import InconsistentCounts
from app.storage import feature_rows, tables
from app.storage.feature_rows import Columns, Key
from app.storage.upsert import insert_into

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection


def add(
    connection: Connection,
    profile_id: int,
    *,
    epoch: int,
    labels: Sequence[str],
    delta: Mapping[str, FeatureCounts],
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
    delta : mapping of str to FeatureCounts
        What to add, view by view.

    Raises
    ------
    InconsistentCounts
        If a count is not there to be taken from, or would become negative
        (then the database raises and `writing` translates).
    """
    for view in sorted(delta):
        part = delta[view]
        for index, label in enumerate(labels):
            key = Key(profile_id, epoch, view, label)
            _add_messages(connection, key, int(part.messages[index]))
            _add_features(
                connection,
                key,
                ids=part.ids,
                occurrences=part.occurrences[:, index],
                documents=part.documents[:, index],
            )


def load(
    connection: Connection, profile_id: int, labels: Sequence[str]
) -> dict[str, FeatureCounts]:
    """Return the sum of all epochs, view by view.

    Raises
    ------
    InconsistentCounts
        If the tables hold a label that is not one of `labels`.
    """
    parts: dict[str, list[FeatureCounts]] = {}
    for key, part in _parts(connection, profile_id, labels):
        parts.setdefault(key.view, []).append(part)
    return {
        view: FeatureCounts.sum(found, n_classes=len(labels))
        for view, found in parts.items()
    }


def load_by_epoch(
    connection: Connection, profile_id: int, labels: Sequence[str]
) -> dict[int, dict[str, FeatureCounts]]:
    """Return the counts of each epoch, view by view.

    Raises
    ------
    InconsistentCounts
        If the tables hold a label that is not one of `labels`.
    """
    zero = FeatureCounts.zero(len(labels))
    epochs: dict[int, dict[str, FeatureCounts]] = {}
    for key, part in _parts(connection, profile_id, labels):
        views = epochs.setdefault(key.epoch, {})
        views[key.view] = views.get(key.view, zero) + part
    return epochs


def _add_messages(connection: Connection, key: Key, n: int) -> None:
    """Add `n` to the number of messages of one label."""
    table = tables.class_count
    here = [table.c[name] == value for name, value in key._asdict().items()]
    if n > 0:
        new = insert_into(connection, table).values(**key._asdict(), messages=n)
        connection.execute(
            new.on_conflict_do_update(
                index_elements=list(table.primary_key.columns),
                set_={"messages": table.c.messages + new.excluded.messages},
            )
        )
    elif n < 0:
        changed = connection.execute(
            update(table).where(*here).values(messages=table.c.messages + n)
        )
        _require(changed.rowcount, 1, key)
        connection.execute(delete(table).where(*here, table.c.messages == 0))


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
        _require(changed, len(taken.features), key)
        feature_rows.sweep(connection, key, taken.features)


def _require(changed: int, expected: int, key: Key) -> None:
    """Raise if something was taken from rows that do not exist."""
    if changed != expected:
        msg = (
            f"{expected - changed} of {expected} counts of {key.view} for "
            f"{key.label} in {key.epoch} cannot be taken back: "
            "they are not in the tables."
        )
        raise InconsistentCounts(msg)


def _parts(
    connection: Connection, profile_id: int, labels: Sequence[str]
) -> Iterator[tuple[Key, FeatureCounts]]:
    """Give the counts of each epoch, view and label, as one group element."""
    class_count = tables.class_count
    # From the class counts, not by DISTINCT over millions of features: every
    # feature was counted with its message.  `app.storage.audit` looks for others.
    counted = connection.execute(
        select(class_count).where(class_count.c.profile_id == profile_id)
    ).all()
    for row in counted:
        if row.label not in labels:
            msg = (
                f"The counts of {row.view} in {row.epoch} have the label "
                f"{row.label!r}, but the labels of the profile are "
                f"{', '.join(labels)}."
            )
            raise InconsistentCounts(msg)
        key = Key(profile_id, row.epoch, row.view, row.label)
        rows = feature_rows.read(connection, key)
        one_hot = np.zeros(len(labels), np.int64)
        one_hot[labels.index(row.label)] = 1
        yield (
            key,
            FeatureCounts(
                one_hot * row.messages,
                rows[:, 0].copy(),
                np.outer(rows[:, 1], one_hot),
                np.outer(rows[:, 2], one_hot),
            ),
        )
