"""Feedback: the label that a person gives a message."""

from __future__ import annotations

import logging
import time
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, NotRequired, TypedDict

from app.bayes.posterior import finite
from app.errors import DatabaseUnavailable, Expired, UnknownMessage
from app.ledger.entry import ScoredRow
from app.ledger.teaching import Teaching
from app.services.classify import observe
from app.services.log import Event
from app.services.recent import is_same_message, marked_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future
    from datetime import datetime
    from typing import Unpack

    from app.access.rights import Principal
    from app.features.observation import Observation
    from app.services.clock import WriteHealth
    from app.services.figures import Teachers
    from app.services.live import LiveProfile
    from app.services.metrics import Tally
    from app.services.recent import Recall, StoredMessage
    from app.services.webhook import Webhook
    from app.services.writer import Taught, Writer


log = logging.getLogger(__name__)
# Longer than the database's own time-out, whose error comes first.
PATIENCE: Final = 60.0


class Via(NamedTuple):
    """How a lesson arrived, for its line.

    Parameters
    ----------
    by : Principal or None
        Who sent it.  This may be a mail server that names its users as sources.
    """

    door: str
    by: Principal | None = None


class Labelling(TypedDict):
    """What a person says about a message."""

    label: str
    source: str
    via: NotRequired[Via | None]


@dataclass(frozen=True, slots=True)
class PendingFeedback:
    """A lesson on its way into the ledger.

    Parameters
    ----------
    answer : Future of Taught
        Set once the row is on disk.  It cannot be cancelled.
    """

    teaching: Teaching
    answer: Future[Taught]
    teachers: Teachers

    def checked(self, taught: Taught) -> Taught:
        """Return the outcome for the sender, unless it is an error.

        Raises
        ------
        TooManyRequests
            If the source has reached its limit of messages for the day.
        Expired
            If the message was learned too long ago to be changed.
        UnknownMessage
            If it was to be forgotten but nothing of it is stored.
        """
        kind, digest = taught.outcome.kind, self.teaching.digest.hex()
        if kind == "full":
            raise self.teachers.too_many(self.teaching.source, self.teaching.time)
        if kind == "expired":
            msg = (
                f"message {digest} was learned too long ago to be changed "
                "(POSTBAYES_VECTOR_DAYS), or in a sum (`postbayes learn --sums`): its "
                "features are no longer stored. Teach similar, newer mail instead, or "
                "undo the part of the archive that contained it"
            )
            if self.teaching.label is None:
                msg += ". Its lines in the history were deleted all the same"
            raise Expired(msg)
        if kind == "unknown":
            raise UnknownMessage(
                f"the profile {taught.profile.row.name!r} has not learned message "
                f"{digest}, and nothing is stored from when it was scored; there is "
                "nothing to forget"
            )
        return taught

    def result(self) -> Taught:
        """Wait for the answer, and return it.

        Raises
        ------
        DatabaseUnavailable
            If it could not be stored, or the answer does not come in time.
        UnknownMessage
            As `checked`.
        """
        try:
            return self.checked(self.answer.result(PATIENCE))
        except TimeoutError as error:
            raise too_late() from error


def too_late() -> DatabaseUnavailable:
    """Return the error of an answer that did not come within `PATIENCE`."""
    return DatabaseUnavailable(
        f"the database did not answer within {PATIENCE:.0f} s; the feedback may have "
        "been stored, and sending it again is safe"
    )


