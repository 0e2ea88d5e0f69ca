"""How far is the ledger of a profile in its count tables?

Contract of this file: whoever moves a mark holds its lock, and changes the counts in
the same transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import bindparam, delete, insert, select, update

from app.storage import tables

if TYPE_CHECKING:
    from sqlalchemy import Connection

_FOLD: Final = tables.fold
_REST: Final = tables.fold_rest

_MINE: Final = _FOLD.c.profile_id == bindparam("profile_id")
_READ: Final = (
    select(
        _FOLD.c.folded_revision,
        _REST.c.after_revision,
        _REST.c.upto_revision,
        _REST.c.feature,
    )
    .outerjoin(_REST, _REST.c.profile_id == _FOLD.c.profile_id)
    .where(_MINE)
)
# The lock of the fold's own row, so that feedback waits for no fold, and no fold for
# another (PostgreSQL; on SQLite the transaction is the lock).
_TRY_LOCK: Final = (
    select(_FOLD.c.profile_id).where(_MINE).with_for_update(skip_locked=True)
)


class Rest(NamedTuple):
    """What is left of a batch of ledger rows that is written in parts.

    Parameters
    ----------
    after, upto : int
        The batch: rows that follow the first revision, up to the second.
    feature : int
        Smallest feature whose counts of these rows are not in the tables.
    """

    after: int
    upto: int
    feature: int


class Mark(NamedTuple):
    """How far the count tables hold a ledger.

    Parameters
    ----------
    upto : int
        Revision of the newest row that they hold.
    rest : Rest or None
        What of the rows up to there they do not hold yet.
    """

    upto: int
    rest: Rest | None

    @property
    def whole(self) -> int:
        """Revision up to which the tables hold every row as a whole."""
        return self.upto if self.rest is None else self.rest.after


def read(connection: Connection, profile_id: int) -> Mark | None:
    """Return the mark of a profile; None if that is gone."""
    found = connection.execute(_READ, {"profile_id": profile_id}).one_or_none()
    if found is None:
        return None
    upto, *rest = found
    return Mark(upto, None if rest[0] is None else Rest(*rest))


def folded_revision(connection: Connection, profile_id: int) -> int:
    """Return the revision up to which the count tables hold every row as a whole.

    It is 0 where the profile is gone, since nothing of it is left to hold.
    """
    here = read(connection, profile_id)
    return 0 if here is None else here.whole


def in_part(connection: Connection, profile_id: int) -> bool:
    """Whether the tables hold some rows in part."""
    here = read(connection, profile_id)
    return here is not None and here.rest is not None


def try_lock(connection: Connection, profile_id: int) -> Mark | None:
    """Take the lock of a mark and return it.

    None if another has it, or the profile is gone.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile_id : int
        Whose mark.
    """
    held = connection.execute(_TRY_LOCK, {"profile_id": profile_id}).one_or_none()
    return None if held is None else read(connection, profile_id)


def move(connection: Connection, profile_id: int, mark: Mark) -> None:
    """Say how far the tables are; the caller holds the lock."""
    connection.execute(
        update(_FOLD)
        .where(_FOLD.c.profile_id == profile_id)
        .values(folded_revision=mark.upto)
    )
    connection.execute(delete(_REST).where(_REST.c.profile_id == profile_id))
    if mark.rest is not None:
        after, upto, feature = mark.rest
        connection.execute(
            insert(_REST).values(
                profile_id=profile_id,
                after_revision=after,
                upto_revision=upto,
                feature=feature,
            )
        )
