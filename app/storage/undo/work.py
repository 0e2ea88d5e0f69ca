"""Undo in progress: carried out step by step.

What an undo takes back is noted in one transaction (`begin`), and with it the
list of rows to put right.  `step` does a part of that list in each further
transaction, as rows appended to the ledger: it can stop anywhere, the next
process goes on, and two at once take turns.  On the way every message is either as
before or as it shall be.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select

from app.errors import InconsistentCounts
from app.ledger.entry import LedgerRow
from app.ledger.sums import encode_sum
from app.ledger.undo import UndoRecord, in_force
from app.storage import ledger, profiles, tables
from app.storage.database.statements import chunks
from app.storage.ledger import WEIGHT_OF_SUM
from app.storage.undo import records
from app.storage.undo.plan import transitions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from app.ledger.undo import Transition, UndoRow
    from app.storage.profiles import ProfileRow
    from app.storage.undo.plan import Plan

STEP: Final = 256
"""Rows of one step: as many as share a commit in `app.services.threads.writer`."""


def begin(connection: Connection, profile: ProfileRow, plan: Plan) -> bool:
    """Note an undo, to be carried out by `step`.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile : ProfileRow
        Whose ledger.
    plan : Plan
        What is to be done; an empty plan is not noted.

    Returns
    -------
    bool
        False if an earlier undo is not carried out yet, or the plan is not of the
        ledger as it is any more: then finish it, and plan again.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    """
    profiles.lock(connection, profile)
    if pending(connection, profile.id) or not plan.basis.holds(connection, profile):
        return False
    if plan.empty:
        return True
    records.write(
        connection,
        profile.id,
        UndoRecord(
            number=plan.undo.number,
            source=plan.undo.source,
            time=plan.undo.time,
            asked=plan.asked.document(),
            takes=tuple(sorted(plan.undo.takes)),
            revisions=tuple(sorted(plan.revisions)),
        ),
    )
    if plan.work:
        key = {"profile_id": profile.id, "number": plan.undo.number}
        rows = [{**key, "revision": at, "sign": sign} for at, sign in plan.work]
        connection.execute(insert(tables.undo_work), rows)
    return True


def pending(connection: Connection, profile_id: int) -> int:
    """Return how many rows are still to be put right."""
    found: int = connection.execute(
        select(func.count()).where(tables.undo_work.c.profile_id == profile_id)
    ).scalar_one()
    return found


def profiles_pending(connection: Connection) -> set[int]:
    """Return the profiles whose undo is not carried out yet."""
    return set(
        connection.execute(select(tables.undo_work.c.profile_id).distinct()).scalars()
    )


def step(connection: Connection, profile: ProfileRow, *, limit: int) -> list[LedgerRow]:
    """Carry out a part of what was begun.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile : ProfileRow
        Whose ledger.
    limit : int
        Rows to put right at most; a sum counts as `WEIGHT_OF_SUM`.

    Returns
    -------
    list of LedgerRow
        What was appended.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    InconsistentCounts
        If features that are needed are gone, which a plan made sure of.
    """
    revision = profiles.lock(connection, profile)
    work = tables.undo_work
    # Sums that are added come first, oldest first, since their messages are in
    # the first of them; those that are taken back go the other way round.
    found = connection.execute(
        select(work.c.revision, work.c.sign, work.c.number)
        .where(work.c.profile_id == profile.id)
        .order_by(work.c.sign.desc(), work.c.sign * work.c.revision, work.c.revision)
        .limit(limit)
    ).all()
    if not found:
        return []
    undos = records.all_of(connection, profile.id)
    (undo,) = [each for each in undos if each.number == found[0].number]
    sums = [row for row in found if row.sign]
    messages = [row for row in found if not row.sign]
    done = sums[: max(1, limit // WEIGHT_OF_SUM)] if sums else messages
    revisions = [row.revision for row in done]
    if sums:
        signs = {row.revision: row.sign for row in done}
        stored = {
            r.revision: r for r in ledger.get_many(connection, profile.id, revisions)
        }
        rows = [
            _of_sum(profile, stored[each], signs[each], revision + n, undo)
            for n, each in enumerate(revisions, 1)
        ]
    else:
        rows = _of_messages(
            connection,
            profile,
            revisions,
            undo,
            in_force=in_force(undos),
            revision=revision,
        )
    ledger.write(connection, profile.id, rows)
    connection.execute(
        delete(work).where(
            work.c.profile_id == profile.id, work.c.revision.in_(revisions)
        )
    )
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


def _of_messages(
    connection: Connection,
    profile: ProfileRow,
    revisions: Iterable[int],
    undo: UndoRow,
    *,
    in_force: frozenset[int],
    revision: int,
) -> list[LedgerRow]:
    """Return the rows that put messages right."""
    written: list[LedgerRow] = []
    for chunk in chunks(revisions):
        digests = {row.digest for row in ledger.get_many(connection, profile.id, chunk)}
        changes = [
            change
            for _, change in transitions(connection, profile.id, digests, in_force)
            if change is not None
        ]
        if not all(change.possible for change in changes):
            msg = (
                f"The features of a message that {undo.name} of the profile "
                f"{profile.name!r} takes back are gone. Restore a backup."
            )
            raise InconsistentCounts(msg)
        needed = {
            each
            for change in changes
            for each in (change.lost, change.gained)
            if each is not None
        }
        stored: dict[int, LedgerRow] = {}
        for some in chunks(sorted(needed)):
            stored |= {
                row.revision: row
                for row in ledger.get_many(connection, profile.id, some)
            }
        for change in changes:
            for label_before, label, row in _moves(change, stored):
                revision += 1
                written.append(
                    replace(
                        row,
                        revision=revision,
                        label_before=label_before,
                        label=label,
                        source=undo.name,
                        time=undo.time,
                        scores=None,
                        undo=undo.number,
                    )
                )
    return written


def _moves(
    change: Transition, stored: dict[int, LedgerRow]
) -> list[tuple[str | None, str | None, LedgerRow]]:
    """Return label before, label and a row with the vector, for each new row."""
    before = None if change.before is None else change.before.label
    after = None if change.after is None else change.after.label
    lost = None if change.lost is None else stored[change.lost]
    gained = None if change.gained is None else stored[change.gained]
    if lost is not None and gained is not None:
        # One vector in one epoch: what an undo had taken back and another gave
        # back is a chain of its own, but the same counts.
        if (lost.vector, lost.epoch) == (gained.vector, gained.epoch):
            return [] if before == after else [(before, after, lost)]
        return [(before, None, lost), (None, after, gained)]
    if lost is not None:
        return [(before, after, lost)]
    return [] if gained is None else [(None, after, gained)]
