"""The filter that is evaluated: the served code, without a database."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from app.classifier.attribution import attribute
from app.classifier.confidence import confident
from app.classifier.decay import weighted
from app.classifier.explain import explain
from app.classifier.learn import delta
from app.classifier.lesson import Lesson
from app.classifier.record import record
from app.classifier.score import score
from app.classifier.snapshot import Snapshot
from app.errors import UnknownLabel
from app.evaluation.memory import Memory
from app.evaluation.training import EVERYTHING, Training
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
    training : Training
        What it learns.
    """

    def __init__(
        self, specification: Specification, training: Training = EVERYTHING
    ) -> None:
        self._training = training
        self._snapshot = Snapshot.empty(specification)
        self._latest: tuple[bytes, Verdict] | None = None
        # What it learned by itself and in which month, by message.
        self._own: dict[bytes, tuple[str, int]] = {}
        # What it will learn by itself once the answer is given.
        self._waiting: tuple[Mapping[str, Payload], Verdict] | None = None
        self._learned = 0
        self._month = 0
        self._memory = Memory()

    @property
    def learned(self) -> int:
        """How many messages it has learned, its own verdicts among them."""
        return self._learned

    def enter(self, month: int, /) -> None:
        """Note which month it is, YYYYMM; no month comes again."""
        if month > self._month:
            # What was scored before is learned in the month in which it was.
            self._settle()
            self._month = month

    def score(self, views: Mapping[str, Payload], /) -> Verdict:
        """Return the verdict on a message, without having learned it."""
        self._settle()
        verdict = score(self._snapshot, views)
        self._latest = identity(views), verdict
        if confident(verdict, self._snapshot, own_from=self._training.own_from):
            self._waiting = views, verdict
        return verdict

    def learn(self, views: Mapping[str, Payload], label: str, /) -> None:
        """Learn a message that people labelled, having scored it, as the service does.

        Raises
        ------
        UnknownLabel
            If it is not one of the profile's labels.
        """
        specification = self._snapshot.specification
        if label not in specification.labels:
            raise unknown(label, specification.labels)
        self._settle()
        digest = identity(views)
        # Scored a moment ago, as a rule, and nothing was learned since.
        if self._latest is None or self._latest[0] != digest:
            self._latest = digest, score(self._snapshot, views)
        verdict = self._latest[1]
        if self._training.wants(verdict, label, specification):
            self._teach(digest, views, verdict, label, own=False)

    def _settle(self) -> None:
        """Learn the own verdict that was given last, if it is one to be learned."""
        if self._waiting is None:
            return
        views, verdict = self._waiting
        self._waiting = None
        digest = identity(views)
        label = self._snapshot.specification.labels[verdict.label]
        if digest not in self._own:
            self._teach(digest, views, verdict, label, own=True)

    def _teach(
        self,
        digest: bytes,
        views: Mapping[str, Payload],
        verdict: Verdict,
        label: str,
        *,
        own: bool,
    ) -> None:
        specification = self._snapshot.specification
        labels = specification.labels
        before, epoch = self._own.pop(digest, (None, self._month))
        if own:
            self._own[digest] = label, epoch
        self._learned += before is None
        lesson = Lesson(
            revision=self._snapshot.revision + 1,
            digest=digest,
            label_before=before,
            label=label,
            scores=record(verdict, specification),
            own=own,
        )
        self._latest = None
        added = delta(
            views,
            before=None if before is None else labels.index(before),
            after=labels.index(label),
            n_classes=len(labels),
        )
        decay = specification.decay
        [counted] = weighted({epoch: added}, decay)
        self._snapshot = self._snapshot.learn(
            counted, revision=lesson.revision, lessons=[lesson]
        )
        if decay is None:
            return
        self._memory.add(epoch, added, lesson)
        if self._month > (decay.epoch or 0):
            self._snapshot = self._memory.snapshot(
                specification.as_of(self._month), revision=lesson.revision
            )

    def explain(
        self, views: Mapping[str, Payload], verdict: Verdict, *, strongest: int
    ) -> tuple[Entry, ...]:
        """Return the reasons of a verdict that was just given."""
        seen = Observation(digest=b"", feature_set=FEATURE_SET, views=views)
        attribution = attribute(verdict, self._snapshot)
        return explain(attribution, self._snapshot, seen, strongest=strongest)


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
