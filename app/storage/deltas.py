"""What do several ledger rows add up to?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.bayes.statistics import FeatureCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.storage.entry import LedgerRow


def sum_by_epoch(
    rows: Iterable[LedgerRow], labels: Sequence[str]
) -> dict[int, dict[str, FeatureCounts]]:
    """Return what the rows add to each epoch, view by view.

    Summed before anything is written: the rows of a batch share most of their
    features, and a message that was learned and forgotten in it adds nothing.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that is not one of `labels`.
    """
    parts: dict[int, dict[str, list[FeatureCounts]]] = {}
    for row in rows:
        epoch = parts.setdefault(row.epoch, {})
        for view, delta in row.delta(labels).items():
            epoch.setdefault(view, []).append(delta)
    return {
        epoch: {
            view: FeatureCounts.sum(deltas, n_classes=len(labels))
            for view, deltas in views.items()
        }
        for epoch, views in parts.items()
    }


def sum_by_view(
    epochs: Iterable[dict[str, FeatureCounts]], *, n_classes: int
) -> dict[str, FeatureCounts]:
    """Return the sum of all epochs, view by view."""
    parts: dict[str, list[FeatureCounts]] = {}
    for views in epochs:
        for view, counts in views.items():
            parts.setdefault(view, []).append(counts)
    return {
        view: FeatureCounts.sum(found, n_classes=n_classes)
        for view, found in parts.items()
    }