@dataclass(frozen=True, slots=True)
class Feedback:
    """Teach, move and forget messages, durably.

    `teach`, `teach_by_id` and `forget` wait for the answer.  The `start_` methods do
    not wait: the caller asks `Recall` first, and waits for the answer in its own way.
    """

    writer: Writer
    recall: Recall
    clock: Callable[[], datetime]
    tally: Tally
    health: WriteHealth
    _: KW_ONLY
    teachers: Teachers
    webhook: Webhook | None = None

    def teach(self, profile: str, raw: bytes, **given: Unpack[Labelling]) -> Taught:
        """Learn a message, or move it to another label.

        If the headers name the id under which the message was scored, it is learned
        with the features of then, whatever mail servers have changed since.

        Raises
        ------
        UnknownProfile, UnknownLabel, EmptyMessage
            If the request names what does not exist.
        DatabaseUnavailable
            If it could not be stored; then nothing is learned.
        """
        marks = self._marks(profile, raw)
        return self.start_teach(profile, raw, marks, **given).result()

    def teach_by_id(
        self, profile: str, digest: bytes, **given: Unpack[Labelling]
    ) -> Taught:
        """Learn a message that was scored or taught before, by its id.

        Raises
        ------
        UnknownMessage
            If its features are not stored, or no longer.
        UnknownProfile, UnknownLabel
            If the request names what does not exist.
        DatabaseUnavailable
            If it could not be stored; then nothing is learned.
        """
        stored = self.recall.look_up(profile, digest, within=self.recall.write_behind)
        return self.start_teach_by_id(profile, digest, stored, **given).result()

    def forget(
        self, profile: str, digest: bytes, *, source: str, via: Via | None = None
    ) -> Taught:
        """Take back a message for good, as if it had never been scored or learned.

        Its words are deleted before the answer, and its features once the counts have
        followed (`app.storage.retention`).  Its scored features are deleted too.

        Raises
        ------
        UnknownMessage
            If nothing of it is stored.
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If it could not be stored; then it is still learned.
        """
        return self.start_forget(profile, digest, source=source, via=via).result()

    def start_teach(
        self,
        profile: str,
        raw: bytes,
        marks: Iterable[StoredMessage] = (),
        **given: Unpack[Labelling],
    ) -> PendingFeedback:
        """Begin `teach`, given the stored messages that the headers name by id.

        Raises
        ------
        UnknownProfile, UnknownLabel, EmptyMessage
            As `teach`.
        DatabaseUnavailable
            If too much is waiting already.
        """
        live = self.recall.live.get(profile)
        live.row.require_label(given["label"])
        specification = live.specification
        observation = observe(raw, specification.views, specification.key)
        evidence = as_scored(marks, observation)
        was_scored = evidence is not None or self.recall.recent.has(
            live.row.id, observation.digest
        )
        if evidence is None:
            stored = observation.stored(words=self.recall.recent.store_words)
            evidence = ScoredRow.of(stored, time=self.clock(), encoded=False)
        return self._submit(
            live, evidence.digest, evidence, was_scored=was_scored, **given
        )

    def start_teach_by_id(
        self,
        profile: str,
        digest: bytes,
        stored: StoredMessage,
        **given: Unpack[Labelling],
    ) -> PendingFeedback:
        """Begin `teach_by_id`, given the stored data of the message.

        Raises
        ------
        UnknownMessage, UnknownProfile, UnknownLabel, DatabaseUnavailable
            As `teach_by_id`.
        """
        live = self.recall.live.get(profile)
        live.row.require_label(given["label"])
        if not stored:
            raise UnknownMessage(
                f"nothing is stored about message {digest.hex()} in the profile "
                f"{profile!r}: it was scored in another profile or too long ago, or "
                "was forgotten; name the profile that scored it, or send the message "
                "itself"
            )
        # Without evidence, it was learned so long ago that only its label is stored.
        # The same label changes nothing, and the ledger refuses a different one.
        evidence = stored.evidence
        return self._submit(
            live, digest, evidence, was_scored=evidence is not None, **given
        )

    def start_forget(
        self, profile: str, digest: bytes, *, source: str, via: Via | None = None
    ) -> PendingFeedback:
        """Begin `forget`.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If too much is waiting already.
        """
        live = self.recall.live.get(profile)
        dropped = self.recall.recent.drop(live.row.id, digest)
        return self._submit(
            live, digest, label=None, source=source, via=via, dropped=dropped
        )

    def identify(self, profile: str, raw: bytes) -> bytes:
        """Return the digest under which a message is taught, for `forget`.

        Raises
        ------
        UnknownProfile, EmptyMessage
            If the request names what does not exist.
        DatabaseUnavailable
            If it cannot be looked up.
        """
        specification = self.recall.live.find(profile).specification
        observation = observe(raw, specification.views, specification.key)
        evidence = as_scored(self._marks(profile, raw), observation)
        return observation.digest if evidence is None else evidence.digest

    def _marks(self, profile: str, raw: bytes) -> list[StoredMessage]:
        """Return the stored messages that ids in the headers name."""
        return [self.recall.look_up(profile, digest) for digest in marked_ids(raw)]

    def _submit(
        self,
        live: LiveProfile,
        digest: bytes,
        evidence: ScoredRow | None = None,
        *,
        label: str | None,
        source: str,
        via: Via | None = None,
        was_scored: bool = False,
        dropped: bool = False,
    ) -> PendingFeedback:
        """Hand a teaching to the writer, and count its outcome.

        If there is no evidence, the ledger already has the features of the message.
        `was_scored` tells whether the message was scored on arrival.
        """
        if label is not None:
            self.teachers.require(live.row.id, source)
        teaching = Teaching(
            digest=digest,
            label=label,
            evidence=evidence,
            source=source,
            time=self.clock(),
            per_day=self.teachers.bound(source),
            arrived=self.recall.recent.arrived(live.row.id) if was_scored else None,
            dropped=dropped,
        )
        begun = time.perf_counter()
        taught = self.tally.teaching()
        answer = self.writer.submit(live, teaching)

        def count(done: Future[Taught]) -> None:
            error = done.exception()
            seconds = time.perf_counter() - begun
            if error is not None:
                # The door that answers logs it.
                taught("failed", seconds=seconds)
                self.health.failed(error)
                return
            outcome = done.result().outcome
            taught(outcome.kind, seconds=seconds)
            event = feedback(done.result(), teaching, via=via, seconds=seconds)
            log.info(event)
            if outcome.row is not None:
                self.health.succeeded()
                if self.webhook and self.webhook.wants("feedback"):
                    self.webhook(event)

        answer.add_done_callback(count)
        return PendingFeedback(teaching, answer, self.teachers)


def feedback(
    written: Taught, teaching: Teaching, *, via: Via | None, seconds: float
) -> Event:
    """Return the line of a lesson; its verdict is that from before it was learned.

    A command has no door.
    """

    def fields() -> dict[str, str | float | None]:
        before = written.verdict_before
        by = None if via is None else via.by
        # The source may name the principal already.
        named = by is None or by.kind == "local" or by.name == teaching.source
        return {
            "id": teaching.digest.hex(),
            "door": None if via is None else via.door,
            "by": None if by is None or named else by.name,
            "profile": written.profile.row.name,
            "source": teaching.source,
            "label": teaching.label,
            "outcome": written.outcome.kind,
            "decision": None if before is None else before.decision,
            "log_odds": None if before is None else finite(round(before.log_odds, 3)),
            "ms": round(1000 * seconds, 1),
        }

    return Event("feedback", fields)


def as_scored(marks: Iterable[StoredMessage], arrived: Observation) -> ScoredRow | None:
    """Return the scored message that a mark names, if it is the one that arrived."""
    for stored in marks:
        scored = stored.evidence
        if scored is not None and is_same_message(scored, arrived):
            return scored
    return None
