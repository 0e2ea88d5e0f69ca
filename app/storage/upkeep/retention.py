"""Retention: old vectors dropped, and their sums sealed.

A row of the ledger keeps its digest, labels, scores and time for ever.  Its
vector is what an undo needs, and most of its bytes; once it is dropped, the row
can no longer be taken back, and the counts that it added are in the sealed sums.

Contract of this file: the sealed sums and the rows that have vectors add up to
the whole ledger, and the oldest rows lose their vectors first.  So an undo that was
planned without a lock knows by one row whether the vectors that it needs are there
(`app.storage.undo.plan`).

A message that was forgotten loses all its vectors sooner, all of them at once: what its
rows have added is zero, but for rows that were sealed before (`prepare_erasure`).  No
undo needs them (`app.ledger.undo.transition`).

Sums of small steps are stored beside one another and merged when there are many,
sixteen at a time, so that the cost of a step is that of its own rows.  Dropping and
merging have two halves each, as a fold has: `prepare` and `prepare_seal` read and add
without a lock, `write` and `write_seal` change the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select, update

from app.bayes.state import History, State
from app.ledger.entry import sum_by_epoch
from app.ledger.sums import decode_sum, encode_sum
from app.storage import history, ledger, profiles, scored, tables
from app.storage.fold.state import folded_revision
from app.storage.undo import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from sqlalchemy import Connection, Table

    from app.storage.profiles import ProfileRow

# As in `app.bayes.table`: a larger ratio leaves more to read for an audit, a
# smaller one merges each feature more often.
RUNS: Final = 16
# 100,000 features of two labels are 4 MB before compression.
_FEATURES: Final = 100_000
_TABLE: Final = tables.sealed
# Bytes of a sum that its checksum and size are in.
_HEAD: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Runs of one level, and what they come to.

    Parameters
    ----------
    epoch, level : int
        Whose runs.
    parts : frozenset of (int, int, bytes)
        Run, part and head of each row that was read.
    vectors : tuple of bytes
        Their sum, in parts.
    """

    epoch: int
    level: int
    parts: frozenset[tuple[int, int, bytes]]
    vectors: tuple[bytes, ...]


def encode(
    profile: ProfileRow, sums: Mapping[int, State]
) -> dict[int, tuple[bytes, ...]]:
    """Return statistics as they are sealed, epoch by epoch.

    Parameters
    ----------
    profile : ProfileRow
        Whose.
    sums : mapping of int to State
        What the rows of each month have added.
    """
    return {epoch: _encoded(sums[epoch], profile) for epoch in sorted(sums)}


def add(
    connection: Connection, profile: ProfileRow, sums: Mapping[int, tuple[bytes, ...]]
) -> None:
    """Add what `encode` gave to the sealed sums.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`; it holds the profile's lock.
    profile : ProfileRow
        Whose.
    sums : mapping of int to tuple of bytes
        The sum of each epoch, in parts.
    """
    for epoch in sorted(sums):
        _insert(connection, profile, epoch, 0, sums[epoch])


def prepare_seal(connection: Connection, profile: ProfileRow) -> Merge | None:
    """Return the next runs to merge, added up; None if no level has many.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`.
    profile : ProfileRow
        Whose.

    Raises
    ------
    CorruptVector, InconsistentCounts
        As `load`.
    """
    many = connection.execute(
        select(_TABLE.c.epoch, _TABLE.c.level)
        .where(_TABLE.c.profile_id == profile.id)
        .group_by(_TABLE.c.epoch, _TABLE.c.level)
        .having(func.count(_TABLE.c.run.distinct()) >= RUNS)
        .order_by(_TABLE.c.epoch, _TABLE.c.level)
        .limit(1)
    ).first()
    if many is None:
        return None
    rows = connection.execute(
        select(_TABLE.c.run, _TABLE.c.part, _TABLE.c.vector).where(
            _TABLE.c.profile_id == profile.id,
            _TABLE.c.epoch == many.epoch,
            _TABLE.c.level == many.level,
        )
    ).all()
    total = State.sum(decode_sum(row.vector, profile.labels) for row in rows)
    return Merge(
        epoch=many.epoch,
        level=many.level,
        parts=frozenset((row.run, row.part, row.vector[:_HEAD]) for row in rows),
        vectors=_encoded(total, profile),
    )


