"""What would an undo change?

A plan is made of what the ledger says, and changes nothing.  It is refused as a
whole where one row of it cannot be taken back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sqlalchemy import case, select

from app.errors import Expired, UnknownMessage, UnknownSource
from app.storage import tables, undos
from app.storage.history import Step, transition
from app.storage.undo_basis import Basis, basis_of
from app.storage.undo_sums import require_kept, require_reachable, signs, too_old
from app.storage.undos import UndoRow, chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from app.storage.history import Transition
    from app.storage.profiles import ProfileRow
    from app.storage.undos import Selection, Taught


# Of the messages that `app.storage.scores` counts: an infinite score has no place
# in a figure.
_DECISION: Final = case(
    (
        tables.ledger.c.scores["log_odds"].as_float().is_not(None),
        tables.ledger.c.scores["decision"].as_string(),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an undo takes back, and what follows from it.

    Parameters
    ----------
    undo : UndoRow
        The undo itself, as it will be noted.
    revisions : frozenset of int
        The rows that it takes back.
    messages : Mapping of (str or None, str or None) to int
        How many messages get from one label to another; None is not learned.
    summed : Mapping of str to int
        Messages that sums add to each label, or take from it if negative.
    work : tuple of (int, int)
        Revisions of the rows to put right, and the sign of those that are sums.
    scored : Mapping of (str, str or None, str or None) to int
        Of the messages that were scored before they were learned: what the
        filter decided, the label and the one after, as often as that occurs.
    asked : Selection
        What for.
    basis : Basis
        The ledger that it was made on.
    """

    undo: UndoRow
    revisions: frozenset[int]
    messages: Mapping[tuple[str | None, str | None], int]
    summed: Mapping[str, int]
    work: tuple[tuple[int, int], ...]
    scored: Mapping[tuple[str, str | None, str | None], int]
    asked: Selection
    basis: Basis

    @property
    def empty(self) -> bool:
        """Whether nothing that is in force is taken back."""
        return not (self.revisions or self.undo.takes)


def plan(
    connection: Connection,
    profile: ProfileRow,
    asked: Selection,
    *,
    source: str,
    time: datetime,
) -> Plan:
    """Return what an undo would change.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.reading`: one snapshot.
    profile : ProfileRow
        Whose ledger.
    asked : Selection
        What to take back; what of it is taken back already stays so.
    source : str
        Who asks.
    time : datetime
        When.

    Raises
    ------
    UnknownMessage, UnknownSource
        If the ledger has nothing of a message or of a source.
    Expired
        If a row of it has no vector any more.
    Irreversible
        If counts that are needed have been pruned or replaced since.
    """
    _require_known(connection, profile, asked)
    known = undos.all_of(connection, profile.id)
    in_force = undos.in_force(known)
    undo = UndoRow(
        number=max((each.number for each in known), default=0) + 1,
        source=source,
        time=time,
        takes=undos.to_take(known, undos.undos_matching(known, asked)),
    )
    left = undos.in_force([*known, undo]) - {undo.number}
    matched = undos.matching(connection, profile.id, asked)
    reach = {row.revision: row for row in matched}
    reach |= {
        row.revision: row
        for row in undos.rows_of(connection, profile.id, in_force ^ left)
    }
    taken = undos.taken_by(connection, profile.id, reach)

    def counts(row: Taught, undone: frozenset[int]) -> bool:
        return not taken.get(row.revision, set()) & undone

    # Also what another undo takes back, if that is taken back now: else it would be
    # in force again.
    own = frozenset(row.revision for row in matched if counts(row, left))
    affected = [
        row
        for row in reach.values()
        if counts(row, in_force) != (counts(row, left) and row.revision not in own)
    ]
    if not affected:
        own, undo = frozenset(), replace(undo, takes=frozenset())
    require_kept(connection, profile, [row for row in affected if row.revision in own])
    changed_sums = signs(
        connection,
        profile,
        [row for row in affected if row.is_sum],
        before=in_force,
        after=left,
        own=own,
    )
    summed = require_reachable(connection, profile, changed_sums)
    messages: Counter[tuple[str | None, str | None]] = Counter()
    scored: Counter[tuple[str, str | None, str | None]] = Counter()
    work = sorted(changed_sums.items())
    digests = {row.digest for row in affected if not row.is_sum}
    for history, change in transitions(connection, profile.id, digests, left, own):
        if change is None:
            continue
        if not change.possible:
            raise Expired(too_old(connection, profile, history[0].revision))
        labels = tuple(
            None if learned is None else learned.label
            for learned in (change.before, change.after)
        )
        work.append((history[-1].revision, 0))
        # The same by other rows, such as those of an undo of an undo.
        if labels[0] == labels[1]:
            continue
        messages[labels] += 1  # type: ignore[index]  # two of them
        for step in history:
            if step.label_before is None and step.decision is not None:
                scored[(step.decision, *labels)] += 1  # type: ignore[index]
    return Plan(
        undo=undo,
        revisions=own,
        messages=messages,
        summed=summed,
        work=tuple(work),
        scored=scored,
        asked=asked,
        basis=basis_of(connection, profile, needed=digests, sums=changed_sums),
    )


