"""The filter that is evaluated: the served code, without a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.classifier.explain import explain
from app.classifier.learn import delta
from app.classifier.score import score
from app.classifier.snapshot import Snapshot
from app.errors import UnknownLabel
from app.features.extract import FEATURE_SET
from app.features.observation import Observation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.classifier.explain import Entry
    from app.classifier.score import Verdict
    from app.classifier.specification import Specification
    from app.features.observation import Payload


class Subject:
    """A filter that begins with nothing and learns as it is told.

    Parameters
    ----------
    specification : Specification
        What it is made of.
    """

    def __init__(self, specification: Specification) -> None:
        self._labels = specification.labels
        self._snapshot = Snapshot.empty(specification)

    def score(self, views: Mapping[str, Payload], /) -> Verdict:
        """Return the verdict on a message, and learn nothing from it."""
        return score(self._snapshot, views)

    def learn(self, views: Mapping[str, Payload], label: str, /) -> None:
        """Learn a message.

        Raises
        ------
        UnknownLabel
            If it is not one of the profile's labels.
        """
        if label not in self._labels:
            raise unknown(label, self._labels)
        self._snapshot = self._snapshot.learn(
            delta(
                views,
                before=None,
                after=self._labels.index(label),
                n_classes=len(self._labels),
            ),
            revision=self._snapshot.revision + 1,
        )

    def explain(
        self, views: Mapping[str, Payload], verdict: Verdict, *, strongest: int
    ) -> tuple[Entry, ...]:
        """Return the reasons of a verdict that was just given."""
        seen = Observation(digest=b"", feature_set=FEATURE_SET, views=views)
        return explain(verdict, self._snapshot, seen, strongest=strongest)


def unknown(label: str, labels: tuple[str, ...]) -> UnknownLabel:
    """Return the error that says which labels there are."""
    msg = (
        f"the label {label!r} is not known to the evaluation; its labels are "
        f"{', '.join(labels)} (POSTBAYES_LABELS)"
    )
    return UnknownLabel(msg)
