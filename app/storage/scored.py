"""Scored messages, by whose id they are taught.

The table is bounded: the service that fills it also calls `expire`.  It is written
after the answers, in batches, and losing its newest rows loses no feedback.

A message takes its lines of the history with it when it is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter, gt, le
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from sqlalchemy import (
    bindparam,
    delete,
    func,
    literal,
    or_,
    select,
)

from app.ledger.entry import OWN, ScoredRow
from app.storage import tables
from app.storage.database.dialect import (
    chunks,
    upsert,
    values_of,
    where_in,
    where_place,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Table

    from app.classifier.verdict import Place
    from app.kernels import Bools, Floats, Ints

EXPIRED_BYTES: Final = 4 * 1024 * 1024
"""Bytes of rows that are deleted in one transaction; SQLite overwrites them."""
# The fields of `ScoredRow` that are columns.
_FIELDS: Final = [
    column.label(column.key)
    for column in tables.scored.columns
    if column.key not in {"profile_id", "bytes"}
]
_NAMES: Final = [each.key for each in _FIELDS]


def put_many(
    connection: Connection, profile_id: int, rows: Iterable[ScoredRow]
) -> None:
    """Store messages; an existing one counts as scored again."""
    # Sorted by digest, each once: workers that store the same messages lock the rows
    # in the same order, so they never deadlock.
    last = {row.digest: row for row in rows}
    upsert(
        connection,
        tables.scored,
        [
            values_of(row, _NAMES, profile_id=profile_id, bytes=row.stored_bytes)
            for _, row in sorted(last.items())
        ],
    )


def forget(
    connection: Connection,
    profile_id: int,
    digests: Collection[bytes],
    *,
    upto: Mapping[bytes, datetime] | None = None,
) -> set[bytes]:
    """Delete messages and their lines; with `upto`, only those scored until then.

    Returns
    -------
    set of bytes
        The digests of those of which something was stored.
    """
    found: set[bytes] = set()
    # One after the other, and one table after the other, as they are written: a
    # statement for all of them locks them as they lie in the table.
    for table in (tables.scored, tables.history):
        for digest in sorted(digests):
            statement = delete(table).filter_by(profile_id=profile_id, digest=digest)
            if upto is not None:
                statement = statement.where(table.c.time <= upto[digest])
            if connection.execute(statement).rowcount:
                found.add(digest)
    return found


def get_many(
    connection: Connection, profile_id: int, digests: Iterable[bytes]
) -> dict[bytes, ScoredRow]:
    """Return the stored data of each message, by digest."""
    query = select(*_FIELDS).filter_by(profile_id=profile_id)
    rows = where_in(connection, query, tables.scored.c.digest, digests)
    return {row.digest: ScoredRow(**row._asdict()) for row in rows}


def copy(
    connection: Connection,
    table: Table,
    profile_id: int,
    *,
    to: int,
    after: Place | None,
    limit: int,
) -> Place | None:
    """Copy the scored messages of a profile to another, oldest first.

    Parameters
    ----------
    table : Table
        `scored` or `history`.
    profile_id, to : int
        Profile of the rows, and the profile that gets them as well.
    after : (datetime, bytes) or None
        The result of the previous call; None for the first.

    Returns
    -------
    (datetime, bytes) or None
        The place to continue from; None if there was nothing more.
    """
    place = table.c.time, table.c.digest
    columns = [column.label(column.key) for column in table.columns]
    mine = table.c.profile_id == profile_id
    query = select(*columns).where(mine, *where_place(place, gt, after))
    found = connection.execute(query.order_by(*place).limit(limit))
    rows = [{**row, "profile_id": to} for row in found.mappings()]
    upsert(connection, table, rows)
    return (rows[-1]["time"], rows[-1]["digest"]) if rows else None


class Kept(NamedTuple):
    """What is kept of each profile in a table of messages or lines.

    Parameters
    ----------
    table : Table
        `scored` or `history`.
    since : datetime
        Time of the oldest rows.
    rows, bytes : int
        How many of the newest rows, and the bytes of scored messages together.
    """

    table: Table
    since: datetime
    rows: int
    bytes: int = 0


def last_over(connection: Connection, kept: Kept, profile_id: int) -> Place | None:
    """Return time and digest of the newest row beyond the limits, if any."""
    table = kept.table
    newest = (table.c.time.desc(), table.c.digest.desc())
    size = table.c.get("bytes", literal(0))
    ranked = (
        select(
            *table.c["time", "digest"],
            func.row_number().over(order_by=newest).label("place"),
            func.sum(size).over(order_by=newest).label("total"),
        )
        .where(table.c.profile_id == profile_id)
        .subquery()
    )
    over = or_(ranked.c.place > kept.rows, ranked.c.total > kept.bytes)
    first = select(*ranked.c["time", "digest"]).where(over).order_by(ranked.c.place)
    row = connection.execute(first.limit(1)).first()
    return None if row is None else (row.time, row.digest)


def expire(
    connection: Connection,
    kept: Kept,
    profile_id: int,
    *,
    ahead: datetime | None = None,
    upto: Place | None,
    limit: int,
) -> int:
    """Delete some rows that are too old or too many, and return their number.

    Parameters
    ----------
    ahead : datetime or None
        Rows of later verdicts are deleted too.
    upto : (datetime, bytes) or None
        Rows up to this one, from `last_over`, are deleted too.
    limit : int
        Largest number of rows of either kind, oldest first; fewer if they are large.
    """
    table = kept.table
    place = table.c.time, table.c.digest
    expired = or_(table.c.time < kept.since, *where_place(place, le, upto))
    deleted = _delete_oldest(connection, table, profile_id, expired, limit)
    if ahead is not None:
        # One query for both would read all rows in between.
        later = table.c.time > ahead
        deleted += _delete_oldest(connection, table, profile_id, later, limit)
    return deleted


def _delete_oldest(
    connection: Connection,
    table: Table,
    profile_id: int,
    expired: ColumnElement[bool],
    limit: int,
) -> int:
    """Delete some rows of a profile that meet a condition, as `expire`."""
    place = table.c.time, table.c.digest
    oldest = connection.execute(
        select(*place, table.c.get("bytes", literal(0)).label("bytes"))
        .where(table.c.profile_id == profile_id, expired)
        .order_by(*place)
        .limit(limit)
        # Does not wait for a row that another worker is writing: it is being scored
        # again, and waiting might deadlock.
        .with_for_update(skip_locked=True)
    ).all()
    some = next(chunks(oldest, weigh=attrgetter("bytes"), room=EXPIRED_BYTES), [])
    rows = [
        {"profile_id": profile_id, "digest": row.digest, "time": row.time}
        for row in some
    ]
    if rows:
        each = delete(table).filter_by(**{name: bindparam(name) for name in rows[0]})
        connection.execute(each, rows)
    return len(rows)


_rows: Final = tables.ledger.alias("first")
_later: Final = tables.ledger.alias("later")
_any: Final = tables.ledger.alias("any")
_DECISION: Final = _rows.c.scores["decision"].as_string().label("decision")
_LOG_ODDS: Final = _rows.c.scores["log_odds"].as_float().label("log_odds")
# The newest label of a message counts, not the first, so correcting a slip corrects
# the figures too.  A forgotten message no longer counts.
#
# A message that the filter taught itself counts once a person labels it, with the
# scores from before any learning; its own label would always agree.
_SAME: Final = _any.c.profile_id == _rows.c.profile_id, _any.c.digest == _rows.c.digest
_NEWEST: Final = select(func.max(_any.c.revision)).where(*_SAME).scalar_subquery()
_LABELLED: Final = (
    _rows.c.profile_id == bindparam("profile_id"),
    _rows.c.label_before.is_(None),
    _rows.c.label.is_not(None),
    _rows.c.scores.is_not(None),
    _later.c.profile_id == _rows.c.profile_id,
    _later.c.revision == _NEWEST,
    _later.c.label.is_not(None),
    _later.c.source != OWN,
)
# The last time that a message was learned anew: found before the window is cut, since
# one message that is forgotten and taught again and again would fill it, and hide all
# others from the figures, and a teacher from those who look for suspects.
_again: Final = tables.ledger.alias("again")
_LAST: Final = (
    select(_again.c.revision)
    .where(
        _again.c.profile_id == _rows.c.profile_id,
        _again.c.digest == _rows.c.digest,
        _again.c.label_before.is_(None),
        _again.c.label.is_not(None),
        _again.c.scores["log_odds"].as_float().is_not(None),
    )
    .order_by(_again.c.revision.desc())
    .limit(1)
    .scalar_subquery()
)
_SCORED: Final = (
    select(
        *_rows.c["revision", "digest"],
        _rows.c.label.label("first_label"),
        _rows.c.source.label("first_source"),
        *_later.c["label", "source", "time"],
        _DECISION,
        _LOG_ODDS,
    )
    # PostgreSQL takes "=" for so rare that it reads the whole ledger before the limit.
    .where(*_LABELLED, _rows.c.revision >= _LAST)
    .order_by(_rows.c.revision.desc())
    .limit(bindparam("window"))
)
# A message that was taken back and taught again counts once, with its last scores.
_EACH: Final = (
    select(
        _DECISION,
        _later.c.label,
        func.row_number()
        .over(partition_by=_rows.c.digest, order_by=_rows.c.revision.desc())
        .label("place"),
    )
    .where(*_LABELLED, _LOG_ODDS.is_not(None))
    .subquery()
)
_COUNTED: Final = (
    select(_EACH.c.decision, _EACH.c.label, func.count())
    .where(_EACH.c.place == 1)
    .group_by(_EACH.c.decision, _EACH.c.label)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The newest messages that were scored before learning.

    Parameters
    ----------
    revisions : ndarray of int64, shape (n,)
        Ledger rows that learned them, in ascending order.
    is_spam : ndarray of bool, shape (n,)
        Whether the current label of the message stands for spam.
    decided_spam, unsure : ndarray of bool, shape (n,)
        The filter's decisions.
    log_odds : ndarray of float64, shape (n,)
        Its scores.  Unit: nats.
    sources : tuple of str
        Sources of the labels.
    times : tuple of datetime
        Times of the labels.
    corrected : tuple of str or None
        Sources of earlier, different labels; None if there are none.
    """

    revisions: Ints
    is_spam: Bools
    decided_spam: Bools
    unsure: Bools
    log_odds: Floats
    sources: tuple[str, ...]
    times: tuple[datetime, ...]
    corrected: tuple[str | None, ...]


def newest(
    connection: Connection,
    profile_id: int,
    *,
    spam_labels: tuple[str, ...],
    window: int,
) -> Scored:
    """Return the newest scored messages of a profile, `window` at most."""
    rows = connection.execute(_SCORED, {"profile_id": profile_id, "window": window})
    kept = rows.all()[::-1]
    return Scored(
        revisions=np.array([row.revision for row in kept], np.int64),
        is_spam=np.array([row.label in spam_labels for row in kept], np.bool_),
        decided_spam=np.array([row.decision == "spam" for row in kept], np.bool_),
        unsure=np.array([row.decision == "unsure" for row in kept], np.bool_),
        log_odds=np.array([row.log_odds for row in kept], np.float64),
        sources=tuple(row.source for row in kept),
        times=tuple(row.time for row in kept),
        corrected=tuple(
            row.first_source
            if row.first_label != row.label and row.first_source != row.source
            else None
            for row in kept
        ),
    )


def count(connection: Connection, profile_id: int) -> dict[tuple[str, str], int]:
    """Return the number of all scored messages by decision and label."""
    rows = connection.execute(_COUNTED, {"profile_id": profile_id})
    return {(decision, label): messages for decision, label, messages in rows}
