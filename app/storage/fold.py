"""Fold: ledger rows moved into the counts, the state that they make, and the audit.

Updating the counts takes many times as long as appending a row to the ledger, so
feedback does not wait for it.  A fold adds the oldest rows that are not yet counted,
and moves its mark in the same transaction: it can stop anywhere, and two can run at
once.

`prepare` reads a batch of rows, decodes, sums and encodes them, and needs no lock.
`write` changes the tables, and holds the one write lock of SQLite only for that.

Contract of this file: a mark is moved under its lock, in the transaction that changes
the counts.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select, update

from app.bayes.state import History, State
from app.classifier.specification import weighted
from app.errors import InconsistentCounts
from app.ledger.entry import sum_by_epoch
from app.ledger.sums import Amounts
from app.ledger.vector import is_whole
from app.storage import runs, tables
from app.storage.database.dialect import chunks
from app.storage.ledger import (
    BYTES_AT_ONCE,
    batch_after,
    batches_after,
    rows_after,
)
from app.storage.profiles import require_revision

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Select

    from app.classifier.specification import Decay
    from app.storage.profiles import ProfileRow
    from app.storage.runs import RunPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A batch of ledger rows, summed and ready to be written.

    Parameters
    ----------
    after : int
        The mark before them; the step can be used only while it has not moved.
    upto : int
        Revision of the newest, the next position of the mark.
    messages : sequence of (Key, int)
        Additions to the class counts.
    parts : tuple of RunPart
        Additions to the counts of features.
    """

    rows: int
    after: int
    upto: int
    messages: Sequence[tuple[runs.Key, int]]
    parts: tuple[RunPart, ...]


# Decoding and summing a row holds the interpreter's lock for 0.5 ms, and a lesson
# needs it several times, waiting up to 5 ms each if a thread does not release it.  So a
# thread that prepares a thousand rows pauses after some.  Unit: seconds.
ROWS_AT_ONCE: Final = 32
PAUSE: Final = 0.005


def prepare(
    connection: Connection,
    profile: ProfileRow,
    *,
    limit: int,
    room: int = BYTES_AT_ONCE,
    pause: float = PAUSE,
) -> Step | None:
    """Return the next rows to fold, summed.

    None if all are folded, or the profile is gone.

    Parameters
    ----------
    limit : int
        Rows at most, counted as `app.storage.ledger.rows_after` does.
    room : int, default `BYTES_AT_ONCE`
        Bytes of their vectors, but for the last rows.
    pause : float, default `PAUSE`
        Pause for other threads after some rows.  Unit: seconds.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that the profile lacks.
    """
    after = connection.scalar(_mark(profile.id))
    if after is None:
        return None
    rows = batch_after(connection, profile.id, revision=after, limit=limit, room=room)
    if not rows:
        return None
    parts: list[History] = []
    for some in chunks(rows, most=ROWS_AT_ONCE):
        if parts and pause:
            time.sleep(pause)
        parts.append(sum_by_epoch(some, profile.labels))
    sums = History.sum(parts)
    return Step(
        rows=len(rows),
        after=after,
        upto=rows[-1].revision,
        messages=runs.changes(sums, profile.id, profile.labels),
        parts=runs.encode(sums, profile.labels),
    )


def write(connection: Connection, profile: ProfileRow, step: Step) -> bool:
    """Add prepared rows to the counts.

    It does not wait for another fold, because then there is nothing to do.

    Returns
    -------
    bool
        False if another fold holds the mark or has moved it; nothing is changed.

    Raises
    ------
    InconsistentCounts
        If the counts lack messages that a row takes back; nothing is
        changed.
    """
    if try_lock(connection, profile.id) != step.after:
        return False
    runs.add_messages(connection, step.messages)
    runs.add(connection, profile.id, "counts", step.parts)
    move(connection, profile.id, step.upto)
    return True


