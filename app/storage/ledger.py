"""Ledger: rows appended and read in the order of their revisions.

A lesson is acknowledged once its row is committed.  Rows are added and never
changed, except that retention and forgetting drop their features and words.

An import or a pruning is a series of consecutive sums of bounded size, with one source
and one time, written in one transaction.  Folds, followers, audits and undo treat them
like any other row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import attrgetter, eq, ge, le, lt
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    LargeBinary,
    bindparam,
    column,
    func,
    insert,
    select,
    update,
    values,
)

from app.classifier.fusion import Lesson
from app.ledger.entry import OWN, Identity, LedgerLine, LedgerRow
from app.ledger.teaching import decide
from app.storage import profiles, scored, tables
from app.storage.database.dialect import (
    Prepared,
    chunks,
    values_of,
    where_given,
    where_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Table

    from app.ledger.sums import EncodedSum
    from app.ledger.teaching import Outcome, Teaching
    from app.ledger.undo import Selection
    from app.storage.profiles import ProfileRow

_LEDGER: Final = tables.ledger
_PROFILE: Final = tables.profile
WEIGHT_OF_SUM: Final = 8
"""Number of rows of messages that a sum counts as, when work is divided into steps.

Folding a sum of 5,000 features took 44 ms on SQLite (median of 200, into up to a
million counts), and folding eight messages 45.
"""
# Rows held at once while they are summed, and bytes of their vectors, but for the last
# rows: a thousand messages have 7 MB, and a dozen of the largest that there are
# (`app.features.extract.MOST_WORDS`), which take several times as much once decoded.
ROWS_AT_ONCE: Final = 1000
BYTES_AT_ONCE: Final = 8 * 1024 * 1024
# Rows read by one query, after which their sizes are known; with half as many, a start
# took a tenth longer.
ROWS_OF_QUERY: Final = 64
# The fields of `LedgerRow` that are columns.
_FIELDS: Final = [
    column.label(column.key) for column in _LEDGER.columns if column.key != "profile_id"
]
_NAMES: Final = [each.key for each in _FIELDS]
# Prepared are the statements that a lesson waits for.
_INSERT: Final = Prepared(insert(_LEDGER))
_MOVE_REVISION: Final = Prepared(
    update(_PROFILE)
    .where(_PROFILE.c.id == bindparam("profile_id"))
    .values(revision=bindparam("new_revision"))
)


def write(connection: Connection, profile_id: int, rows: Sequence[LedgerRow]) -> None:
    """Add rows whose revisions follow the one from `lock` without a gap."""
    if not rows:
        return
    values = [values_of(row, _NAMES, profile_id=profile_id) for row in rows]
    _INSERT.change(connection, values)
    _MOVE_REVISION.change(
        connection, [{"profile_id": profile_id, "new_revision": rows[-1].revision}]
    )


def rows_after(
    connection: Connection, profile_id: int, *, revision: int, limit: int
) -> list[LedgerRow]:
    """Return the rows that follow a revision, oldest first.

    Parameters
    ----------
    limit : int
        Largest number of rows; a sum counts as `WEIGHT_OF_SUM` rows.

    Returns
    -------
    list of LedgerRow
        Empty only if there are none; if there are fewer than `limit`, more may
        follow.
    """
    found = connection.execute(
        select(*_FIELDS)
        .where(_LEDGER.c.profile_id == profile_id, _LEDGER.c.revision > revision)
        .order_by(_LEDGER.c.revision)
        .limit(limit)
    )
    rows: list[LedgerRow] = []
    for row in map(_read, found):
        limit -= weight(row)
        if limit < 0 and rows:
            break
        rows.append(row)
    return rows


def weight(row: LedgerRow) -> int:
    """Return the number of rows of messages that a row counts as."""
    return WEIGHT_OF_SUM if row.kind == "sum" else 1


def identities(
    connection: Connection, profile_id: int | None = None
) -> dict[int, Identity]:
    """Return the identity of the newest row of each profile, or of one, by profile."""
    ledger, profile = _LEDGER.c, _PROFILE.c
    newest = (ledger.profile_id == profile.id) & (ledger.revision == profile.revision)
    query = select(ledger.profile_id, *ledger[Identity._fields]).join(_PROFILE, newest)
    query = query.where(*where_given((profile.id, eq, profile_id)))
    return {row[0]: Identity(*row[1:]) for row in connection.execute(query)}


def batch_after(
    connection: Connection, profile_id: int, *, revision: int, limit: int, room: int
) -> list[LedgerRow]:
    """Return the rows that follow a revision, as many as may be decoded at once.

    Parameters
    ----------
    limit : int
        Rows at most, counted as `rows_after` does; the first is given in any case.
    room : int
        Bytes of their vectors, but for the last rows.
    """
    batch: list[LedgerRow] = []
    while limit > 0 and room > 0:
        size = min(limit, ROWS_OF_QUERY)
        rows = rows_after(connection, profile_id, revision=revision, limit=size)
        if not rows or (batch and weight(rows[0]) > limit):
            break
        batch += rows
        revision = rows[-1].revision
        limit -= sum(map(weight, rows))
        room -= sum(len(row.vector or b"") for row in rows)
    return batch


def batches_after(
    connection: Connection, profile_id: int, *, revision: int
) -> Iterator[list[LedgerRow]]:
    """Give all rows after a revision, batch by batch."""
    most = {"limit": ROWS_AT_ONCE, "room": BYTES_AT_ONCE}
    while batch := batch_after(connection, profile_id, revision=revision, **most):
        yield batch
        revision = batch[-1].revision


def newest_time(connection: Connection, profile_id: int) -> datetime | None:
    """Return the latest time of a row; None without any."""
    newest = select(func.max(_LEDGER.c.time)).filter_by(profile_id=profile_id)
    found: datetime | None = connection.scalar(newest)
    return found


def lessons_after(
    connection: Connection, profile_id: int, *, revision: int
) -> list[Lesson]:
    """Return the lessons of the fusion from the messages after a revision."""
    # Without the vectors, which are ten times as large as the rest.
    names = [field.name for field in fields(Lesson) if field.name != "own"]
    rows = connection.execute(
        select(*_LEDGER.c[*names], (_LEDGER.c.source == OWN).label("own"))
        .filter_by(profile_id=profile_id, kind="message")
        .where(_LEDGER.c.revision > revision)
        .order_by(_LEDGER.c.revision)
    )
    return [Lesson(**row._asdict()) for row in rows]


def latest_of(
    connection: Connection, profile_id: int, digests: Iterable[bytes]
) -> dict[bytes, LedgerRow]:
    """Return the newest row of each message that has one, by digest.

    The newest row of a message that was learned and forgotten has label None.
    """
    found = {}
    for chunk in chunks(digests):
        # Few sizes, because the queries are cached.  A repeated digest is found once.
        size = 1 << (len(chunk) - 1).bit_length()
        chunk.extend(chunk[-1:] * (size - len(chunk)))
        named = {f"digest_{place}": digest for place, digest in enumerate(chunk)}
        for row in _latest(size).rows(connection, profile_id=profile_id, **named):
            found[row.digest] = _read(row)
    return found


@cache
def _latest(size: int) -> Prepared:
    """Return the query for the newest row of each of so many digests."""
    places = range(size)
    digests = [(bindparam(f"digest_{at}", type_=LargeBinary),) for at in places]
    named = values(column("digest", LargeBinary), name="named").data(digests).cte()
    # One look into the index for each digest.  By GROUP BY, all rows of a message were
    # read, and the kind of each stands behind its vector: a lesson about a message that
    # had been moved 4,000 times took 110 ms.
    row = _LEDGER.alias()
    highest = (
        select(row.c.revision)
        .where(
            row.c.profile_id == bindparam("profile_id"),
            row.c.digest == named.c.digest,
            # The digest of a sum is not that of a message.
            row.c.kind == "message",
        )
        .order_by(row.c.revision.desc())
        .limit(1)
        .scalar_subquery()
    )
    # Materialized, because PostgreSQL keeps the plan that it made while the table was
    # small, until the first ANALYZE.  That plan searched for the newest revisions again
    # at each row of the profile: 0.2 s for one digest among 1,000 rows, and 0.4 s among
    # 2,000.  SQLite computes it once by itself, and knows the word since 3.35.
    newest = (
        select(highest.label("revision"))
        .select_from(named)
        .cte("newest")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    return Prepared(
        select(*_FIELDS)
        .where(_LEDGER.c.profile_id == bindparam("profile_id"))
        .where(_LEDGER.c.revision.in_(select(newest.c.revision)))
    )


def known_digests(
    connection: Connection,
    profile_id: int,
    digests: Iterable[bytes],
    *conditions: ColumnElement[bool],
    table: Table = _LEDGER,
) -> set[bytes]:
    """Return those of the digests that have a row of which some conditions are true."""
    known = select(table.c.digest).where(table.c.profile_id == profile_id, *conditions)
    rows = where_in(connection, known.distinct(), table.c.digest, sorted(digests))
    return {row.digest for row in rows}


def of_message(
    connection: Connection, profile_id: int, digest: bytes
) -> list[LedgerRow]:
    """Return the newest rows of a message, oldest first."""
    rows = connection.execute(
        select(*_FIELDS)
        .filter_by(profile_id=profile_id, digest=digest, kind="message")
        .order_by(_LEDGER.c.revision.desc())
        .limit(ROWS_AT_ONCE)
    )
    return [_read(row) for row in rows][::-1]


def lines(
    connection: Connection,
    profile_id: int,
    selection: Selection,
    *,
    label: str | None,
    before: int | None,
    limit: int,
) -> list[LedgerLine]:
    """Return the newest rows that meet all conditions, without their features.

    Parameters
    ----------
    selection : Selection
        Messages, source and time; the name of an undo counts as a source.
    label : str or None
        The label that the rows gave to their messages; None means any.
    before : int or None
        Only rows older than this revision; None means all.
    """
    ledger = _LEDGER.c
    conditions = where_given((ledger.label, eq, label), (ledger.revision, lt, before))
    if selection.ids:
        conditions += [ledger.digest.in_(selection.ids), ledger.kind == "message"]
    rows = connection.execute(
        select(*ledger[LedgerLine._fields])
        .where(ledger.profile_id == profile_id, *asked_for(selection), *conditions)
        .order_by(ledger.revision.desc())
        .limit(limit)
    )
    return [LedgerLine(*row) for row in rows]


def asked_for(selection: Selection) -> list[ColumnElement[bool]]:
    """Return the conditions of a selection on source, time and revision."""
    ledger = _LEDGER.c
    return where_given(
        (ledger.source, eq, selection.source),
        (ledger.time, ge, selection.since),
        (ledger.time, lt, selection.until),
        (ledger.revision, le, selection.upto),
    )


def get_many(
    connection: Connection, profile_id: int, revisions: Iterable[int]
) -> list[LedgerRow]:
    """Return the rows of some revisions, oldest first."""
    query = select(*_FIELDS).filter_by(profile_id=profile_id)
    found = where_in(connection, query, _LEDGER.c.revision, revisions)
    return sorted(map(_read, found), key=attrgetter("revision"))


def _read(row: Any) -> LedgerRow:
    """Return a row of the table as a value of the domain."""
    return LedgerRow(**row._asdict())


def append(
    connection: Connection, profile: ProfileRow, teachings: Sequence[Teaching]
) -> list[Outcome]:
    """Write teachings into the ledger, all or none.

    The teachings are decided in their order, so a message may occur in them
    twice, and there is one outcome for each.  Revisions are consecutive, and the order
    of commits is the order of revisions: the profile stays locked until the transaction
    ends.

    Raises
    ------
    UnknownLabel
        If a label is not one of the profile's; nothing is written.
    ProfileReplaced
        If the profile is gone.
    """
    for teaching in teachings:
        profile.require_label(teaching.label)
    revision = profiles.lock(connection, profile)
    latest_rows = latest_of(
        connection, profile.id, {teaching.digest for teaching in teachings}
    )
    learned = {digest for digest, row in latest_rows.items() if row.label is not None}
    unknown = {
        teaching.digest
        for teaching in teachings
        if teaching.evidence is None and teaching.label is not None
    } - learned
    scored_rows = scored.get_many(connection, profile.id, unknown) if unknown else {}
    # Also of messages that are not learned, but may have been scored.
    gone = {teaching.digest for teaching in teachings if teaching.label is None}
    deleted = scored.forget(connection, profile.id, gone) if gone else set()
    of_day = _rows_of_day(connection, profile.id, teachings)
    outcomes = []
    written: list[LedgerRow] = []
    for teaching in teachings:
        outcome = decide(
            teaching,
            before=latest_rows.get(teaching.digest),
            remembered=scored_rows.get(teaching.digest),
            revision=revision + len(written) + 1,
            taught_before=of_day[teaching.source],
            deleted=teaching.digest in deleted,
        )
        outcomes.append(outcome)
        if outcome.row is not None:
            latest_rows[teaching.digest] = outcome.row
            written.append(outcome.row)
            of_day[teaching.source] += 1
    write(connection, profile.id, written)
    for row in filter(attrgetter("forgotten"), written):
        # Their vectors are erased once they are no longer needed
        # (`app.storage.retention`).
        connection.execute(
            update(_LEDGER)
            .filter_by(profile_id=profile.id, digest=row.digest, kind="message")
            # It may be learned again in the same transaction.
            .where(_LEDGER.c.revision <= row.revision)
            .where(_LEDGER.c.encoded_names.is_not(None))
            .values(encoded_names=None)
        )
    return outcomes


def _rows_of_day(
    connection: Connection, profile_id: int, teachings: Sequence[Teaching]
) -> Counter[str]:
    """Return the number of rows of each bounded source on its newest day."""
    newest: dict[str, datetime] = {}
    for teaching in teachings:
        if teaching.per_day is not None:
            last = newest.get(teaching.source, teaching.time)
            newest[teaching.source] = max(last, teaching.time)
    found: Counter[str] = Counter()
    for source, time in newest.items():
        midnight = time.astimezone(UTC).replace(
            hour=0, minute=0, second=0, microsecond=0
        )
        rows = select(func.count()).select_from(_LEDGER)
        of_day = rows.filter_by(profile_id=profile_id, source=source).where(
            _LEDGER.c.time >= midnight,
            # Rows of a clock that ran ahead would count on every day until then.
            _LEDGER.c.time < midnight + timedelta(days=1),
        )
        found[source] = connection.execute(of_day).scalar_one()
    return found


def append_sums(
    connection: Connection,
    profile: ProfileRow,
    sums: Iterable[EncodedSum],
    *,
    source: str,
    time: datetime,
) -> list[LedgerRow]:
    """Write sums into the ledger, all or none.

    Parameters
    ----------
    sums : iterable of EncodedSum
        With the labels of the profile (`app.ledger.sums.encode_sums`).  Negative counts
        must not exceed the existing ones, or they can never be folded: the caller must
        ensure this while it holds the lock of the profile (`profiles.lock`).

    Returns
    -------
    list of LedgerRow
        The rows, in the order of their revisions; none where nothing is added.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    """
    first = profiles.lock(connection, profile) + 1
    rows = [
        LedgerRow.of_sum(
            profile_id=profile.id,
            revision=revision,
            feature_set=profile.feature_set,
            source=source,
            time=time,
            **each._asdict(),
        )
        for revision, each in enumerate(sums, first)
    ]
    write(connection, profile.id, rows)
    return rows
