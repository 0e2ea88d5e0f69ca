"""How often was a feature learned, month by month?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, bindparam, select

from app.storage import class_rows, tables

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCount:
    """What one month's messages of one label held of a feature.

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
        _groups.c.kind == class_rows.FEATURES,
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
