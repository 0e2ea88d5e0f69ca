"""Counts: runs of sums, merged level by level, and the messages of each class.

A run is the sum that a batch of ledger rows adds to a view in a month: its features
in order, divided into parts that are encoded sums (`app.ledger.sums`).  A run never
changes.  Many runs of one level become one of the next, so each feature is written
once per level, and the cost of a batch is that of its own features [1]_.

Contract of this file: the sum of the runs of a kind is everything that was added,
whatever was merged.  A single run may have negative counts; all together have none.
No message is subtracted from a missing count of a class, and a count that becomes zero
is deleted.

.. [1] P. O'Neil, E. Cheng, D. Gawlick, E. O'Neil, "The log-structured merge-tree
   (LSM-tree)", *Acta Informatica* 33 (1996) 351-385.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
from sqlalchemy import and_, delete, func, insert, select, update

from app.bayes.state import History, State
from app.errors import InconsistentCounts
from app.ledger.sums import decode_sum, encode_sum
from app.storage import tables
from app.storage.database.dialect import upsert

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Row

    from app.classifier.specification import Decay
    from app.kernels import Ints
    from app.storage.profiles import ProfileRow

    ClassRow = Row[int, int, str, str, int]

Kind = Literal["counts", "sealed"]
"""Of the folded rows (`app.storage.fold`), and of those whose vectors were
dropped (`app.storage.retention`)."""
# A larger number leaves more runs to read at a start, a smaller one merges each feature
# more often.
RUNS: Final = 16
# Features of a part: some 150 kB with two labels.  Looking up a word reads one part of
# each run.
FEATURES: Final = 16_384
_TABLE: Final = tables.run
LEAST: Final = -(2**63)
"""The smallest possible id of a feature."""
# Parts that are read at once, in addition to the first of each run.  With sixteen runs
# these are 800,000 features: 30 MB, and three times as much while they are added up.
PARTS: Final = 32
# Bytes of a sum that contain its checksum and size.
_HEAD: Final = 9


class RunPart(NamedTuple):
    """A part of a run, ready to be stored.

    Parameters
    ----------
    epoch : int
        Month, YYYYMM.
    first : int
        Its smallest feature; for the first part of a run, the smallest possible one.
    """

    epoch: int
    view: str
    first: int
    vector: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Runs of a view in a month, and their sum.

    Parameters
    ----------
    key : mapping of str to Any
        Profile, kind, month and view of the runs, and their level if all have one.
    read : frozenset of (int, int, int, bytes)
        Level, number, first feature and head of each part that was read.
    """

    key: Mapping[str, Any]
    read: frozenset[tuple[int, int, int, bytes]]
    parts: tuple[RunPart, ...]


def encode(sums: Mapping[int, State], labels: Sequence[str]) -> tuple[RunPart, ...]:
    """Return the run that is added to each month and view."""
    return tuple(
        part
        for epoch in sorted(sums)
        for view in sorted(sums[epoch])
        for part in _parts(epoch, view, [State({view: sums[epoch][view]})], labels)
    )