def transitions(
    connection: Connection,
    profile_id: int,
    digests: Iterable[bytes],
    in_force: frozenset[int],
    taken_back: frozenset[int] = frozenset(),
) -> Iterator[tuple[list[Step], Transition | None]]:
    """Give the rows of each message, and what makes it what they say.

    Parameters
    ----------
    connection : Connection
        Any.
    profile_id : int
        Whose ledger.
    digests : iterable of bytes
        The messages.
    in_force : frozenset of int
        Undos that are in force.
    taken_back : frozenset of int
        Rows that are taken back beside theirs.
    """
    table = tables.ledger
    for chunk in chunks(sorted(digests)):
        found = connection.execute(
            select(
                table.c.digest,
                table.c.revision,
                table.c.label_before,
                table.c.label,
                table.c.epoch,
                table.c.undo,
                table.c.vector.is_not(None).label("kept"),
                _DECISION.label("decision"),
            )
            .where(
                table.c.profile_id == profile_id,
                table.c.digest.in_(chunk),
                table.c.kind == "message",
            )
            .order_by(table.c.digest, table.c.revision)
        )
        histories: dict[bytes, list[Step]] = {}
        for row in found:
            histories.setdefault(row.digest, []).append(
                Step(
                    revision=row.revision,
                    label_before=row.label_before,
                    label=row.label,
                    epoch=row.epoch,
                    taught=row.undo is None,
                    kept=bool(row.kept),
                    decision=row.decision,
                )
            )
        revisions = {step.revision for each in histories.values() for step in each}
        taken = undos.taken_by(connection, profile_id, revisions)
        gone = {revision for revision, by in taken.items() if by & in_force}
        # Of these messages alone: put together for each message, all that is taken
        # back made a plan of 40,000 rows take ten times as long as one of 10,000.
        gone |= revisions & taken_back
        for history in histories.values():
            yield history, transition(history, gone)


def _require_known(
    connection: Connection, profile: ProfileRow, asked: Selection
) -> None:
    """Raise if a message or a source was never heard of."""
    strange = asked.ids - undos.digests_known(connection, profile.id, asked.ids)
    if strange:
        msg = (
            f"the profile {profile.name!r} was never taught a message "
            f"{min(strange).hex()}; nothing was undone"
        )
        raise UnknownMessage(msg)
    if asked.source is None:
        return
    names = {undo.name for undo in undos.all_of(connection, profile.id)}
    if asked.source in names:
        return
    if not undos.source_exists(connection, profile.id, asked.source):
        msg = (
            f"the profile {profile.name!r} was never taught by {asked.source!r}; "
            "nothing was undone"
        )
        raise UnknownSource(msg)
