"""Undo: a plan, recorded in one transaction and carried out step by step.

One transaction (`begin`) records the undo and the list of rows to put right.  `step`
handles a part of that list in each further transaction, by appending rows to the
ledger: it can stop anywhere, the next process continues, and two at once take turns.
Meanwhile, every message is either in its former or in its final state.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from sqlalchemy import case, delete, exists, func, insert, or_, select

from app.errors import Expired, InconsistentCounts, UnknownMessage, UnknownSource
from app.ledger.entry import MERGED, LedgerRow
from app.ledger.sums import encode_sum
from app.ledger.undo import MessageRow, RowHistory, UndoRow, in_force, to_take
from app.storage import ledger, profiles, tables, undo_records
from app.storage.database.dialect import chunks
from app.storage.ledger import WEIGHT_OF_SUM
from app.storage.undo_records import (
    require_kept,
    require_reachable,
    require_whole,
    too_old,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from app.ledger.undo import Selection, Transition
    from app.storage.profiles import ProfileRow
    from app.storage.undo_records import TaughtRow

# A plan of many rows is made without a lock, and recorded under it.  Feedback in
# between does not change it: the messages to put right are read again at that time,
# and the new feedback is not part of the selection.
#
# A plan is made from the ledger and changes nothing.  It is refused as a whole if one
# of its rows cannot be taken back.

_LEDGER: Final = tables.ledger


# The digest, and the fields of `MessageRow` that are columns.
_PLAIN: Final = "digest", "revision", "label_before", "label", "epoch", "source", "time"
# Of the messages that `app.storage.scored` counts: an infinite score has no place
# in a figure.
_DECISION: Final = case(
    (
        _LEDGER.c.scores["log_odds"].as_float().is_not(None),
        _LEDGER.c.scores["decision"].as_string(),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The rows that an undo takes back, and the consequences.

    Parameters
    ----------
    undo : UndoRow
        The undo itself, as it will be noted, with the rows that it takes back.
    moved : Mapping of (str or None, str or None, str or None) to int
        Number of messages of each decision of the filter, None if they were not scored
        before they were learned, that move from one label to another; None: not
        learned.
    summed : Mapping of str to int
        Messages that sums add to each label, or subtract if negative.
    work : tuple of (int, int)
        Revisions of the rows to put right, and the sign of those that are sums.
    of_parts : bool
        Whether it takes back parts of archives, and therefore cannot be undone.
    of_pruning : bool
        Whether it takes back a pruning, and therefore cannot be undone.
    revision : int
        Revision of the newest row of the ledger for which it was made.
    vectors : tuple of int
        Revisions of the rows with the features to take back and to give back.
    needed : int or None
        Revision of the row that loses its vector first of those that it needs; None if
        it needs none.
    """

    undo: UndoRow
    moved: Mapping[tuple[str | None, str | None, str | None], int]
    summed: Mapping[str, int]
    work: tuple[tuple[int, int], ...]
    of_parts: bool
    of_pruning: bool
    revision: int
    vectors: tuple[int, ...]
    needed: int | None

    @property
    def empty(self) -> bool:
        """Whether nothing that is in force is taken back."""
        return not (self.undo.revisions or self.undo.takes)

    @property
    def size(self) -> int:
        """Number of messages that it changes, including those of sums."""
        return sum(self.moved.values()) + sum(map(abs, self.summed.values()))

    @property
    def messages(self) -> Counter[tuple[str | None, str | None]]:
        """Number of messages that move from one label to another."""
        found: Counter[tuple[str | None, str | None]] = Counter()
        for (_, before, label), messages in self.moved.items():
            found[before, label] += messages
        return found