def write_seal(connection: Connection, profile: ProfileRow, merge: Merge) -> bool:
    """Put a sum in the place of its parts, unless they are not there any more.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile : ProfileRow
        Whose.
    merge : Merge
        From `prepare`, in an earlier transaction.

    Returns
    -------
    bool
        False if another process has merged them; nothing is changed.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    """
    profiles.lock(connection, profile)
    here = (
        _TABLE.c.profile_id == profile.id,
        _TABLE.c.epoch == merge.epoch,
        _TABLE.c.level == merge.level,
    )
    # Not the numbers alone: where all runs of a level were merged, the next one
    # has the number of the first again.
    head = func.substr(_TABLE.c.vector, 1, _HEAD)
    there = connection.execute(
        select(_TABLE.c.run, _TABLE.c.part, head.label("head")).where(*here)
    )
    if not merge.parts <= {(row.run, row.part, bytes(row.head)) for row in there}:
        return False
    runs = {run for run, _, _ in merge.parts}
    connection.execute(delete(_TABLE).where(*here, _TABLE.c.run.in_(sorted(runs))))
    _insert(connection, profile, merge.epoch, merge.level + 1, merge.vectors)
    return True


def load(connection: Connection, profile: ProfileRow) -> History:
    """Return the sealed sums of each month.

    Raises
    ------
    CorruptVector
        If one of them cannot be read.
    InconsistentCounts
        If one has a label that the profile has not.
    """
    found = History()
    rows = connection.execute(
        select(_TABLE.c.epoch, _TABLE.c.vector).where(_TABLE.c.profile_id == profile.id)
    )
    for row in rows:
        found += History({row.epoch: decode_sum(row.vector, profile.labels)})
    return found


def _encoded(state: State, profile: ProfileRow) -> tuple[bytes, ...]:
    """Return a state as the vectors of one run."""
    pieces = state.pieces(at_most=_FEATURES)
    return tuple(encode_sum(piece, profile.labels) for piece in pieces)


