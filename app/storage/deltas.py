"""What do several ledger rows add up to?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.bayes.moments import MomentSums
from app.bayes.statistics import FeatureCounts
from app.classifier.learn import sum_of_moves
from app.errors import InconsistentCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.classifier.learn import Move
    from app.classifier.snapshot import Statistics
    from app.storage.entry import LedgerRow


def sum_by_epoch(
    rows: Iterable[LedgerRow], labels: Sequence[str]
) -> dict[int, dict[str, Statistics]]:
    """Return what the rows add to each epoch, view by view.

    Summed before anything is written: the rows of a batch share most of their
    features, and a message that was learned and forgotten in it adds nothing.
    Nor does a row whose vector was dropped: what it added is in the sealed sums
    (`app.storage.sealed`), and was in the tables before it was dropped.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that is not one of `labels`, or a view holds
        features in one row and measurements in another.
    """
    moves: dict[int, list[Move]] = {}
    sums: dict[int, list[Mapping[str, Statistics]]] = {}
    for row in rows:
        if row.vector is None:
            continue
        if row.kind == "sum":
            sums.setdefault(row.epoch, []).append(row.delta(labels))
        else:
            moves.setdefault(row.epoch, []).append(row.move(labels))
    n_classes = len(labels)
    for epoch, of_epoch in moves.items():
        moved = sum_of_moves(of_epoch, n_classes=n_classes)
        sums.setdefault(epoch, []).append(moved)
    return {
        epoch: sum_by_view(parts, n_classes=n_classes) for epoch, parts in sums.items()
    }


def sum_by_view(
    epochs: Iterable[Mapping[str, Statistics]], *, n_classes: int
) -> dict[str, Statistics]:
    """Return the sum of all epochs, view by view.

    Raises
    ------
    InconsistentCounts
        If a view holds features in one epoch and measurements in another.
    """
    parts: dict[str, list[Statistics]] = {}
    for views in epochs:
        for view, statistics in views.items():
            parts.setdefault(view, []).append(statistics)
    return {view: total(found, n_classes=n_classes) for view, found in parts.items()}


def total(parts: Iterable[Statistics], *, n_classes: int) -> Statistics:
    """Return the sum of statistics of one view, at least one.

    Raises
    ------
    InconsistentCounts
        If they are not all of one kind.
    """
    kept = list(parts)
    if len(kept) == 1:
        return kept[0]
    counts = [part for part in kept if isinstance(part, FeatureCounts)]
    moments = [part for part in kept if isinstance(part, MomentSums)]
    if counts and moments:
        msg = (
            f"A view holds features in {len(counts)} parts and measurements in "
            f"{len(moments)}, and they have no sum."
        )
        raise InconsistentCounts(msg)
    if not moments:
        return FeatureCounts.sum(counts, n_classes=n_classes)
    return MomentSums.sum(moments, n_classes=n_classes)