def is_behind(connection: Connection, profile_id: int, *, revision: int) -> bool:
    """Whether there are rows up to a revision that the counts do not hold."""
    folded = connection.scalar(_mark(profile_id))
    if folded is None or folded >= revision:
        return False
    # The ledger may end before it, where rows are gone.
    return bool(rows_after(connection, profile_id, revision=folded, limit=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result of an audit; a sound database has three zeros.

    Parameters
    ----------
    difference : int
        Sum over all cells of ``|tables + unfolded rows - replayed ledger|``.
        Unit: messages and occurrences.
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

    Raises
    ------
    UnknownProfile
        If the profile is gone.
    CorruptVector
        If a stored vector or sealed sum cannot be read.
    InconsistentCounts
        If the tables hold a label that the profile has not.
    """
    revision = require_revision(connection, profile)
    counts = runs.load(connection, profile, "counts")
    held = History.sum([counts, *unfolded(connection, profile)])
    mine = tables.ledger.c.profile_id == profile.id
    ledger_rows = connection.execute(select(func.count()).where(mine)).scalar_one()
    return Audit(
        difference=_distance(held, replayed(connection, profile))
        + _messages_apart(connection, profile, counts),
        missing_revisions=revision - ledger_rows,
        broken_rows=broken_rows(connection, profile.id),
        revision=revision,
        folded_revision=folded_revision(connection, profile.id),
        ledger_rows=ledger_rows,
    )


def is_damaged(connection: Connection, profile: ProfileRow) -> bool:
    """Return whether a stored vector or sum of a profile has a wrong checksum."""
    return not all(
        is_whole(each)
        for table in (tables.ledger, tables.run, tables.scored)
        for each in connection.scalars(
            select(table.c.vector).where(
                table.c.profile_id == profile.id, table.c.vector.is_not(None)
            )
        )
    )


def replayed(connection: Connection, profile: ProfileRow) -> History:
    """Return the sums of the whole ledger, month by month.

    Raises
    ------
    CorruptVector
        If a stored vector or sealed sum cannot be read.
    InconsistentCounts
        If a row has a label that the profile has not.
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
    """Return the difference between the class counts and the messages of the counts."""
    rows = runs.read_messages(connection, profile)
    counted = Counter({runs.Key(*row[:4]): row.messages for row in rows})
    counted.subtract(dict(runs.changes(held, profile.id, profile.labels)))
    return sum(map(abs, counted.values()))


def broken_rows(connection: Connection, profile_id: int) -> int:
    """Return the number of rows that do not continue from the row before."""
    ledger = tables.ledger
    steps = (
        select(
            ledger.c.label_before,
            func.lag(ledger.c.label)
            .over(partition_by=ledger.c.digest, order_by=ledger.c.revision)
            .label("left"),
        )
        .where(ledger.c.profile_id == profile_id, ledger.c.kind != "note")
        .subquery()
    )
    broken = steps.c.label_before.is_distinct_from(steps.c.left)
    return connection.execute(select(func.count()).where(broken)).scalar_one()


_FOLD: Final = tables.fold


def _mark(profile_id: int) -> Select[int]:
    return select(_FOLD.c.folded_revision).filter_by(profile_id=profile_id)


def folded_revision(connection: Connection, profile_id: int) -> int:
    """Return the revision up to which the counts hold every row.

    It is 0 where the profile is gone, since nothing of it is left to hold.
    """
    return connection.scalar(_mark(profile_id)) or 0


def try_lock(connection: Connection, profile_id: int) -> int | None:
    """Take the lock of a mark and return it.

    None if another has it, or the profile is gone.
    """
    # Of the fold's own row, so that feedback waits for no fold, and no fold for another
    # (PostgreSQL; on SQLite the transaction is the lock).
    return connection.scalar(_mark(profile_id).with_for_update(skip_locked=True))


def move(connection: Connection, profile_id: int, revision: int) -> None:
    """Say how far the counts are; the caller holds the lock."""
    mine = update(_FOLD).filter_by(profile_id=profile_id)
    connection.execute(mine.values(folded_revision=revision))


def unfolded(connection: Connection, profile: ProfileRow) -> Iterator[History]:
    """Yield the differences of the ledger from the counts.

    Some rows at a time; the sum of all, and of the counts, is what was learned.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that the profile has not.
    """
    folded = folded_revision(connection, profile.id)
    for some in batches_after(connection, profile.id, revision=folded):
        yield sum_by_epoch(some, profile.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The training state that the database holds.

    Parameters
    ----------
    tables : State
        Per view, the sum of the counts and the unfolded ledger rows; no
        entry for a view that nothing was learned of.
    revision : int
        Of the newest ledger row in that sum.
    """

    tables: State
    revision: int


def load(
    connection: Connection, profile: ProfileRow, decay: Decay | None = None
) -> StoredState:
    """Return the state of a profile.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`: one snapshot, so that a fold or a
        feedback meanwhile changes nothing.
    decay : Decay or None
        What the counts of each epoch weigh in the sum; None: all alike.

    Raises
    ------
    UnknownProfile
        If the profile is gone.
    CorruptVector
        If something stored cannot be read.
    InconsistentCounts
        If the database holds a label that the profile has not, or takes something
        back that it never learned.
    """
    revision = require_revision(connection, profile)
    parts = [runs.total(connection, profile, decay=decay)]
    for epochs in unfolded(connection, profile):
        parts += weighted(epochs, decay)
    tables = State.sum(parts)
    for view, x in tables.items():
        if x.negative:
            raise InconsistentCounts(
                f"A count of {view} is below zero: something was taken back that was "
                "never learned. `postbayes audit` shows the difference; restore a "
                "backup."
            )
    return StoredState(tables=tables, revision=revision)


def load_by_epoch(connection: Connection, profile: ProfileRow) -> History:
    """Return the state of a profile, taken apart by epoch.

    Raises
    ------
    CorruptVector, InconsistentCounts
        As `app.storage.runs.load`.
    """
    held = runs.load(connection, profile, "counts")
    return History.sum([held, *unfolded(connection, profile)])


def held(connection: Connection, profile: ProfileRow) -> Amounts:
    """Return the amounts that a profile has counted, folded or not.

    Raises
    ------
    CorruptVector, InconsistentCounts
        As `unfolded`.
    InvalidObservation
        If the unfolded rows alone exceed 64 bits.
    """
    found = Amounts()
    found.add(runs.total(connection, profile))
    for epochs in unfolded(connection, profile):
        for views in epochs.values():
            found.add(views)
    return found