def _insert(
    connection: Connection,
    profile: ProfileRow,
    epoch: int,
    level: int,
    vectors: Sequence[bytes],
) -> None:
    """Write one run of a level."""
    last = connection.execute(
        select(func.max(_TABLE.c.run)).where(
            _TABLE.c.profile_id == profile.id,
            _TABLE.c.epoch == epoch,
            _TABLE.c.level == level,
        )
    ).scalar_one()
    rows = [
        {
            "profile_id": profile.id,
            "epoch": epoch,
            "level": level,
            "run": 0 if last is None else last + 1,
            "part": part,
            "vector": vector,
        }
        for part, vector in enumerate(vectors)
    ]
    if rows:
        connection.execute(insert(_TABLE), rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Rows whose vectors are to be dropped, and what they have added.

    Parameters
    ----------
    revisions : tuple of int
        The rows.
    last : (datetime, int)
        Time and revision of the newest of them.
    sums : mapping of int to tuple of bytes
        What they have added to each epoch, as `encode` gives it.
    """

    revisions: tuple[int, ...]
    last: tuple[datetime, int]
    sums: Mapping[int, tuple[bytes, ...]]


def prepare(
    connection: Connection, profile: ProfileRow, *, before: datetime, limit: int
) -> Drop | None:
    """Return the oldest rows whose vectors can go; None if there are none.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`.
    profile : ProfileRow
        Whose ledger.
    before : datetime
        Rows from then on keep their vectors.
    limit : int
        Rows at most.

    Raises
    ------
    CorruptVector, InconsistentCounts
        If a row cannot be read.
    """
    table = tables.ledger
    oldest = connection.execute(
        select(table.c.time, table.c.revision)
        .where(
            table.c.profile_id == profile.id,
            table.c.vector.is_not(None),
            table.c.time < before,
        )
        .order_by(table.c.time, table.c.revision)
        .limit(limit)
    ).all()
    # What is not folded yet is read from the ledger by every start.
    folded = folded_revision(connection, profile.id)
    ready = list(takewhile(lambda row: row.revision <= folded, oldest))
    if not ready:
        return None
    revisions = tuple(row.revision for row in ready)
    rows = ledger.get_many(connection, profile.id, revisions)
    return Drop(
        revisions=revisions,
        last=(ready[-1].time, ready[-1].revision),
        sums=encode(profile, sum_by_epoch(rows, profile.labels)),
    )


def write(connection: Connection, profile: ProfileRow, drop: Drop) -> bool:
    """Drop the vectors and names of rows, and seal what they added.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile : ProfileRow
        Whose ledger.
    drop : Drop
        From `prepare`, in an earlier transaction.

    Returns
    -------
    bool
        False if another process has dropped some of them, an older row was appended
        since, or an undo that is not carried out yet may need them; nothing is
        changed.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    """
    # The lock of everybody who needs vectors: an undo that has begun is sure of
    # those it found.
    profiles.lock(connection, profile)
    if work.pending(connection, profile.id):
        return False
    table = tables.ledger
    time, revision = drop.last
    of_profile = table.c.profile_id == profile.id
    oldest = connection.execute(
        select(table.c.revision)
        .where(
            of_profile,
            table.c.vector.is_not(None),
            (table.c.time < time)
            | ((table.c.time == time) & (table.c.revision <= revision)),
        )
        .limit(len(drop.revisions) + 1)
    ).scalars()
    if set(oldest) != set(drop.revisions):
        return False
    dropped = (of_profile, table.c.revision.in_(drop.revisions))
    add(connection, profile, drop.sums)
    connection.execute(update(table).where(*dropped).values(vector=None, names=None))
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """Forgotten messages whose features are to be erased.

    Parameters
    ----------
    forgotten : mapping of bytes to datetime
        When each was forgotten, by digest.
    revisions : frozenset of int
        Rows of theirs that have a vector.
    sums : mapping of int to tuple of bytes
        What these have added to each epoch, as `encode` gives it.
    """

    forgotten: Mapping[bytes, datetime]
    revisions: frozenset[int]
    sums: Mapping[int, tuple[bytes, ...]]


def prepare_erasure(
    connection: Connection, profile: ProfileRow, *, upto: int, limit: int
) -> Erasure | None:
    """Return some forgotten messages that can be erased; None if there are none.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`.
    profile : ProfileRow
        Whose ledger.
    upto : int
        Revision that all processes have followed.
    limit : int
        Messages at most.

    Raises
    ------
    CorruptVector, InconsistentCounts
        If a row cannot be read.
    """
    table = tables.ledger
    found = connection.execute(
        select(table.c.digest, table.c.revision, table.c.time)
        .where(
            table.c.profile_id == profile.id,
            tables.FORGOTTEN,
            table.c.revision <= min(upto, folded_revision(connection, profile.id)),
            table.c.kind == "message",
        )
        .order_by(table.c.revision)
        .limit(limit)
    ).all()
    if not found:
        return None
    # The newest of each: a message may have been forgotten, learned and forgotten.
    last = {row.digest: row for row in found}
    revisions = [
        row.revision
        for row in connection.execute(
            select(table.c.revision, table.c.digest).where(
                table.c.profile_id == profile.id,
                table.c.digest.in_(sorted(last)),
                table.c.kind == "message",
                table.c.vector.is_not(None),
            )
        )
        if row.revision <= last[row.digest].revision
    ]
    rows = ledger.get_many(connection, profile.id, revisions)
    return Erasure(
        forgotten={digest: row.time for digest, row in last.items()},
        revisions=frozenset(revisions),
        sums=encode(profile, _unbalanced(sum_by_epoch(rows, profile.labels))),
    )


def _unbalanced(sums: History) -> History:
    """Return what is not zero: parts of a message whose other rows are sealed."""
    return History(
        {epoch: state for epoch, state in sums.items() if any(_counts(state))}
    )


def _counts(state: State) -> Iterator[bool]:
    """Give whether there is anything in each view."""
    for x in state.values():
        yield bool(x.vocabulary or x.messages.any())


def erase(connection: Connection, profile: ProfileRow, erasure: Erasure) -> bool:
    """Erase the features and words of forgotten messages.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile : ProfileRow
        Whose ledger.
    erasure : Erasure
        From `prepare_erasure`, in an earlier transaction.

    Returns
    -------
    bool
        False if another process has dropped a vector of theirs since, or an undo is not
        carried out yet; nothing is changed.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    """
    profiles.lock(connection, profile)
    if work.pending(connection, profile.id):
        return False
    table = tables.ledger
    revisions = sorted(erasure.revisions)
    mine = (table.c.profile_id == profile.id, table.c.revision.in_(revisions))
    kept = connection.execute(
        select(func.count()).where(*mine, table.c.vector.is_not(None))
    ).scalar_one()
    if kept != len(revisions):
        return False
    add(connection, profile, erasure.sums)
    connection.execute(update(table).where(*mine).values(vector=None, names=None))
    # What another process had scored by then, and stored after the forgetting.
    for digest, time in erasure.forgotten.items():
        scored.drop(connection, profile.id, [digest], upto=time)
        history.drop(connection, profile.id, [digest], upto=time)
    return True


def last_used(
    connection: Connection, *, now: datetime, gap: timedelta, proof: timedelta
) -> datetime | None:
    """Return when something was taught or scored last; None if never.

    What follows a pause longer than `gap`, and is younger than `proof` by its own
    times, does not count: a clock that ran ahead may have written it.
    """
    last: datetime | None = None
    for table in (tables.ledger, tables.scored):
        newest = _newest(connection, table, now)
        if newest is not None:
            earlier = _newest(connection, table, newest - proof)
            if earlier is not None and newest - earlier > gap:
                newest = earlier
            last = newest if last is None else max(last, newest)
    return last


def _newest(connection: Connection, table: Table, upto: datetime) -> datetime | None:
    """Return the newest time of a table up to another."""
    # Profile by profile, as its index is.
    times = (
        select(func.max(table.c.time))
        .where(table.c.profile_id == tables.profile.c.id, table.c.time <= upto)
        .scalar_subquery()
    )
    return max(
        (time for time in connection.scalars(select(times)) if time is not None),
        default=None,
    )
