"""How do ledger rows become counts that can be read?

Upserting the counts of one message takes as long as appending ten ledger rows,
so feedback does not wait for it.  A fold moves the oldest rows that are not yet
in the count tables there, a few per transaction, together with the mark of how
far it came: it can stop anywhere, and run twice at once.

It has two halves.  `prepare` reads the rows, decodes and sums them, and needs no
lock; `write` changes the tables, and holds the one write lock of SQLite only
for that.  `fold` is both in one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select, update

from app.bayes.statistics import FeatureCounts
from app.storage import counts, names, tables
from app.storage.deltas import sum_by_epoch
from app.storage.ledger import rows_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

    from app.classifier.snapshot import Statistics
    from app.storage.entry import LedgerRow
    from app.storage.profiles import ProfileRow

# The lock of the fold's own row, so that feedback waits for no fold (PostgreSQL;
# on SQLite the transaction is the lock).
_LOCK = (
    select(tables.fold.c.folded_revision)
    .where(tables.fold.c.profile_id == bindparam("profile_id"))
    .with_for_update()
)
_TRY_LOCK = _LOCK.with_for_update(skip_locked=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Ledger rows that are summed and ready to be written.

    Parameters
    ----------
    rows : int
        How many.
    after : int
        The mark that they follow: they are of use only while it stands there.
    upto : int
        Revision of the newest, where the mark moves to.
    epochs : mapping of int to mapping of str to FeatureCounts or MomentSums
        What they add to each epoch, view by view.
    texts : mapping of str to mapping of int to str
        The text of features that had none noted, view by view.
    lost : mapping of str to list of int
        Features that may have lost their last message, view by view.
    """

    rows: int
    after: int
    upto: int
    epochs: Mapping[int, Mapping[str, Statistics]]
    texts: Mapping[str, Mapping[int, str]]
    lost: Mapping[str, list[int]]


def fold(connection: Connection, profile: ProfileRow, *, limit: int) -> int:
    """Add the oldest unfolded rows of the ledger to the count tables.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile : ProfileRow
        Whose ledger.
    limit : int
        Rows to fold at most, counted as `app.storage.ledger.rows_after` does.

    Returns
    -------
    int
        Rows folded; 0 once all are, or the profile is gone.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read; nothing is folded.
    InconsistentCounts
        If the tables do not hold what a row takes back; nothing is folded.
    """
    # Two folds take turns.
    lock = connection.execute(_LOCK, {"profile_id": profile.id})
    if lock.scalar_one_or_none() is None:
        return 0
    step = prepare(connection, profile, limit=limit)
    if step is None:
        return 0
    _write(connection, profile, step)
    return step.rows


def prepare(connection: Connection, profile: ProfileRow, *, limit: int) -> Step | None:
    """Return the next rows to fold, summed; None if all are folded.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.reading` or `writing`.
    profile : ProfileRow
        Whose ledger.
    limit : int
        Rows at most.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that the profile has not.
    """
    after = folded_revision(connection, profile.id)
    rows = rows_after(connection, profile.id, revision=after, limit=limit)
    if not rows:
        return None
    epochs = sum_by_epoch(rows, profile.labels)
    gained, lost = _moved(epochs.values())
    return Step(
        rows=len(rows),
        after=after,
        upto=rows[-1].revision,
        epochs=epochs,
        texts={
            view: unnoted(connection, profile.id, view, texts, gained[view])
            for view, texts in texts_of(rows, profile).items()
        },
        lost=lost,
    )


def write(connection: Connection, profile: ProfileRow, step: Step) -> bool:
    """Add prepared rows to the count tables, unless another fold was there.

    It waits for no other fold: who finds one at work has nothing to do.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
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
        If the tables do not hold what a row takes back; nothing is folded.
    """
    mark = connection.execute(
        _TRY_LOCK, {"profile_id": profile.id}
    ).scalar_one_or_none()
    if mark != step.after:
        return False
    _write(connection, profile, step)
    return True


def folded_revision(connection: Connection, profile_id: int) -> int:
    """Return the revision up to which the count tables hold the ledger.

    It is 0 where the profile is gone, since nothing of it is left to hold.
    """
    revision: int | None = connection.execute(
        select(tables.fold.c.folded_revision).where(
            tables.fold.c.profile_id == profile_id
        )
    ).scalar_one_or_none()
    return revision or 0


def _write(connection: Connection, profile: ProfileRow, step: Step) -> None:
    """Change counts, names and mark; the caller holds the mark's lock."""
    for epoch in sorted(step.epochs):
        counts.add(
            connection,
            profile.id,
            epoch=epoch,
            labels=profile.labels,
            delta=step.epochs[epoch],
        )
    for view in sorted(step.texts):
        names.add(connection, profile.id, view, step.texts[view])
    for view in sorted(step.lost):
        names.drop_uncounted(connection, profile.id, view, step.lost[view])
    connection.execute(
        update(tables.fold)
        .where(tables.fold.c.profile_id == profile.id)
        .values(folded_revision=step.upto)
    )


def _moved(
    deltas: Iterable[Mapping[str, Statistics]],
) -> tuple[dict[str, set[int]], dict[str, list[int]]]:
    """Return the features that gained messages, and those that only lost some.

    Of the sum, not of the rows: a message that was learned and forgotten in one
    step leaves no text either.
    """
    gained: dict[str, set[int]] = {}
    lost: dict[str, set[int]] = {}
    for delta in deltas:
        for view, part in delta.items():
            having = part.documents if isinstance(part, FeatureCounts) else part.counts
            more = (having > 0).any(axis=1)
            less = (having < 0).any(axis=1)
            gained.setdefault(view, set()).update(part.ids[more].tolist())
            lost.setdefault(view, set()).update(part.ids[less & ~more].tolist())
    return gained, {view: sorted(ids) for view, ids in lost.items() if ids}


def texts_of(
    rows: Iterable[LedgerRow], profile: ProfileRow
) -> dict[str, dict[int, str]]:
    """Return the text that the rows have of their features, view by view."""
    texts: dict[str, dict[int, str]] = {}
    for row in rows:
        forgets = row.kind == "message" and row.label is None
        if forgets or row.encoded_names is None:
            continue
        ids = row.ids(profile.labels)
        for view, given in row.names.items():
            # As many names as features, or `ScoredRow.of` would have refused.
            named = zip(ids[view].tolist(), given, strict=True)
            texts.setdefault(view, {}).update((i, text) for i, text in named if text)
    return texts


def unnoted(
    connection: Connection,
    profile_id: int,
    view: str,
    texts: Mapping[int, str],
    gained: set[int],
) -> dict[int, str]:
    """Return the text of features that gained messages and have none noted."""
    # Most words of a message are noted: to look them up here costs as much as
    # to insert them in vain, but holds no lock.  Only a fold drops names, and it
    # moves the mark.
    kept = texts.keys() & gained
    noted = names.noted(connection, profile_id, view, kept)
    return {feature: texts[feature] for feature in kept - noted}