def _parts(
    epoch: int, view: str, ranges: Iterable[State], labels: Sequence[str]
) -> Iterator[RunPart]:
    """Give one run, of the sums of ranges of features that follow one another."""
    first = LEAST
    # An id and two counts of each label: with hundreds of labels, as many bytes.
    at_most = max(1, 5 * FEATURES // (1 + 2 * len(labels)))
    for piece in _pieces(ranges, at_most):
        yield RunPart(epoch, view, first, encode_sum(piece, labels))
        first = int(piece[view].ids.max(initial=LEAST)) + 1


def _pieces(ranges: Iterable[State], at_most: int) -> Iterator[State]:
    rest = State()
    for each in ranges:
        pieces = list((rest + each).pieces(at_most=at_most))
        rest = pieces.pop() if pieces else State()
        yield from pieces
    if rest:
        yield rest


def add(
    connection: Connection,
    profile_id: int,
    kind: Kind,
    parts: Sequence[RunPart],
    *,
    level: int = 0,
) -> None:
    """Add encoded runs from `encode`.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`; the caller holds the lock of the
        kind: that of the profile's `fold` row, or of the profile.
    parts : sequence of RunPart
        One run for each month and view.
    level : int, default 0
        How often they were merged.
    """
    if not parts:
        return
    key = {"profile_id": profile_id, "kind": kind, "level": level}
    run = _TABLE.c["epoch", "view"]
    newest = select(*run, func.max(_TABLE.c.number)).filter_by(**key).group_by(*run)
    last = {tuple(of): number for *of, number in connection.execute(newest)}
    numbers = [last.get((part.epoch, part.view), -1) + 1 for part in parts]
    connection.execute(
        insert(_TABLE),
        [
            key | part._asdict() | {"number": number}
            for part, number in zip(parts, numbers, strict=True)
        ],
    )


def load(connection: Connection, profile: ProfileRow, kind: Kind) -> History:
    """Return the sums of each month.

    Raises
    ------
    CorruptVector
        If one of them cannot be read.
    InconsistentCounts
        If one has a label that the profile has not.
    """
    found = History()
    for key in _distinct(connection, profile, kind, "epoch", "view"):
        if state := _there(State.sum(_ranges(connection, profile, key))):
            found.setdefault(key["epoch"], State()).update(state)
    return found


def total(
    connection: Connection,
    profile: ProfileRow,
    kind: Kind = "counts",
    *,
    decay: Decay | None = None,
    view: str | None = None,
) -> State:
    """Return the sum of all months.

    Parameters
    ----------
    decay : Decay or None
        What each month weighs in the sum; None: all alike.
    view : str or None
        The only view that is wanted; None: all.

    Raises
    ------
    CorruptVector, InconsistentCounts
        As `load`.
    InvalidObservation
        If a count is too large to be weighted.
    """
    found = State()
    # View by view, so that the runs of one are let go before the next.
    for key in _distinct(connection, profile, kind, "view"):
        if view in (None, key["view"]):
            found |= _there(State.sum(_ranges(connection, profile, key, decay=decay)))
    return found


def _there(state: State) -> State:
    """Return the views of which something is left."""
    return State({v: x for v, x in state.items() if x.vocabulary or x.messages.any()})


def _distinct(
    connection: Connection, profile: ProfileRow, kind: Kind, *names: str
) -> list[dict[str, Any]]:
    """Return the different values of some columns, as keys of runs."""
    key, columns = {"profile_id": profile.id, "kind": kind}, _TABLE.c[names]
    query = select(*columns).filter_by(**key).distinct().order_by(*columns)
    return [key | dict(row) for row in connection.execute(query).mappings()]


def _ranges(
    connection: Connection,
    profile: ProfileRow,
    key: Mapping[str, Any],
    *,
    decay: Decay | None = None,
) -> Iterator[State]:
    """Give the sum of runs of one view, one range of features after another.

    Decoded at a time are one part of each run and `PARTS` more, however large they are.
    """
    first = _TABLE.c.first
    starts = connection.scalars(select(first).filter_by(**key).order_by(first))
    edges = sorted(set(starts.all()[PARTS::PARTS]) - {LEAST})
    held: list[State] = []
    for start, end in pairwise([LEAST, *edges, None]):
        here = first >= start if end is None else first.between(start, end - 1)
        query = select(*_TABLE.c["epoch", "vector"]).filter_by(**key).where(here)
        held += (
            decode_sum(vector, profile.labels)
            * (1 if decay is None else decay.weight(epoch))
            for epoch, vector in connection.execute(query)
        )
        # A part may go on beyond the first features of the next ones.
        yield State.sum(x.between(None, end) for x in held)
        held = [x for part in held if (x := _there(part.between(end, None)))]


def look_up(
    connection: Connection, profile: ProfileRow, view: str, feature: int
) -> dict[int, Ints]:
    """Return the occurrences and the messages of a feature, month by month.

    Returns
    -------
    dict of int to ndarray of int64, shape (2, K)
        By label; months that have a run of the view are there, with zeros too.

    Raises
    ------
    CorruptVector, InconsistentCounts
        As `load`.
    """
    key = {"profile_id": profile.id, "kind": "counts", "view": view}
    run = _TABLE.c[*key, "epoch", "level", "number"]
    # One part of each run: that which begins at the feature, or before it.
    before = (
        select(*run, func.max(_TABLE.c.first).label("first"))
        .filter_by(**key)
        .where(_TABLE.c.first <= feature)
        .group_by(*run)
        .subquery()
    )
    holding = select(*_TABLE.c["epoch", "vector"]).join(
        before, and_(*(_TABLE.c[at] == x for at, x in before.c.items()))
    )
    found: dict[int, Ints] = {}
    ids = np.array([feature])
    for epoch, vector in connection.execute(holding):
        for x in decode_sum(vector, profile.labels).values():
            both = [x.look_up(ids, "occurrences")[0], x.look_up(ids, "presence")[0]]
            found[epoch] = found.get(epoch, 0) + np.array(both)
    return found


def prepare_merge(
    connection: Connection, profile: ProfileRow, kind: Kind, *, whole: bool = False
) -> Merge | None:
    """Return the next runs to merge, added up; None if no level has many.

    Parameters
    ----------
    whole : bool, default False
        Whether to merge as soon as a month has two runs of a view, of any levels: it
        reads and writes all of them.

    Raises
    ------
    CorruptVector, InconsistentCounts
        As `load`.
    """
    key: dict[str, Any] = {"profile_id": profile.id, "kind": kind}
    group = _TABLE.c["epoch", "view", *([] if whole else ["level"])]
    query = (
        select(*group)
        # Of the parts of a run, one.
        .filter_by(**key, first=LEAST)
        .group_by(*group)
        .having(func.count() >= (2 if whole else RUNS))
        .order_by(*group)
    )
    many = connection.execute(query.limit(1)).mappings().first()
    if many is None:
        return None
    key |= many
    read = _heads(connection, key)
    ranges = _ranges(connection, profile, key)
    parts = _parts(key["epoch"], key["view"], ranges, profile.labels)
    return Merge(key=key, read=read, parts=tuple(parts))


def _heads(
    connection: Connection, key: Mapping[str, Any]
) -> frozenset[tuple[int, int, int, bytes]]:
    """Return level, number, first feature and head of each part."""
    # Not the numbers alone: where all runs of a level were merged, the next one
    # has the number of the first again.
    head = func.substr(_TABLE.c.vector, 1, _HEAD)
    query = select(*_TABLE.c["level", "number", "first"], head).filter_by(**key)
    return frozenset((*row[:3], bytes(row[3])) for row in connection.execute(query))


def write_merge(connection: Connection, profile: ProfileRow, merge: Merge) -> bool:
    """Put a sum in the place of its parts, unless they are not there any more.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`; with the lock that `add` wants.

    Returns
    -------
    bool
        False if another process has merged them; nothing is changed.
    """
    if not merge.read <= _heads(connection, merge.key):
        return False
    for level, number in sorted({part[:2] for part in merge.read}):
        run = {**merge.key, "level": level, "number": number}
        connection.execute(delete(_TABLE).filter_by(**run))
    level = 1 + max(level for level, *_ in merge.read)
    add(connection, profile.id, merge.key["kind"], merge.parts, level=level)
    return True


_MESSAGES: Final = tables.class_count


class Key(NamedTuple):
    """The key of a row."""

    profile_id: int
    epoch: int
    view: str
    label: str


def changes(
    sums: History, profile_id: int, labels: Sequence[str]
) -> list[tuple[Key, int]]:
    """Return the sums that are added to each row."""
    return [
        (Key(profile_id, epoch, view, label), messages)
        for epoch, view, part in sums.parts()
        for label, messages in zip(labels, part.messages.tolist(), strict=True)
        if messages
    ]


def add_messages(connection: Connection, changed: Sequence[tuple[Key, int]]) -> None:
    """Add to the messages of labels, or subtract if negative.

    Raises
    ------
    InconsistentCounts
        If a row to subtract from is missing.
    """
    gained = [key._asdict() | {"messages": n} for key, n in changed if n > 0]
    upsert(connection, _MESSAGES, gained, adding_to=["messages"])
    # Not by the same statement: the row is checked before ON CONFLICT updates it.
    for key, messages in changed:
        if messages > 0:
            continue
        lost = update(_MESSAGES).filter_by(**key._asdict())
        lost = lost.values(messages=_MESSAGES.c.messages + messages)
        if connection.execute(lost).rowcount != 1:
            raise InconsistentCounts(
                f"{-messages} messages of {key.view} for {key.label} in "
                f"{key.epoch} cannot be taken back: they are not in the counts."
            )
        connection.execute(delete(_MESSAGES).filter_by(**key._asdict(), messages=0))


def read_messages(connection: Connection, profile: ProfileRow) -> Sequence[ClassRow]:
    """Return all rows of a profile.

    Raises
    ------
    InconsistentCounts
        If one has a label that the profile has not.
    """
    query = select(_MESSAGES).filter_by(profile_id=profile.id)
    found = connection.execute(query).all()
    for row in found:
        if row.label not in profile.labels:
            raise InconsistentCounts(
                f"The counts of {row.view} in {row.epoch} have the label "
                f"{row.label!r}, but the labels of the profile are "
                f"{', '.join(profile.labels)}."
            )
    return found


@dataclass(frozen=True, slots=True)
class EpochCount:
    """The counts of a feature in the messages of one label and month.

    Parameters
    ----------
    epoch : int
        Month, YYYYMM.
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


def history(
    connection: Connection, profile: ProfileRow, *, view: str, feature: int
) -> list[EpochCount]:
    """Return the folded counts of a feature, oldest month first.

    Months in which messages of a label were learned, but none with the
    feature, are listed with zeros, which shows whether a word appeared or
    disappeared.

    Raises
    ------
    CorruptVector, InconsistentCounts
        If the counts cannot be read.
    """
    found = look_up(connection, profile, view, feature)
    none = np.zeros((2, len(profile.labels)), np.int64)
    counts = []
    for row in read_messages(connection, profile):
        if row.view == view:
            both = found.get(row.epoch, none)[:, profile.labels.index(row.label)]
            of = row.epoch, row.label, *both.tolist(), row.messages
            counts.append(EpochCount(*of))
    return sorted(counts, key=attrgetter("epoch", "label"))
