"""Pruning: old features that few messages had, removed from the counts.

Such a feature, or one that does not separate the labels, is hardly evidence and takes
as much space as any other.  Pruning removes it by sums in the ledger, so followers,
audits and undo include it.  The number of messages of each label stays the same,
because they were learned; only these features are gone.

Features of vectors that are still in the ledger are not pruned, because forgetting or
moving such a message subtracts its counts.  So unfolded feedback does not change the
result: its vectors are in the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import select

from app.bayes.counts import FeatureCounts
from app.bayes.state import History, State
from app.errors import Irreversible
from app.ledger.entry import PRUNED, LedgerRow
from app.ledger.sums import encode_sums
from app.storage import ledger, profiles, runs, tables
from app.storage.database.dialect import chunks
from app.storage.fold import folded_revision
from app.storage.ledger import append_sums

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from app.kernels import Ints
    from app.ledger.sums import EncodedSum
    from app.storage.profiles import ProfileRow

_LEDGER: Final = tables.ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The features to prune, at one revision.

    Parameters
    ----------
    revision : int
        Revision of the newest ledger row at the time of the search.
    sums : sequence of EncodedSum
        The sums to add to each month, with negative counts.
    """

    revision: int
    sums: Sequence[EncodedSum]
    features: Mapping[str, int]
    rows: int


def find(
    connection: Connection,
    profile: ProfileRow,
    *,
    views: Collection[str],
    max_messages: int,
    before_epoch: int,
    weak: Mapping[str, Ints],
) -> Pruning | None:
    """Return the features to prune, or None while more than feedback is unfolded.

    Parameters
    ----------
    views : collection of str
        The views to search: views of text, whose number of features is unbounded.
    max_messages : int
        Features of more messages, over all labels and months, are kept.
    before_epoch : int
        Features of messages of this month or later are kept.
    weak : mapping of str to ndarray of int64
        Weak features, view by view, which are removed however many messages have
        them (`app.classifier.explain`).
    """
    revision = profiles.require_revision(connection, profile)
    folded = folded_revision(connection, profile.id)
    if _moved_since(connection, profile.id, revision=folded):
        return None
    epochs = runs.load(connection, profile, "counts")
    rare = {}
    for view in sorted(set(views).intersection(chain(*epochs.values()))):
        of_view = {month: x[view] for month, x in epochs.items() if view in x}
        every = FeatureCounts.sum(of_view.values(), n_classes=len(profile.labels))
        recent = [x.ids for month, x in of_view.items() if month >= before_epoch]
        kept = np.concatenate([np.empty(0, np.int64), *recent])
        few = every.documents.sum(axis=1) <= max_messages
        goes = every.ids[few | np.isin(every.ids, weak.get(view, ()))]
        rare[view] = np.setdiff1d(goes, kept)
    rare = _without_needed(connection, profile, rare)
    sums = History()
    rows: int = 0
    for month in sorted(epochs):
        for view, x in epochs[month].items():
            found = np.isin(x.ids, rare.get(view, ()), assume_unique=True)
            if not found.any():
                continue
            part = FeatureCounts(
                np.zeros_like(x.messages), x.ids[found], x.columns[found]
            )
            rows += int(part.documents.astype(np.bool_).sum())
            sums.setdefault(month, State())[view] = -part
    return Pruning(
        revision=revision,
        # Here, since whoever carries it out holds the one write lock of SQLite.
        sums=encode_sums(sums, profile.labels),
        features={view: int(ids.size) for view, ids in rare.items() if ids.size},
        rows=rows,
    )


def carry_out(
    connection: Connection, profile: ProfileRow, pruning: Pruning, *, time: datetime
) -> list[LedgerRow]:
    """Remove the found features, and return the rows of the ledger that do so.

    Raises
    ------
    Irreversible
        If counts were pruned, imported or undone since; nothing is pruned.
    """
    profiles.lock(connection, profile)
    if _moved_since(connection, profile.id, revision=pruning.revision):
        raise Irreversible(
            "a pruning, import or undo ran in the meantime; nothing was pruned, so "
            "try again"
        )
    return append_sums(connection, profile, pruning.sums, source=PRUNED, time=time)


def _moved_since(connection: Connection, profile_id: int, *, revision: int) -> bool:
    """Whether anything was undone, imported or pruned after a revision."""
    # Feedback does not change the result: its vectors are in the ledger.
    moved = (_LEDGER.c.kind == "sum") | _LEDGER.c.undo.is_not(None)
    later = select(_LEDGER.c.revision).filter_by(profile_id=profile_id)
    later = later.where(_LEDGER.c.revision > revision, moved)
    return connection.scalar(later.limit(1)) is not None


def _without_needed(
    connection: Connection, profile: ProfileRow, rare: Mapping[str, Ints]
) -> dict[str, Ints]:
    """Return the features without those that a vector in the ledger still has."""
    needed = {view: np.zeros(ids.shape, np.bool_) for view, ids in rare.items()}
    # All months: an old message may have been moved today.
    kept = select(_LEDGER.c.revision).filter_by(profile_id=profile.id)
    revisions = connection.scalars(kept.where(_LEDGER.c.vector.is_not(None)))
    for chunk in chunks(revisions.all(), most=ledger.ROWS_OF_QUERY):
        for row in ledger.get_many(connection, profile.id, chunk):
            # A pruning itself needs nothing: its features are gone.
            if row.source == PRUNED and row.kind == "sum":
                continue
            for view, ids in row.ids(profile.labels).items():
                if (among := rare.get(view, ids[:0])).size:
                    places = np.searchsorted(among, ids).clip(max=among.size - 1)
                    needed[view][places[among[places] == ids]] = True
    return {view: ids[~needed[view]] for view, ids in rare.items()}