def plan(
    connection: Connection,
    profile: ProfileRow,
    selection: Selection,
    *,
    source: str,
    time: datetime,
) -> Plan:
    """Return the plan of an undo; rows that are already taken back stay so.

    Raises
    ------
    UnknownMessage, UnknownSource
        If the ledger does not know a message or a source.
    Expired
        If one of the rows no longer has a vector.
    Irreversible
        If counts that are needed have been pruned or replaced since.
    """
    undos = undo_records.all_of(connection, profile.id)
    _require_known(connection, profile, selection, undos)
    unwanted = {each.number for each in undos if selection.matches(each)}
    undo = UndoRow(
        number=undo_records.newest(undos) + 1,
        source=source,
        time=time,
        takes=to_take(undos, unwanted),
        asked=selection.document(),
    )
    after = in_force([*undos, undo]) - {undo.number}
    own, affected = _affected(connection, profile.id, selection, in_force(undos), after)
    if not affected:
        undo = replace(undo, takes=frozenset())
    taken_back = [row for row in affected if row.revision in own]
    sums = {row.revision: row for row in affected if row.is_sum}
    require_kept(connection, profile, [*taken_back, *sums.values()])
    if selection.ids:
        require_whole(connection, profile, taken_back)
    # 1 for a sum to add again, -1 for one to take back.
    signs = {at: -1 if affected[row] else 1 for at, row in sums.items()}
    summed = require_reachable(connection, profile, signs)
    moved: Counter[tuple[str | None, str | None, str | None]] = Counter()
    work = sorted(signs.items())
    digests = {row.digest for row in affected if not row.is_sum}
    needed = [(row.time, row.revision) for row in sums.values()]
    vectors = {*sums}
    for history in histories(connection, profile.id, digests, after, own):
        needed += [(row.time, row.revision) for row in history.rows if row.kept]
        change = history.transition()
        if change is None:
            continue
        if not change.possible:
            raise Expired(too_old(connection, profile, history.rows[0].revision))
        work.append((history.rows[-1].revision, 0))
        vectors |= change.needed
        before, label = change.labels
        # The same by other rows, such as those of an undo of an undo.
        if before != label:
            moved[_decision(history.rows), before, label] += 1
    return Plan(
        undo=replace(undo, revisions=tuple(sorted(own))),
        moved=moved,
        summed=summed,
        work=tuple(work),
        of_parts=any(row.in_sum for row in taken_back),
        of_pruning=any(row.pruning for row in taken_back),
        revision=profiles.last_revision(connection, profile.id),
        vectors=tuple(vectors),
        needed=min(needed)[1] if needed else None,
    )


def _affected(
    connection: Connection,
    profile_id: int,
    selection: Selection,
    before: frozenset[int],
    after: frozenset[int],
) -> tuple[frozenset[int], dict[TaughtRow, bool]]:
    """Return the rows that an undo takes back itself, and all that change by it.

    Parameters
    ----------
    before, after : frozenset of int
        The other undos that are in force without it, and with it.

    Returns
    -------
    own : frozenset of int
        Their revisions; also of rows of another undo, if that undo is now taken back:
        otherwise they would be in force again.  None if nothing changes.
    affected : dict of TaughtRow to bool
        In the order of revisions, and whether each is taken back then.
    """
    matched = undo_records.matching(connection, profile_id, selection)
    others = undo_records.rows_of(connection, profile_id, before ^ after)
    reach = {row.revision: row for row in (*matched, *others)}
    gone, gone_after = (
        undo_records.taken_back(connection, profile_id, reach, standing)
        for standing in (before, after)
    )
    own = frozenset(row.revision for row in matched) - gone_after
    gone_after |= own
    affected = {reach[at]: at in gone_after for at in sorted(gone ^ gone_after)}
    return own if affected else frozenset(), affected


def _decision(history: Sequence[MessageRow]) -> str | None:
    """Return the decision on a message, which counts as in `app.storage.scored`."""
    return next(
        (
            step.decision
            for step in reversed(history)
            if step.label_before is None and step.decision is not None
        ),
        None,
    )


def token(
    connection: Connection, profile: ProfileRow, selection: Selection, *, revision: int
) -> str:
    """Return the token that confirms an undo as shown by its dry run.

    It depends on a profile, a selection, the rows up to a revision, and the undos so
    far.  Nobody can guess it, because it includes the time of that row to the
    microsecond.

    Parameters
    ----------
    selection : Selection
        The selection; its `upto` does not count.
    revision : int
        The newest row of the plan.
    """
    rows = ledger.get_many(connection, profile.id, [revision])
    of = (
        profile.id,
        profile.created_at,
        selection.document(),
        undo_records.newest(undo_records.all_of(connection, profile.id)),
        *(row.identity for row in rows),
    )
    return f"{revision}-{blake2b(repr(of).encode(), digest_size=8).hexdigest()}"


def histories(
    connection: Connection,
    profile_id: int,
    digests: Iterable[bytes],
    in_force: frozenset[int],
    taken_back: frozenset[int] = frozenset(),
) -> Iterator[RowHistory]:
    """Yield each message with its rows, and which of them are taken back."""
    for chunk in chunks(sorted(digests)):
        found = connection.execute(
            select(
                *_LEDGER.c[_PLAIN],
                _LEDGER.c.undo.is_(None).label("taught"),
                _LEDGER.c.vector.is_not(None).label("kept"),
                _DECISION.label("decision"),
                (_LEDGER.c.kind == "note").label("note"),
            )
            .where(
                _LEDGER.c.profile_id == profile_id,
                _LEDGER.c.digest.in_(chunk),
                _LEDGER.c.kind != "sum",
            )
            .order_by(_LEDGER.c.digest, _LEDGER.c.revision)
        )
        steps = [MessageRow(**row._asdict()) for row in found]
        revisions = {step.revision for step in steps}
        gone = undo_records.taken_back(connection, profile_id, revisions, in_force)
        # Only of these messages: with all taken-back rows for each message, a plan of
        # 40,000 rows took ten times as long as one of 10,000.
        gone |= revisions & taken_back
        for _, rows in groupby(steps, attrgetter("digest")):
            history = RowHistory([*rows], gone)
            if any(step.of_site for step in history.rows):
                # With the vectors that decide between words of the same time.
                tied = ledger.get_many(connection, profile_id, history.tied())
                history.contents = {row.revision: row.vector or b"" for row in tied}
            yield history


