"""How many messages of a view has each label, and of what kind is the view?

Contract of this file: a count that is not there is not taken from, a row that
becomes zero is deleted, and a row never changes its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, delete, select, text

from app.errors import InconsistentCounts
from app.storage import tables
from app.storage.feature_rows import Key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    ClassRow = Row[tuple[int, int, str, str, int, str]]

FEATURES: Final = "features"
"""The kind of a view whose counts are in `feature_count`."""

MOMENTS: Final = "moments"
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
