"""How do ledger rows become counts that can be read?

Upserting the counts of one message takes as long as appending ten ledger rows,
so feedback does not wait for it.  A fold moves the oldest rows that are not yet
in the count tables there, a few per transaction, together with the mark of how
far it came: it can stop anywhere, and run twice at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select, update

from app.bayes.statistics import FeatureCounts
from app.storage import counts, names, tables
from app.storage.deltas import sum_by_epoch
from app.storage.ledger import rows_after

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from app.classifier.snapshot import Statistics
    from app.storage.entry import LedgerRow
    from app.storage.profiles import ProfileRow


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
    # The lock of the fold's own row, so that two folds take turns and feedback
    # waits for neither (PostgreSQL; on SQLite the transaction is the lock).
    folded = connection.execute(
        select(tables.fold.c.folded_revision)
        .where(tables.fold.c.profile_id == profile.id)
        .with_for_update()
    ).scalar_one_or_none()
    if folded is None:
        return 0
    rows = rows_after(connection, profile.id, revision=folded, limit=limit)
    if not rows:
        return 0
    epochs = sum_by_epoch(rows, profile.labels)
    for epoch in sorted(epochs):
        counts.add(
            connection,
            profile.id,
            epoch=epoch,
            labels=profile.labels,
            delta=epochs[epoch],
        )
    _note_names(connection, profile, rows, epochs.values())
    connection.execute(
        update(tables.fold)
        .where(tables.fold.c.profile_id == profile.id)
        .values(folded_revision=rows[-1].revision)
    )
    return len(rows)


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


def _note_names(
    connection: Connection,
    profile: ProfileRow,
    rows: Iterable[LedgerRow],
    deltas: Iterable[dict[str, Statistics]],
) -> None:
    """Note the text of new features and drop that of features nobody has."""
    gained: dict[str, set[int]] = {}
    lost: dict[str, set[int]] = {}
    for delta in deltas:
        for view, part in delta.items():
            having = part.documents if isinstance(part, FeatureCounts) else part.counts
            more = (having > 0).any(axis=1)
            less = (having < 0).any(axis=1)
            gained.setdefault(view, set()).update(part.ids[more].tolist())
            lost.setdefault(view, set()).update(part.ids[less & ~more].tolist())
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
    for view in sorted(texts):
        # Of the sum, not of the rows: a message that was learned and forgotten
        # in one step leaves no text either.
        kept = texts[view].keys() & gained[view]
        names.add(connection, profile.id, view, {i: texts[view][i] for i in kept})
    for view in sorted(lost):
        names.drop_uncounted(connection, profile.id, view, sorted(lost[view]))
