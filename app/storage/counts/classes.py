"""Class counts: messages by view, label and month.

Contract of this file: a count that is not there is not taken from, a row that
becomes zero is deleted, and a row never changes its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, bindparam, delete, select, text

from app.bayes.counts import FeatureCounts
from app.bayes.moments import MomentSums
from app.errors import InconsistentCounts
from app.storage import tables
from app.storage.counts.features import Key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    ClassRow = Row[tuple[int, int, str, str, int, str]]

FEATURES: Final = FeatureCounts.kind
"""The kind of a view whose counts are in `feature_count`."""
MOMENTS: Final = MomentSums.kind
"""The kind of a view whose sums are in `moment_sum`."""
_TABLE: Final = tables.class_count
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
_MESSAGES: Final = select(_TABLE.c.messages).where(*_AT)


def add(connection: Connection, key: Key, messages: int, *, kind: str) -> None:
    """Add to the messages of one label, or take them back if negative.

    Raises
    ------
    InconsistentCounts
        If the row is not there to be taken from, or is of another kind.
    """
    given = key._asdict() | {"more": messages, "kind": kind}
    if messages > 0:
        if connection.execute(_GAIN, given).rowcount != 1:
            msg = (
                f"{key.view} for {key.label} in {key.epoch} is not of the kind "
                f"{kind!r}. A view keeps its kind; give what is new another name."
            )
            raise InconsistentCounts(msg)
    elif messages < 0:
        require(connection.execute(_LOSE, given).rowcount, 1, key)
        connection.execute(_SWEEP, key._asdict())


def messages_of(connection: Connection, key: Key) -> int:
    """Return the messages of one label, 0 without a row."""
    found = connection.execute(_MESSAGES, key._asdict()).scalar_one_or_none()
    return int(found or 0)


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


def require(changed: int, expected: int, key: Key) -> None:
    """Raise if something was taken from rows that do not exist."""
    if changed != expected:
        msg = (
            f"{expected - changed} of {expected} counts of {key.view} for "
            f"{key.label} in {key.epoch} cannot be taken back: "
            "they are not in the tables."
        )
        raise InconsistentCounts(msg)


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


_groups: Final = tables.class_count
_counts: Final = tables.feature_count
# From the class counts, of which there are a few for each month: one look at
# the key of the feature's row for each.
_HISTORY: Final = (
    select(
        _groups.c.epoch,
        _groups.c.label,
        _groups.c.messages.label("learned"),
        _counts.c.occurrences,
        _counts.c.messages,
    )
    .select_from(_groups)
    .outerjoin(
        _counts,
        and_(
            _counts.c.profile_id == _groups.c.profile_id,
            _counts.c.epoch == _groups.c.epoch,
            _counts.c.view == _groups.c.view,
            _counts.c.label == _groups.c.label,
            _counts.c.feature == bindparam("feature"),
        ),
    )
    .where(
        _groups.c.profile_id == bindparam("profile_id"),
        _groups.c.view == bindparam("view"),
        _groups.c.kind == FEATURES,
        _groups.c.messages > 0,
    )
    .order_by(_groups.c.epoch, _groups.c.label)
)


def history(
    connection: Connection, profile_id: int, *, view: str, feature: int
) -> list[EpochCount]:
    """Return the folded counts of a feature, oldest month first.

    Months in which messages of a label were learned, but none with the
    feature, are listed with zeros: that is what tells a word that came from
    one that went.
    """
    rows = connection.execute(
        _HISTORY, {"profile_id": profile_id, "view": view, "feature": feature}
    )
    return [
        EpochCount(
            epoch=row.epoch,
            label=row.label,
            occurrences=row.occurrences or 0,
            messages=row.messages or 0,
            learned=row.learned,
        )
        for row in rows
    ]
