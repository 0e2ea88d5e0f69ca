"""State: the count tables plus the rows that are not folded yet.

Contract of this file: a mark is moved under its lock, in the transaction that changes
the counts.

A fold sums the rows of a batch, and may write the sum in parts, each in a transaction
of its own.  What one feature gains or loses, in all views, months and labels, is in one
part, and the parts are in the order of the features.  So one number tells which are
written: the smallest feature that is not.

The counts of messages lead to those of features (`counts.deltas.load`), so they
grow with the first part and shrink with the last.  Measurements, of which there are
few, are in the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import bindparam, delete, insert, select, update

from app.bayes.state import History, State
from app.classifier.decay import weighted
from app.ledger.entry import sum_by_epoch
from app.storage import tables
from app.storage.counts import deltas
from app.storage.ledger import ROWS_AT_ONCE, batches_after
from app.storage.profiles import require_revision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from app.classifier.decay import Decay
    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

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
    """The rest of a batch of ledger rows that is written in parts.

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
    def complete(self) -> int:
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
    mark = read(connection, profile_id)
    return 0 if mark is None else mark.complete


def in_part(connection: Connection, profile_id: int) -> bool:
    """Whether the tables hold some rows in part."""
    mark = read(connection, profile_id)
    return mark is not None and mark.rest is not None


def try_lock(connection: Connection, profile_id: int) -> Mark | None:
    """Take the lock of a mark and return it.

    None if another has it, or the profile is gone.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
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


def unfolded(connection: Connection, profile: ProfileRow) -> Iterator[History]:
    """Yield what the ledger says and the count tables do not.

    Some rows at a time; the sum of all, and of the tables, is what was learned.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that the profile has not.
    """
    mark = read(connection, profile.id) or Mark(0, None)
    if mark.rest is not None:
        rows = chain.from_iterable(begun(connection, profile.id, mark.rest))
        sums = sum_by_epoch(rows, profile.labels)
        yield sums.between(mark.rest.feature, None)
    for some in batches_after(connection, profile.id, revision=mark.upto):
        yield sum_by_epoch(some, profile.labels)


def begun(
    connection: Connection,
    profile_id: int,
    rest: Rest,
    *,
    at_once: int = ROWS_AT_ONCE,
) -> Iterator[list[LedgerRow]]:
    """Give what there is of the rows of a batch that is written in part.

    Parameters
    ----------
    connection : Connection
        Any.
    profile_id : int
        Whose rows.
    rest : Rest
        Which batch.
    at_once : int
        Rows to give at a time.
    """
    for rows in batches_after(
        connection, profile_id, revision=rest.after, at_once=at_once
    ):
        of_batch = [row for row in rows if row.revision <= rest.upto]
        if of_batch:
            yield of_batch
        if rows[-1].revision >= rest.upto:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The training state that the database holds.

    Parameters
    ----------
    tables : State
        Per view, the sum of the count tables and the unfolded ledger rows; no
        entry for a view that nothing was learned of.
    revision : int
        Of the newest ledger row in that sum.
    folded_revision : int
        Of the newest ledger row that the count tables hold as a whole.
    """

    tables: State
    revision: int
    folded_revision: int


def load(
    connection: Connection, profile: ProfileRow, decay: Decay | None = None
) -> StoredState:
    """Return the state of a profile.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`: one snapshot, so that a fold or a
        feedback meanwhile changes nothing.
    profile : ProfileRow
        Whose state.
    decay : Decay or None
        What the counts of each epoch weigh in the sum; None: all alike.

    Raises
    ------
    UnknownProfile
        If the profile is gone.
    InconsistentCounts
        If the database holds a label that the profile has not.
    """
    revision = require_revision(connection, profile)
    parts = [deltas.load(connection, profile.id, profile.labels, decay)]
    for epochs in unfolded(connection, profile):
        parts += weighted(epochs, decay)
    return StoredState(
        tables=State.sum(parts),
        revision=revision,
        folded_revision=folded_revision(connection, profile.id),
    )


def load_by_epoch(connection: Connection, profile: ProfileRow) -> History:
    """Return the state of a profile, taken apart by epoch.

    Raises
    ------
    InconsistentCounts
        As `load`.
    """
    held = deltas.load_by_epoch(connection, profile.id, profile.labels)
    for history in unfolded(connection, profile):
        held += history
    return held
