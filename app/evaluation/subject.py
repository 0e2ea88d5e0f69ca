"""The filter that is evaluated: the served code, without a database."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from app.classifier.explain import explain
from app.classifier.fusion import Lesson
from app.classifier.learn import delta
from app.classifier.record import record
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
        self._latest: tuple[bytes, Verdict] | None = None

    def score(self, views: Mapping[str, Payload], /) -> Verdict:
        """Return the verdict on a message, and learn nothing from it."""
        verdict = score(self._snapshot, views)
        self._latest = identity(views), verdict
        return verdict

    def learn(self, views: Mapping[str, Payload], label: str, /) -> None:
        """Learn a message, having scored it, as the service does.

        Raises
        ------
        UnknownLabel
            If it is not one of the profile's labels.
        """
        if label not in self._labels:
            raise unknown(label, self._labels)
        digest = identity(views)
        # Scored a moment ago, as a rule, and nothing was learned since.
        if self._latest is None or self._latest[0] != digest:
            self._latest = digest, score(self._snapshot, views)
        lesson = Lesson(
            revision=self._snapshot.revision + 1,
            digest=digest,
            label_before=None,
            label=label,
            scores=record(self._latest[1], self._snapshot.specification),
        )
        self._latest = None
        self._snapshot = self._snapshot.learn(
            delta(
                views,
                before=None,
                after=self._labels.index(label),
                n_classes=len(self._labels),
            ),
            revision=lesson.revision,
            lessons=[lesson],
        )

    def explain(
        self, views: Mapping[str, Payload], verdict: Verdict, *, strongest: int
    ) -> tuple[Entry, ...]:
        """Return the reasons of a verdict that was just given."""
        seen = Observation(digest=b"", feature_set=FEATURE_SET, views=views)
        return explain(verdict, self._snapshot, seen, strongest=strongest)


def identity(views: Mapping[str, Payload]) -> bytes:
    """Return what tells a message from others, 16 bytes."""
    whole = blake2b(digest_size=16)
    for view in sorted(views):
        whole.update(views[view].ids.tobytes())
    return whole.digest()


def unknown(label: str, labels: tuple[str, ...]) -> UnknownLabel:
    """Return the error that says which labels there are."""
    msg = (
        f"the label {label!r} is not known to the evaluation; its labels are "
        f"{', '.join(labels)} (POSTBAYES_LABELS)"
    )
    return UnknownLabel(msg)