def _require_known(
    connection: Connection,
    profile: ProfileRow,
    selection: Selection,
    undos: Iterable[UndoRow],
) -> None:
    """Raise if a message or a source is unknown."""
    strange = selection.ids - ledger.known_digests(
        connection, profile.id, selection.ids, _LEDGER.c.kind != "sum"
    )
    if strange:
        raise UnknownMessage(
            f"the profile {profile.name!r} never learned message "
            f"{min(strange).hex()}; nothing was undone"
        )
    if selection.source is None or selection.source in {undo.name for undo in undos}:
        return
    by_it = _LEDGER.c.profile_id == profile.id, _LEDGER.c.source == selection.source
    if not connection.scalar(select(exists().where(*by_it))):
        raise UnknownSource(
            f"the profile {profile.name!r} was never taught by {selection.source!r}; "
            "nothing was undone"
        )


STEP: Final = 256
"""Rows of one step, as many as in a commit of `app.services.writer`."""


def begin(connection: Connection, profile: ProfileRow, plan: Plan) -> bool:
    """Record an undo, to be carried out by `step`; an empty one is not recorded.

    Returns
    -------
    bool
        False if an earlier undo is not finished, or the ledger has changed since
        the plan: then finish that undo, and plan again.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    """
    profiles.lock(connection, profile)
    if pending(connection, profile.id) or not _holds(connection, profile, plan):
        return False
    if plan.empty:
        return True
    undo_records.write(connection, profile.id, plan.undo)
    if plan.work:
        key = {"profile_id": profile.id, "number": plan.undo.number}
        rows = [{**key, "revision": at, "sign": sign} for at, sign in plan.work]
        connection.execute(insert(tables.undo_work), rows)
    return True


def _holds(connection: Connection, profile: ProfileRow, plan: Plan) -> bool:
    """Return whether the ledger is still that for which a plan was made."""
    undos = undo_records.all_of(connection, profile.id)
    if plan.undo.number != undo_records.newest(undos) + 1:
        return False
    mine = select(_LEDGER.c.revision).filter_by(profile_id=profile.id)
    # Counts that a sum has taken away may be those that the plan takes back.
    summed = mine.filter_by(kind="sum").where(_LEDGER.c.revision > plan.revision)
    # The oldest rows lose their vectors first.
    dropped = mine.filter_by(revision=plan.needed, vector=None)
    either = or_(summed.exists(), dropped.exists())
    return not connection.execute(select(either)).scalar_one()


def pending(connection: Connection, profile_id: int) -> bool:
    """Return whether any rows remain to be put right."""
    # Not by their number: each step would count all that are left.
    mine = select(tables.undo_work.c.number).filter_by(profile_id=profile_id)
    return connection.execute(mine.limit(1)).first() is not None


def rows_left(connection: Connection, profile_id: int) -> int:
    """Return the number of rows that remain to be put right."""
    mine = tables.undo_work.c.profile_id == profile_id
    return connection.execute(select(func.count()).where(mine)).scalar_one()


def profiles_pending(connection: Connection) -> set[int]:
    """Return the profiles with an unfinished undo."""
    return set(connection.scalars(select(tables.undo_work.c.profile_id).distinct()))


