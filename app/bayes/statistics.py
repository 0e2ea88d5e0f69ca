"""Statistics: what labelled messages add, by view and month."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.bayes.counts import FeatureCounts
from app.bayes.moments import MomentSums
from app.errors import InconsistentCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


Statistics = FeatureCounts | MomentSums
"""What messages add to a view: an element of a group."""


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
