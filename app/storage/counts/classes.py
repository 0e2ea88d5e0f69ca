"""Class counts: messages by view, label and month.

Contract of this file: a count that is not there is not taken from, a row that
becomes zero is deleted, and a row never changes its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from sqlalchemy import bindparam, delete, select, text

from app.bayes.counts import FeatureCounts
from app.bayes.moments import MomentSums
from app.errors import InconsistentCounts
from app.storage import tables
from app.storage.counts import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection, Row

    from app.bayes.state import History
    from app.storage.profiles import ProfileRow

    ClassRow = Row[tuple[int, int, str, str, int, str]]

FEATURES: Final = FeatureCounts.kind
"""The kind of a view that counts features."""
MOMENTS: Final = MomentSums.kind
"""The kind of a view that sums measurements."""
_TABLE: Final = tables.class_count


class Key(NamedTuple):
    """The key of a row."""

    profile_id: int
    epoch: int
    view: str
    label: str


# Statements are put together once, as in `app.storage.ledger`.  Two as text:
# SQLAlchemy has a class per dialect for the first, which is the same in both, and
# keeps the names of columns in an UPDATE for itself.
_AT: Final = tuple(_TABLE.c[name] == bindparam(name) for name in Key._fields)
_GAIN: Final = text("""
    INSERT INTO class_count (profile_id, epoch, view, label, messages, kind)
    VALUES (:profile_id, :epoch, :view, :label, :more, :kind)
    ON CONFLICT (profile_id, epoch, view, label) DO UPDATE
    SET messages = class_count.messages + excluded.messages
    WHERE class_count.kind = excluded.kind
""").execution_options(preserve_rowcount=True)
_LOSE: Final = text("""
    UPDATE class_count SET messages = messages + :more
    WHERE profile_id = :profile_id AND epoch = :epoch AND view = :view
        AND label = :label AND kind = :kind
""")
_SWEEP: Final = delete(_TABLE).where(*_AT, _TABLE.c.messages == 0)


def changes(
    sums: History, profile_id: int, labels: Sequence[str]
) -> list[tuple[Key, int, str]]:
    """Return what is added to which rows, and their kind."""
    return [
        (Key(profile_id, epoch, view, label), messages, part.kind)
        for epoch, view, part in sums.parts()
        for label, messages in zip(labels, part.messages.tolist(), strict=True)
        if messages
    ]


def add(connection: Connection, changed: Iterable[tuple[Key, int, str]]) -> None:
    """Add to the messages of labels, or take them back if negative.

    Raises
    ------
    InconsistentCounts
        If a row is not there to be taken from, or is of another kind.
    """
    for key, messages, kind in changed:
        given = key._asdict() | {"more": messages, "kind": kind}
        if messages > 0:
            if connection.execute(_GAIN, given).rowcount != 1:
                msg = (
                    f"{key.view} for {key.label} in {key.epoch} is not of the kind "
                    f"{kind!r}. A view keeps its kind; give what is new another name."
                )
                raise InconsistentCounts(msg)
        else:
            if connection.execute(_LOSE, given).rowcount != 1:
                msg = (
                    f"{-messages} messages of {key.view} for {key.label} in "
                    f"{key.epoch} cannot be taken back: they are not in the counts."
                )
                raise InconsistentCounts(msg)
            connection.execute(_SWEEP, key._asdict())


def read(
    connection: Connection, profile_id: int, labels: Sequence[str]
) -> Sequence[ClassRow]:
    """Return all rows of a profile, as the table has them.

    Raises
    ------
    InconsistentCounts
        If one has a label that is not one of `labels`, or an unknown kind.
    """
    found = connection.execute(
        select(_TABLE).where(_TABLE.c.profile_id == profile_id)
    ).all()
    for row in found:
        if row.label not in labels:
            msg = (
                f"The counts of {row.view} in {row.epoch} have the label "
                f"{row.label!r}, but the labels of the profile are "
                f"{', '.join(labels)}."
            )
            raise InconsistentCounts(msg)
        if row.kind not in {FEATURES, MOMENTS}:
            msg = (
                f"The counts of {row.view} in {row.epoch} are of the unknown kind "
                f"{row.kind!r}; this Postbayes knows {FEATURES!r} and {MOMENTS!r}."
            )
            raise InconsistentCounts(msg)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCount:
    """The counts of a feature in the messages of one label and month.

    Parameters
    ----------
    epoch : int
        Month, YYYYMM.
    label : str
        The label.
    occurrences : int
        How often the feature occurred.
    messages : int
        In how many messages.
    learned : int
        Messages of the label that were learned in that month.
    """

    epoch: int
    label: str
    occurrences: int
    messages: int
    learned: int


def history(
    connection: Connection, profile: ProfileRow, *, view: str, feature: int
) -> list[EpochCount]:
    """Return the folded counts of a feature, oldest month first.

    Months in which messages of a label were learned, but none with the
    feature, are listed with zeros: that is what tells a word that came from
    one that went.

    Raises
    ------
    CorruptVector, InconsistentCounts
        If the counts cannot be read.
    """
    found = runs.look_up(connection, profile, view, feature)
    learned = [
        row
        for row in read(connection, profile.id, profile.labels)
        if (row.view, row.kind) == (view, FEATURES)
    ]
    none = np.zeros((2, len(profile.labels)), np.int64)
    counts = []
    for row in sorted(learned, key=lambda row: (row.epoch, row.label)):
        both = found.get(row.epoch, none)[:, profile.labels.index(row.label)]
        occurrences, messages = both.tolist()
        counts.append(
            EpochCount(
                epoch=row.epoch,
                label=row.label,
                occurrences=occurrences,
                messages=messages,
                learned=row.messages,
            )
        )
    return counts