def step(connection: Connection, profile: ProfileRow, *, limit: int) -> list[LedgerRow]:
    """Carry out a part of an undo, and return the rows that it appended.

    Parameters
    ----------
    limit : int
        Largest number of rows to put right; a sum counts as `WEIGHT_OF_SUM`.  Fewer if
        they are large.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    InconsistentCounts
        If features that are needed are gone, which a plan made sure of.
    """
    revision = profiles.lock(connection, profile)
    row, work = _LEDGER.c, tables.undo_work
    same = (row.profile_id == profile.id) & (row.revision == work.c.revision)
    # With the bytes, which no index has: SQLite would walk through that of digests.
    held = func.coalesce(func.length(row.vector), 0).label("bytes")
    mine = (
        select(*work.c["revision", "sign", "number"], row.digest, held)
        .outerjoin_from(work, _LEDGER, same)
        .where(work.c.profile_id == profile.id)
    )
    # Messages in the order of the key, so that a step reads its rows and no others.
    messages = mine.where(work.c.sign == 0).order_by(work.c.revision).limit(limit)
    done = connection.execute(messages).all()
    if of_sums := not done:
        # Sums to add come first, oldest first, because the first of them has the
        # messages; those to take back come in reverse order.
        order = work.c.sign.desc(), work.c.sign * work.c.revision
        sums = mine.order_by(*order).limit(max(1, limit // WEIGHT_OF_SUM))
        done = connection.execute(sums).all()
    size = attrgetter("bytes")
    done = next(chunks(done, weigh=size, room=ledger.BYTES_AT_ONCE), [])
    if not done:
        return []
    undos = undo_records.all_of(connection, profile.id)
    (undo,) = [each for each in undos if each.number == done[0].number]
    revisions = [row.revision for row in done]
    if of_sums:
        found = ledger.get_many(connection, profile.id, revisions)
        stored = {row.revision: row for row in found}
        rows = [
            _of_sum(profile, stored[each.revision], each.sign, revision + n, undo)
            for n, each in enumerate(done, 1)
        ]
    else:
        rows = put_right(
            connection,
            profile,
            {each.digest for each in done} - {None},
            undo,
            in_force=in_force(undos),
            revision=revision,
        )
    ledger.write(connection, profile.id, rows)
    over = delete(work).filter_by(profile_id=profile.id)
    connection.execute(over.where(work.c.revision.in_(revisions)))
    return rows


def _of_sum(
    profile: ProfileRow, row: LedgerRow, sign: int, revision: int, undo: UndoRow
) -> LedgerRow:
    """Return the row that adds a sum again, or takes it back."""
    state = row.delta(profile.labels)
    return LedgerRow.of_sum(
        encode_sum(-state if sign < 0 else state, profile.labels),
        profile_id=profile.id,
        revision=revision,
        epoch=row.epoch,
        encoded_names=row.encoded_names,
        feature_set=row.feature_set,
        source=undo.name,
        time=undo.time,
        undo=undo.number,
    )


def put_right(
    connection: Connection,
    profile: ProfileRow,
    digests: Iterable[bytes],
    undo: UndoRow,
    *,
    in_force: frozenset[int],
    revision: int,
) -> list[LedgerRow]:
    """Return the rows that bring some messages into the state of their rows.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`; it holds the profile's lock.
    digests : iterable of bytes
        The messages, a few hundred at most.
    undo : UndoRow
        The undo.  If sites are merged (`MERGED`), a message whose features are no
        longer stored does not change.
    revision : int
        Of the newest row of the ledger.

    Raises
    ------
    InconsistentCounts
        If features that an undo needs are gone, which its plan made sure of.
    """
    merges = undo.number == MERGED
    changes = [
        change
        for history in histories(connection, profile.id, digests, in_force)
        if (change := history.transition()) and (change.possible or not merges)
    ]
    if not all(change.possible for change in changes):
        raise InconsistentCounts(
            f"The features of a message that {undo.name} of the profile "
            f"{profile.name!r} takes back are gone. Restore a backup."
        )
    needed = {at for change in changes for at in change.needed}
    found = ledger.get_many(connection, profile.id, needed)
    stored = {row.revision: row for row in found}
    of_messages = [_moves(change, stored) for change in changes]
    if merges:
        # A message that was learned in a sum cannot be moved alone.
        of_messages = [x for x in of_messages if all(row.kept for _, _, row in x)]
    moves = enumerate(chain(*of_messages), revision + 1)
    return [
        replace(
            row,
            revision=at,
            label_before=label_before,
            label=label,
            source=undo.name,
            time=undo.time,
            scores=None,
            kind="message",
            undo=undo.number,
        )
        for at, (label_before, label, row) in moves
    ]


def _moves(
    change: Transition, stored: Mapping[int, LedgerRow]
) -> list[tuple[str | None, str | None, LedgerRow]]:
    """Return label before, label and a row with the vector, for each new row."""
    before, after = change.labels
    lost, gained = (stored[at.kept] if at and at.kept else None for at in change)
    if lost is not None and gained is not None:
        # One vector in one epoch: what an undo had taken back and another gave
        # back is a chain of its own, but the same counts.
        if (lost.vector, lost.epoch) == (gained.vector, gained.epoch):
            return [] if before == after else [(before, after, lost)]
        return [(before, None, lost), (None, after, gained)]
    if lost is not None:
        return [(before, after, lost)]
    return [] if gained is None else [(None, after, gained)]
