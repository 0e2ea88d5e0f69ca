"""Fold: moves ledger rows into the counts.

To bring the counts up to date takes many times as long as to append a row to the
ledger, so feedback does not wait for it.  A fold moves the oldest rows that are not
yet counted there, together with the mark of how far it came: it can stop anywhere, and
run twice at once.

`prepare` reads a batch of rows, decodes, sums and encodes them, and needs no lock.
`write` changes the tables, and holds the one write lock of SQLite only for that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.bayes.state import History
from app.ledger.entry import sum_by_epoch
from app.storage.counts import classes, runs, state
from app.storage.ledger import rows_after, weight

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from app.ledger.entry import LedgerRow
    from app.storage.counts.classes import Key
    from app.storage.counts.runs import RunPart
    from app.storage.profiles import ProfileRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A batch of ledger rows, summed and ready to be written.

    Parameters
    ----------
    rows : int
        How many.
    after : int
        The mark that they follow: they are of use only while it stands there.
    upto : int
        Revision of the newest, where the mark moves to.
    messages : sequence of (Key, int, str)
        What they add to the class counts.
    parts : tuple of RunPart
        What they add to the counts of features and fields.
    """

    rows: int
    after: int
    upto: int
    messages: Sequence[tuple[Key, int, str]]
    parts: tuple[RunPart, ...]


# To decode and sum a row takes 0.5 ms of the interpreter's lock, and a feedback asks
# for that several times, up to 5 ms each where a thread does not let go of it.  So a
# thread that prepares a thousand rows pauses after some.  Unit: seconds.
ROWS_AT_ONCE: Final = 32
PAUSE: Final = 0.005
# Vectors of a batch, but for the last rows: a thousand messages have 7 MB, and a dozen
# of the largest that there are (`app.features.extract.MOST_WORDS`).
BYTES: Final = 8 * 1024 * 1024


def prepare(
    connection: Connection,
    profile: ProfileRow,
    *,
    limit: int,
    room: int = BYTES,
    pause: float = PAUSE,
) -> Step | None:
    """Return the next rows to fold, summed.

    None if all are folded, or the profile is gone.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading` or `writing`.
    profile : ProfileRow
        Whose ledger.
    limit : int
        Rows at most, counted as `app.storage.ledger.rows_after` does.
    room : int, default `BYTES`
        Bytes of their vectors, but for the last rows.
    pause : float, default `PAUSE`
        How long to leave the interpreter to others after some rows.  Unit: seconds.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that the profile has not.
    """
    after = state.read(connection, profile.id)
    if after is None:
        return None
    upto, rows = after, 0
    parts: list[History] = []
    for some in _next(connection, profile.id, after=after, limit=limit, room=room):
        if rows and pause:
            time.sleep(pause)
        rows += len(some)
        upto = some[-1].revision
        parts.append(sum_by_epoch(some, profile.labels))
    if not rows:
        return None
    sums = History.sum(parts)
    return Step(
        rows=rows,
        after=after,
        upto=upto,
        messages=classes.changes(sums, profile.id, profile.labels),
        parts=runs.encode(sums, profile.labels),
    )


def write(connection: Connection, profile: ProfileRow, step: Step) -> bool:
    """Add prepared rows to the counts.

    It waits for no other fold: while one is at work there is nothing to do.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile : ProfileRow
        Whose tables.
    step : Step
        From `prepare`, in an earlier transaction.

    Returns
    -------
    bool
        False if another fold holds the mark or has moved it; nothing is changed.

    Raises
    ------
    InconsistentCounts
        If the counts do not hold the messages that a row takes back; nothing is
        changed.
    """
    if state.try_lock(connection, profile.id) != step.after:
        return False
    classes.add(connection, step.messages)
    runs.add(connection, profile.id, "counts", step.parts)
    state.move(connection, profile.id, step.upto)
    return True


def is_behind(connection: Connection, profile_id: int, *, revision: int) -> bool:
    """Whether there are rows up to a revision that the counts do not hold."""
    folded = state.read(connection, profile_id)
    if folded is None or folded >= revision:
        return False
    # The ledger may end before it, where rows are gone.
    return bool(rows_after(connection, profile_id, revision=folded, limit=1))


def _next(
    connection: Connection, profile_id: int, *, after: int, limit: int, room: int
) -> Iterator[list[LedgerRow]]:
    """Give the rows that follow a revision, some at a time, and so many in all."""
    left = limit
    while left > 0 and room > 0:
        at_once = min(left, ROWS_AT_ONCE)
        rows = rows_after(connection, profile_id, revision=after, limit=at_once)
        # The first is given however much it stands for.
        if not rows or (left < limit and weight(rows[0]) > left):
            return
        yield rows
        after = rows[-1].revision
        left -= sum(map(weight, rows))
        room -= sum(len(row.vector or b"") for row in rows)
