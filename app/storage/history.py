"""History: the lines of verdicts, and the newest that are asked for.

Queries walk the index of a profile from the newest line on, and only as far as they
state.  Text is compared here, because databases know neither the case of all letters
nor their forms.  `app.storage.scored` drops lines, as it drops messages.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import islice
from operator import attrgetter, eq, ge, lt
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, cast, exists, extract, func, select

from app.classifier.verdict import Candidate, Count, HistoryLine
from app.features.tokens import sought
from app.storage import tables
from app.storage.database.dialect import (
    insert_into,
    values_of,
    where_given,
    where_in,
    where_place,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from app.classifier.verdict import HistoryFilter, Place

_HISTORY: Final = tables.history
_FIELDS: Final = [field.name for field in fields(HistoryLine)]
_AT: Final = (_HISTORY.c.time, _HISTORY.c.digest)
_NEWEST_FIRST: Final = (_HISTORY.c.time.desc(), _HISTORY.c.digest.desc())
_TEXTS: Final = ("sender", "subject", "recipients", "envelope")
# Lines of a search that are read at a time, because it may find enough in the first.
_AT_ONCE: Final = 2_000
_LEDGER: Final = tables.ledger
_STORED: Final = tables.scored
# The state of a message in the newest row of the ledger; NULL if it is not learned.
_LABEL: Final = (
    select(_LEDGER.c.label)
    .where(
        _LEDGER.c.profile_id == _HISTORY.c.profile_id,
        _LEDGER.c.digest == _HISTORY.c.digest,
        _LEDGER.c.kind == "message",
    )
    .order_by(_LEDGER.c.revision.desc())
    .limit(1)
    .scalar_subquery()
)


def put_lines(
    connection: Connection, profile_id: int, lines: Iterable[HistoryLine]
) -> None:
    """Write lines; existing ones stay."""
    rows = [
        values_of(line, _FIELDS, profile_id=profile_id)
        # In one order, as in `scored.put_many`.
        for line in sorted(lines, key=attrgetter("digest", "time"))
    ]
    if rows:
        connection.execute(
            insert_into(connection, _HISTORY).on_conflict_do_nothing(), rows
        )


def page(
    connection: Connection,
    profile_id: int,
    criteria: HistoryFilter,
    *,
    before: Place | None,
    limit: int,
    depth: int,
) -> tuple[list[HistoryLine], Place | None]:
    """Return the newest lines that match.

    Parameters
    ----------
    depth : int
        Largest number of lines to examine.

    Returns
    -------
    (list of HistoryLine, (datetime, bytes) or None)
        The lines, newest first, and the place to continue from, if older lines were not
        examined.
    """
    last, time = None, _HISTORY.c.time
    # The conditions that the index can answer.
    stretch = [
        *where_given((time, ge, criteria.since), (time, lt, criteria.until)),
        *where_place(_AT, lt, before),
    ]
    if criteria.looks:
        last = connection.execute(_at(profile_id, depth - 1, *stretch)).first()
    conditions = *stretch, *_conditions(criteria), *where_place(_AT, ge, last)
    found = select(_HISTORY).filter_by(profile_id=profile_id).where(*conditions)
    if criteria.search:
        places = _with_text(connection, found, criteria.search)
        lines = lines_at(connection, profile_id, islice(places, limit + 1))
    else:
        rows = connection.execute(found.order_by(*_NEWEST_FIRST).limit(limit + 1))
        lines = [_read_line(row) for row in rows]
    if len(lines) > limit:
        return lines[:limit], lines[limit - 1].place
    return lines, None if last is None else (last.time, last.digest)


def _with_text(
    connection: Connection, query: Select[Any], search: str
) -> Iterator[Place]:
    """Yield the places of the lines of a query that contain a text, newest first."""
    asked = sought(search) or search
    query = query.with_only_columns(*_AT, *_HISTORY.c[_TEXTS])
    query = query.order_by(*_NEWEST_FIRST).limit(_AT_ONCE)
    before: Place | None = None
    while True:
        part = query.where(*where_place(_AT, lt, before))
        rows = connection.execute(part).all()
        for time, digest, *texts in rows:
            if asked in sought("\n".join(filter(None, texts))):
                yield time, digest
        if len(rows) < _AT_ONCE:
            return
        before = (rows[-1].time, rows[-1].digest)


def of_message(
    connection: Connection, profile_id: int, digest: bytes, *, limit: int
) -> list[HistoryLine]:
    """Return the newest lines of one message."""
    rows = connection.execute(
        select(_HISTORY)
        .filter_by(profile_id=profile_id, digest=digest)
        .order_by(_HISTORY.c.time.desc())
        .limit(limit)
    )
    return [_read_line(row) for row in rows]


def untaught(connection: Connection, profile_id: int, *, depth: int) -> list[Candidate]:
    """Return those of the newest `depth` lines whose messages are untaught but stored.

    Newest first; a message has one line for each verdict.
    """
    last = connection.execute(_at(profile_id, depth - 1)).first()
    stored = exists().where(
        _STORED.c.profile_id == _HISTORY.c.profile_id,
        _STORED.c.digest == _HISTORY.c.digest,
    )
    found = select(*_HISTORY.c[Candidate._fields]).filter_by(profile_id=profile_id)
    found = found.where(_LABEL.is_(None), stored, *where_place(_AT, ge, last))
    rows = connection.execute(found.order_by(*_NEWEST_FIRST))
    return [Candidate(*row) for row in rows]


def lines_at(
    connection: Connection, profile_id: int, places: Iterable[Place]
) -> list[HistoryLine]:
    """Return the lines at some places, in the order of the places."""
    asked = list(places)
    # By their times too: one message may have come a hundred thousand times.
    at = _HISTORY.c.time.in_([time for time, _ in asked])
    query = select(_HISTORY).filter_by(profile_id=profile_id).where(at)
    digests = [digest for _, digest in asked]
    rows = where_in(connection, query, _HISTORY.c.digest, digests)
    found = {(row.time, row.digest): _read_line(row) for row in rows}
    return [found[place] for place in asked if place in found]


def counts(
    connection: Connection, profile_id: int, *, since: datetime, step: int
) -> list[Count]:
    """Count the lines since a time by stretches of `step` seconds, oldest first.

    The index alone is read: 50,000 lines take 0.16 s.
    """
    second = cast(extract("epoch", _HISTORY.c.time), BigInteger)
    begin = (second - second % step).label("begin")
    rows = connection.execute(
        select(begin, _HISTORY.c.decision, _HISTORY.c.door, func.count().label("lines"))
        .where(_HISTORY.c.profile_id == profile_id, _HISTORY.c.time >= since)
        .group_by(begin, _HISTORY.c.decision, _HISTORY.c.door)
        .order_by(begin)
    )
    return [Count(int(row.begin), row.decision, row.door, row.lines) for row in rows]


def _at(profile_id: int, place: int, *stretch: ColumnElement[bool]) -> Any:
    """Return the query for the line at some place of a stretch, newest first."""
    # By counting entries of the index; no line is read.
    return (
        select(*_AT)
        .where(_HISTORY.c.profile_id == profile_id, *stretch)
        .order_by(*_NEWEST_FIRST)
        .offset(place)
        .limit(1)
    )


def _conditions(criteria: HistoryFilter) -> list[ColumnElement[bool]]:
    columns = _HISTORY.c
    found = where_given(
        (columns.decision, eq, criteria.decision), (columns.door, eq, criteria.door)
    )
    if criteria.taught is not None:
        found.append(_LABEL.is_not(None) if criteria.taught else _LABEL.is_(None))
    return found


def _read_line(row: Row[Any]) -> HistoryLine:
    return HistoryLine(**values_of(row, _FIELDS))
