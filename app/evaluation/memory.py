"""What was learned, month by month: kept so that it can be weighed anew."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from app.bayes.moments import MomentSums
from app.bayes.statistics import FeatureCounts
from app.classifier.decay import weighted
from app.classifier.snapshot import Snapshot, lessons_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from app.classifier.lesson import Lesson
    from app.classifier.snapshot import Statistics
    from app.classifier.specification import Specification


class Memory:
    """The rows that a service would find in its database when a month begins."""

    def __init__(self) -> None:
        self._epochs: dict[int, list[Mapping[str, Statistics]]] = defaultdict(list)
        self._lessons: list[Lesson] = []

    def add(self, epoch: int, delta: Mapping[str, Statistics], lesson: Lesson) -> None:
        """Keep what one message added to the counts of a month."""
        self._epochs[epoch].append(delta)
        self._lessons.append(lesson)

    def snapshot(self, specification: Specification, *, revision: int) -> Snapshot:
        """Return the snapshot of everything, under the weights of a specification."""
        n_classes = specification.n_classes
        sums = {epoch: _sum(parts, n_classes) for epoch, parts in self._epochs.items()}
        for epoch, views in sums.items():
            self._epochs[epoch] = [views]
        needed = lessons_after(specification, revision)
        self._lessons = [each for each in self._lessons if each.revision > needed]
        return Snapshot.of(
            specification,
            _sum(weighted(sums, specification.decay), n_classes),
            revision=revision,
            lessons=self._lessons,
        )


def _sum(
    parts: Iterable[Mapping[str, Statistics]], n_classes: int
) -> dict[str, Statistics]:
    """Return what several additions are together, view by view."""
    counts: dict[str, list[FeatureCounts]] = defaultdict(list)
    moments: dict[str, list[MomentSums]] = defaultdict(list)
    for views in parts:
        for view, part in views.items():
            if isinstance(part, FeatureCounts):
                counts[view].append(part)
            else:
                moments[view].append(part)
    return {
        **{
            view: FeatureCounts.sum(found, n_classes=n_classes)
            for view, found in counts.items()
        },
        **{
            view: MomentSums.sum(found, n_classes=n_classes)
            for view, found in moments.items()
        },
    }
