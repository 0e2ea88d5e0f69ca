"""Which part of a batch of ledger rows is in the count tables, and which is not?

A fold sums the rows of a batch, and may write the sum in parts, each in a transaction
of its own.  What one feature gains or loses, in all views, months and labels, is in one
part, and the parts are in the order of the features.  So one number tells which are
written: the smallest feature that is not.

The counts of messages lead to those of features (`app.storage.counts.load`), so they
grow with the first part and shrink with the last.  Measurements, of which there are
few, are in the first.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from app.bayes.statistics import FeatureCounts
from app.storage import mark
from app.storage.deltas import sum_by_epoch
from app.storage.ledger import ROWS_AT_ONCE, batches_after

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Connection

    from app.classifier.snapshot import Statistics
    from app.storage.entry import LedgerRow
    from app.storage.profiles import ProfileRow

    Epochs = Mapping[int, Mapping[str, Statistics]]


def part(
    epochs: Epochs, first: int | None, end: int | None
) -> dict[int, dict[str, Statistics]]:
    """Return one part of the sum of a batch.

    Parameters
    ----------
    epochs : mapping of int to mapping of str to FeatureCounts or MomentSums
        What the batch adds to each epoch, view by view.
    first : int or None
        Smallest feature of the part; None: the first part.
    end : int or None
        Smallest feature of the next; None: the last part.
    """
    return {
        epoch: {
            view: cut
            for view, whole in views.items()
            if (cut := _of_view(whole, first, end)) is not None
        }
        for epoch, views in epochs.items()
    }


def unfolded(
    connection: Connection, profile: ProfileRow
) -> Iterator[dict[int, dict[str, Statistics]]]:
    """Give what the ledger says and the count tables do not, by epoch and view.

    Some rows at a time; the sum of all, and of the tables, is what was learned.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that the profile has not.
    """
    here = mark.read(connection, profile.id) or mark.Mark(0, None)
    if here.rest is not None:
        rows = chain.from_iterable(begun(connection, profile.id, here.rest))
        sums = sum_by_epoch(rows, profile.labels)
        yield part(sums, here.rest.feature, None)
    for some in batches_after(connection, profile.id, revision=here.upto):
        yield sum_by_epoch(some, profile.labels)


def begun(
    connection: Connection,
    profile_id: int,
    rest: mark.Rest,
    *,
    at_once: int = ROWS_AT_ONCE,
) -> Iterator[list[LedgerRow]]:
    """Give what there is of the rows of a batch that is written in part.

    Parameters
    ----------
    connection : Connection
        Any.
    profile_id : int
        Whose rows.
    rest : Rest
        Which batch.
    at_once : int
        Rows to give at a time.
    """
    for rows in batches_after(
        connection, profile_id, revision=rest.after, at_once=at_once
    ):
        of_batch = [row for row in rows if row.revision <= rest.upto]
        if of_batch:
            yield of_batch
        if rows[-1].revision >= rest.upto:
            return


def _of_view(
    whole: Statistics, first: int | None, end: int | None
) -> Statistics | None:
    """Return the part of one view."""
    if not isinstance(whole, FeatureCounts):
        return whole if first is None else None
    messages = np.zeros_like(whole.messages)
    if first is None:
        messages += whole.messages.clip(min=0)
    if end is None:
        messages += whole.messages.clip(max=0)
    start = 0 if first is None else int(np.searchsorted(whole.ids, first))
    stop = whole.ids.size if end is None else int(np.searchsorted(whole.ids, end))
    return FeatureCounts(messages, whole.ids[start:stop], whole.columns[start:stop])
