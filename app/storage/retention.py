"""Retention: old vectors dropped, and their sums sealed.

A row of the ledger keeps its digest, labels, scores and time for ever.  Its vector,
most of its bytes, is needed for an undo; once it is dropped, the row can no longer be
taken back, and the counts that it added are in the sealed sums.

Contract of this file: the sealed sums and the rows with vectors add up to the whole
ledger, and the oldest rows lose their vectors first.  So one row tells an undo that
was planned without a lock whether the vectors that it needs are there
(`app.storage.undo_work`).

A forgotten message loses all its vectors earlier and at once, because its rows add up
to zero, except for rows that were sealed before (`prepare_erasure`).  No undo needs
them (`app.ledger.undo.transition`).

Like a fold, sealing has two halves: `prepare` and `prepare_erasure` read and add
without a lock, `write` changes the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from operator import attrgetter, le
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from sqlalchemy import exists, func, literal, or_, select, update

from app.bayes.state import State
from app.ledger.entry import sum_by_epoch
from app.storage import (
    access,
    feature_names,
    ledger,
    profiles,
    runs,
    scored,
    tables,
    undo_work,
)
from app.storage.database.dialect import chunks, upsert, where_given
from app.storage.fold import folded_revision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from app.bayes.state import History
    from app.storage.profiles import ProfileRow
    from app.storage.runs import RunPart
    from app.storage.scored import Kept

# Vectors of a batch, but for the last row: the names of their features are rows, which
# are written under SQLite's one lock.  Sixty-four messages have half of it.
BYTES: Final = 1024 * 1024


# Profiles of which one query looks for what is too old: it takes 2 ms where there is
# nothing, and nothing else goes on meanwhile.
PROFILES: Final = 1000


def time_of(connection: Connection) -> datetime:
    """Return the time of the machine that has the database."""
    return connection.execute(select(func.now(type_=tables.UtcDateTime()))).scalar_one()


def due(
    connection: Connection,
    kept: Iterable[Kept],
    *,
    vectors: datetime | None,
    ahead: datetime | None,
    after: int,
) -> tuple[list[int], int | None]:
    """Return which of the next profiles have anything too old or too much.

    Parameters
    ----------
    vectors : datetime or None
        Since when vectors of the ledger are kept; None keeps all.
    ahead : datetime or None
        Rows of a later time are dropped: a clock that was ahead wrote them, and they
        would stay until then.  None keeps them.
    after : int
        The key behind which to look; 0 for the first profiles.

    Returns
    -------
    (list of int, int or None)
        Keys of profiles, and where to go on; None behind the last profile.
    """
    profile = tables.profile.c
    others = select(profile.id).where(profile.id > after).order_by(profile.id)
    last = connection.scalar(others.offset(PROFILES - 1).limit(1))
    too_much: list[Any] = []
    for table, since, most, size in kept:
        row, mine = table.c, table.c.profile_id == profile.id
        held = func.sum(row.get("bytes", literal(0)))
        many = select((func.count() > most) | (held > size)).where(mine)
        too_much += [exists().where(mine, row.time < since), many.scalar_subquery()]
        if ahead is not None:
            too_much.append(exists().where(mine, row.time > ahead))
    if vectors is not None:
        row = tables.ledger.c
        old = row.vector.is_not(None), row.time < vectors
        too_much.append(exists().where(row.profile_id == profile.id, *old))
    upto = where_given((profile.id, le, last))
    found = select(profile.id).where(profile.id > after, *upto, or_(*too_much))
    return list(connection.scalars(found)), last


def forgotten(connection: Connection) -> Sequence[Row[int, int, bytes, datetime]]:
    """Return the rows that forget messages not erased yet, by profile and revision.

    Returns
    -------
    sequence of Row
        With `profile_id`, `revision`, `digest` and `time`.
    """
    row = tables.ledger.c
    return connection.execute(
        select(*row["profile_id", "revision", "digest", "time"])
        .where(tables.FORGOTTEN, row.kind == "message")
        .order_by(row.profile_id, row.revision)
    ).all()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealing:
    """Rows that are to lose their vectors, with their sums.

    Parameters
    ----------
    sums : tuple of RunPart
        What the rows added.
    new : mapping of str to mapping of int to str
        The features that get a text, view by view.
    gone : mapping of str to sequence of int
        Those that lose theirs.
    last : (datetime, int) or None
        Time and revision of the newest of them, if they are the oldest rows with
        vectors.
    forgotten : mapping of bytes to datetime
        Time at which each message was forgotten, by digest, if they are of such
        messages.
    """

    revisions: frozenset[int]
    sums: tuple[RunPart, ...]
    new: Mapping[str, Mapping[int, str]]
    gone: Mapping[str, Sequence[int]]
    last: tuple[datetime, int] | None
    forgotten: Mapping[bytes, datetime]

    @classmethod
    def of(
        cls,
        connection: Connection,
        profile: ProfileRow,
        revisions: Sequence[int],
        *,
        last: tuple[datetime, int] | None,
        forgotten: Mapping[bytes, datetime],
    ) -> Self:
        """Return the sealing of some rows; the words of forgotten messages go."""
        rows = ledger.get_many(connection, profile.id, revisions)
        sums = sum_by_epoch(rows, profile.labels)
        texts = {} if forgotten else feature_names.of_rows(rows, profile)
        new, gone = _names(connection, profile, sums, texts)
        return cls(
            revisions=frozenset(revisions),
            sums=runs.encode(sums, profile.labels),
            new=new,
            gone=gone,
            last=last,
            forgotten=forgotten,
        )


def prepare(
    connection: Connection, profile: ProfileRow, *, before: datetime, limit: int
) -> Sealing | None:
    """Return the oldest rows whose vectors can go; None if there are none.

    Parameters
    ----------
    limit : int
        Rows at most, and fewer where they are large (`BYTES`).

    Raises
    ------
    CorruptVector, InconsistentCounts
        If a row cannot be read.
    """
    table = tables.ledger
    place = table.c["time", "revision"]
    oldest = connection.execute(
        select(*place, func.length(table.c.vector).label("bytes"))
        .filter_by(profile_id=profile.id)
        .where(table.c.vector.is_not(None), table.c.time < before)
        .order_by(*place)
        .limit(limit)
    ).all()
    # Every start reads unfolded rows from the ledger.
    folded = folded_revision(connection, profile.id)
    some = next(chunks(oldest, weigh=attrgetter("bytes"), room=BYTES), [])
    ready = list(takewhile(lambda row: row.revision <= folded, some))
    if not ready:
        return None
    return Sealing.of(
        connection,
        profile,
        [row.revision for row in ready],
        last=(ready[-1].time, ready[-1].revision),
        forgotten={},
    )


def write(connection: Connection, profile: ProfileRow, sealing: Sealing) -> bool:
    """Drop the vectors and names of rows, and seal their sums.

    Returns
    -------
    bool
        False if another process has dropped some of the vectors, an older row was
        appended since, or an undo that is not carried out yet may need them; nothing
        is changed.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    """
    # The lock of everybody who needs vectors: an undo that has begun is sure of
    # those it found.
    profiles.lock(connection, profile)
    if undo_work.pending(connection, profile.id):
        return False
    row = tables.ledger.c
    these = row.revision.in_(sorted(sealing.revisions))
    among: ColumnElement[bool] = these
    if sealing.last is not None:
        time, revision = sealing.last
        among = (row.time < time) | ((row.time == time) & (row.revision <= revision))
    kept = select(row.revision).filter_by(profile_id=profile.id)
    kept = kept.where(among, row.vector.is_not(None)).limit(len(sealing.revisions) + 1)
    if set(connection.scalars(kept)) != sealing.revisions:
        return False
    runs.add(connection, profile.id, "sealed", sealing.sums)
    for view, texts in sealing.new.items():
        feature_names.add(connection, profile.id, view, texts)
    for view, features in sealing.gone.items():
        feature_names.drop(connection, profile.id, view, features)
    dropped = update(tables.ledger).filter_by(profile_id=profile.id).where(these)
    connection.execute(dropped.values(vector=None, encoded_names=None))
    # What another process had scored by then, and stored after the forgetting.
    forgotten = sealing.forgotten
    scored.forget(connection, profile.id, forgotten, upto=forgotten)
    return True


def prepare_erasure(
    connection: Connection, profile: ProfileRow, *, upto: int, limit: int
) -> Sealing | None:
    """Return some rows of forgotten messages to erase; None if there are none.

    The row that forgets a message is the last of it, so a message with many rows is
    found again until all are erased.

    Parameters
    ----------
    upto : int
        Revision that all processes have followed.
    limit : int
        Rows at most, and fewer where they are large (`BYTES`).

    Raises
    ------
    CorruptVector, InconsistentCounts
        If a row cannot be read.
    """
    table = tables.ledger
    found = connection.execute(
        select(*table.c["digest", "revision", "time"])
        .filter_by(profile_id=profile.id, kind="message")
        .where(
            tables.FORGOTTEN,
            table.c.revision <= min(upto, folded_revision(connection, profile.id)),
        )
        .order_by(table.c.revision)
        .limit(limit)
    ).all()
    if not found:
        return None
    # The newest of each: a message may have been forgotten, learned and forgotten.
    last = {row.digest: row for row in found}
    key = table.c["digest", "revision"]
    rows = connection.execute(
        select(*key, func.length(table.c.vector).label("bytes"))
        .filter_by(profile_id=profile.id)
        .where(
            table.c.digest.in_(sorted(last)),
            table.c.kind != "sum",
            table.c.vector.is_not(None),
        )
        # By revision alone, SQLite would walk through the ledger for some messages.
        .order_by(*key)
        .limit(limit)
    ).all()
    some = next(chunks(rows, weigh=attrgetter("bytes"), room=BYTES), [])
    revisions = [
        row.revision for row in some if row.revision <= last[row.digest].revision
    ]
    forgotten = {digest: row.time for digest, row in last.items()}
    return Sealing.of(connection, profile, revisions, last=None, forgotten=forgotten)


def _names(
    connection: Connection,
    profile: ProfileRow,
    sums: History,
    texts: Mapping[str, Mapping[int, str]],
) -> tuple[dict[str, dict[int, str]], dict[str, list[int]]]:
    """Return the names that are new once some rows are sealed, and those that go."""
    new, gone = {}, {}
    added = State.sum(sums.values())
    for view, x in added.items():
        found = texts.get(view, {})
        gained = found.keys() & set(x.gained.tolist())
        # Most words of a message are stored: to look them up here costs as much as to
        # insert them in vain, but holds no lock.
        there = feature_names.find(connection, profile.id, view, gained)
        new[view] = {feature: found[feature] for feature in gained - there.keys()}
        lost = feature_names.find(connection, profile.id, view, x.lost.tolist())
        if lost:
            sealed = runs.total(connection, profile, "sealed", view=view)
            left = State.sum((sealed, {view: x}))[view]
            gone[view] = sorted(lost.keys() - set(left.ids.tolist()))
    return new, gone


class ClockMark(NamedTuple):
    """What a service has found about its clock (`app.services.clock.SteadyClock`).

    Parameters
    ----------
    used : datetime
        The last time that was believed.
    since : datetime
        The time after the last jump of the clock; after `used` if that was a jump ahead
        that is not believed yet.
    """

    used: datetime
    since: datetime


_CLOCK: Final = "clock"


def clock_mark(connection: Connection) -> ClockMark | None:
    """Return the last mark that a service has stored; None if there is none."""
    stored = access.secret(connection, _CLOCK)
    if stored is None:
        return None
    return ClockMark(*map(datetime.fromisoformat, stored.decode().split()))


def put_clock_mark(connection: Connection, mark: ClockMark) -> None:
    """Store a mark for later processes."""
    value = " ".join(time.isoformat() for time in mark).encode()
    upsert(connection, tables.service_secret, [{"name": _CLOCK, "value": value}])
