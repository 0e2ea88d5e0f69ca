"""Fold: moves ledger rows into the count tables.

Upserting the counts of one message takes as long as appending ten ledger rows,
so feedback does not wait for it.  A fold moves the oldest rows that are not yet
in the count tables there, together with the mark of how far it came: it can stop
anywhere, and run twice at once.

It has two halves.  `prepare` reads a batch of rows, decodes and sums them, and needs
no lock.  `write` changes the tables, and holds the one write lock of SQLite only for
that: as long as its caller likes, since a batch may be written in parts
(`app.storage.fold.state`).
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.state import History
from app.errors import InconsistentCounts
from app.ledger.entry import sum_by_epoch
from app.storage.counts import deltas as counts
from app.storage.counts import names
from app.storage.fold import state
from app.storage.fold.state import Mark, Rest, begun
from app.storage.ledger import rows_after, weight

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A batch of ledger rows, summed and ready to be written.

    Parameters
    ----------
    rows : int
        How many.
    after : int
        The mark that they follow: they are of use only while it stands there, or at
        what is left of them.
    upto : int
        Revision of the newest, where the mark moves to.
    epochs : History
        What they add to each month.
    texts : mapping of str to (list of int, list of str)
        Features that had no text noted, in order, and their text, view by view.
    lost : mapping of str to list of int
        Features that may have lost their last message, view by view.
    features : ndarray of int64
        All of them in order; one that is in several views, months or labels is there
        as often.
    done : int
        How many of them are written.
    written : bool
        Whether all of it is.
    seconds : float
        How long the last part of them took, without what each transaction takes
        however small its part is.
    """

    rows: int
    after: int
    upto: int
    epochs: History
    texts: Mapping[str, tuple[list[int], list[str]]]
    lost: Mapping[str, list[int]]
    features: NDArray[np.int64]
    done: int = 0
    written: bool = False
    seconds: float = 0.0

    def stands_at(self, mark: Mark) -> bool:
        """Whether this is what has to be written next."""
        if mark.rest is None:
            return mark.upto == self.after
        return mark.rest[:2] == (self.after, self.upto)

    def place(self, feature: int) -> int:
        """Return how many of the features are smaller than one."""
        return int(np.searchsorted(self.features, feature))

    def end_after(self, first: int | None, size: int) -> int | None:
        """Return where a part of some size that begins with a feature ends.

        Parameters
        ----------
        first : int or None
            Its smallest feature; None: it is the first part.
        size : int
            Features at most, but for the last one's other views, months and labels.

        Returns
        -------
        int or None
            The smallest feature of the next part; None: nothing is left.
        """
        last = (0 if first is None else self.place(first)) + max(size, 1) - 1
        if last >= self.features.size:
            return None
        end = int(np.searchsorted(self.features, self.features[last], side="right"))
        return int(self.features[end]) if end < self.features.size else None


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
        Rows at most, counted as `app.storage.ledger.rows_after` does, and fewer where
        they are large.  A batch that is written in part is the same again, however
        large it is.
    room : int, default `BYTES`
        Bytes of their vectors, but for the last rows.
    pause : float, default `PAUSE`
        How long to leave the interpreter to others after some rows.  Unit: seconds.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that the profile has not, or one that is folded in part
        is gone.
    """
    mark = state.read(connection, profile.id)
    if mark is None:
        return None
    rows = 0
    upto = mark.complete
    parts: list[History] = []
    texts: dict[str, dict[int, str]] = {}
    batch = (
        _next(connection, profile.id, after=mark.upto, limit=limit, room=room)
        if mark.rest is None
        else begun(connection, profile.id, mark.rest, at_once=ROWS_AT_ONCE)
    )
    for packed in batch:
        if rows and pause:
            time.sleep(pause)
        some = [row.unpacked() for row in packed]
        rows += len(some)
        upto = some[-1].revision
        parts.append(sum_by_epoch(some, profile.labels))
        for view, found in names.texts_of(some, profile).items():
            texts.setdefault(view, {}).update(found)
    if mark.rest is not None and rows < mark.rest.upto - mark.rest.after:
        msg = (
            f"Of the ledger rows {mark.rest.after + 1} to {mark.rest.upto} of the "
            f"profile {profile.name!r}, which are in the counts in part, {rows} are "
            "there. Restore a backup."
        )
        raise InconsistentCounts(msg)
    if not rows:
        return None
    epochs = History.sum(parts)
    gained = epochs.gained()
    lost = _lost(epochs)
    for view, found in texts.items():
        texts[view] = names.missing(connection, profile.id, view, found)
        # Learned by one message and taken back from another, whose row has no text any
        # more since it was forgotten: counted or not, which only the tables can tell.
        unclear = texts[view].keys() - gained.get(view, ())
        if unclear:
            lost[view] = sorted(unclear.union(lost.get(view, ())))
    return Step(
        rows=rows,
        after=mark.complete,
        upto=upto,
        epochs=epochs,
        texts={view: _columns(found) for view, found in texts.items()},
        lost=lost,
        features=_features(epochs),
    )


def is_behind(connection: Connection, profile_id: int, *, revision: int) -> bool:
    """Whether there are rows up to a revision that the tables hold not or in part."""
    mark = state.read(connection, profile_id)
    if mark is None or mark.complete >= revision:
        return False
    # The ledger may end before it, where rows are gone.
    return mark.rest is not None or bool(
        rows_after(connection, profile_id, revision=mark.upto, limit=1)
    )


def write(
    connection: Connection, profile: ProfileRow, step: Step, *, size: int | None = None
) -> Step | None:
    """Add prepared rows, or a part of them, to the count tables.

    It waits for no other fold: while one is at work there is nothing to do.  It begins
    where the part before it ended, whichever process wrote that.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile : ProfileRow
        Whose tables.
    step : Step
        From `prepare`, or this, in an earlier transaction.
    size : int or None
        Features to write, as `Step.end_after` has it; None: all that is left.

    Returns
    -------
    Step or None
        The same step, which tells whether it is `written` now.  None if another fold
        holds the mark or has moved it elsewhere; nothing is changed.

    Raises
    ------
    InconsistentCounts
        If the tables do not hold what a row takes back; nothing is changed.
    """
    mark = state.try_lock(connection, profile.id)
    if mark is None or not step.stands_at(mark):
        return None
    first = None if mark.rest is None else mark.rest.feature
    end = None if size is None else step.end_after(first, size)
    seconds = _write(connection, profile, step, mark, end=end)
    done = step.features.size if end is None else step.place(end)
    return replace(step, done=done, written=end is None, seconds=seconds)


def _write(
    connection: Connection,
    profile: ProfileRow,
    step: Step,
    mark: Mark,
    *,
    end: int | None,
) -> float:
    """Change counts, names and mark; the caller holds the mark's lock.

    Returns how long the counts and names took.  Unit: seconds.
    """
    first = None if mark.rest is None else mark.rest.feature
    begun = time.monotonic()
    epochs = step.epochs.between(first, end)
    for epoch in sorted(epochs):
        counts.add(
            connection,
            profile.id,
            epoch=epoch,
            labels=profile.labels,
            delta=epochs[epoch],
        )
    # By place, not by a look at each: of ten messages of 75,000 features, that took
    # longer than a step may, so that steps shrank to one feature.
    for view in sorted(step.texts):
        features, texts = step.texts[view]
        part = _between(features, first, end)
        some = dict(zip(features[part], texts[part], strict=True))
        names.add(connection, profile.id, view, some)
    for view in sorted(step.lost):
        lost = step.lost[view]
        gone = lost[_between(lost, first, end)]
        names.drop_uncounted(connection, profile.id, view, gone)
    seconds = time.monotonic() - begun
    rest = None if end is None else Rest(step.after, step.upto, end)
    # Not back to the batch's own: the code before this one, where it still runs, takes
    # a batch for written that is written in part, and may have folded what follows.
    upto = step.upto if mark.rest is None else mark.upto
    state.move(connection, profile.id, Mark(upto, rest))
    return seconds


def _columns(texts: Mapping[int, str]) -> tuple[list[int], list[str]]:
    """Return features in order, and their text."""
    features = sorted(texts)
    return features, [texts[feature] for feature in features]


def _between(features: Sequence[int], first: int | None, end: int | None) -> slice:
    """Return where those of sorted features stand that are in a part."""
    start = 0 if first is None else bisect_left(features, first)
    stop = len(features) if end is None else bisect_left(features, end)
    return slice(start, stop)


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


def _features(epochs: History) -> NDArray[np.int64]:
    """Return all features of views of features in order."""
    ids = [x.ids for state in epochs.values() for x in state.features.values()]
    return np.sort(np.concatenate([np.empty(0, np.int64), *ids]))


def _lost(epochs: History) -> dict[str, list[int]]:
    """Return the features that only lost messages, view by view.

    Of the sum, not of the rows: a message that was learned and forgotten in one
    step leaves no text either.
    """
    lost: dict[str, set[int]] = {}
    for _, view, x in epochs.parts():
        lost.setdefault(view, set()).update(x.lost.tolist())
    return {view: sorted(ids) for view, ids in lost.items() if ids}
