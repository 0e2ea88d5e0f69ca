"""The use case of feedback: a person says what a message was."""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.classifier.record import record
from app.classifier.score import Verdict, score
from app.errors import DatabaseUnavailable, Expired, UnknownLabel, UnknownMessage
from app.services.classify import observe
from app.services.marked import is_same_message, marked_ids
from app.storage import ledger, profiles, scored
from app.storage.engine import reading
from app.storage.scored import ScoredRow
from app.storage.teaching import Teaching

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from datetime import datetime

    from sqlalchemy import Engine

    from app.features.observation import Observation
    from app.services.live import LiveProfile, LiveProfiles
    from app.services.recent import Recent
    from app.services.tally import Tally
    from app.services.writer import Writer
    from app.storage.entry import LedgerRow
    from app.storage.teaching import Outcome

# Longer than the database's own time-out, so that its error comes first.
PATIENCE: Final = 60.0
# Seconds between two looks for an id that another worker is about to store.
LOOK_AGAIN: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A feedback on its way into the ledger.

    Parameters
    ----------
    live : LiveProfile
        Whose ledger.
    digest : bytes
        Identity of the message.
    before : Verdict or None
        The verdict on the message before it is learned; None where it is
        forgotten.
    answer : Future of Outcome
        Comes once the row is on disk.  It cannot be cancelled.
    """

    live: LiveProfile
    digest: bytes
    before: Verdict | None
    answer: Future[Outcome]

    def taught(self, outcome: Outcome) -> Taught:
        """Return the answer as the sender wants it.

        Raises
        ------
        Expired
            If the message was learned too long ago to be changed.
        UnknownMessage
            If it is not there to be forgotten.
        """
        if outcome.kind == "expired":
            msg = (
                f"message {self.digest.hex()} was learned so long ago that its "
                "features are not kept any more (POSTBAYES_VECTOR_DAYS): it stays "
                "what it was learned as; teach newer mail like it instead"
            )
            raise Expired(msg)
        if outcome.kind == "unknown" and self.before is None:
            msg = (
                f"the profile {self.live.row.name!r} has not learned a message "
                f"{self.digest.hex()}; there is nothing to forget"
            )
            raise UnknownMessage(msg)
        row = outcome.row
        return Taught(
            outcome=outcome,
            revision=self.live.snapshot.revision if row is None else row.revision,
            before=self.before,
            labels=self.live.row.labels,
        )

    def result(self) -> Taught:
        """Wait for the answer, and return it.

        Raises
        ------
        DatabaseUnavailable
            If it could not be stored, or does not come in time.
        UnknownMessage
            As `taught`.
        """
        try:
            return self.taught(self.answer.result(PATIENCE))
        except FutureTimeoutError as error:
            raise too_late() from error


def too_late() -> DatabaseUnavailable:
    """Return the error of an answer that did not come within `PATIENCE`."""
    return DatabaseUnavailable(
        f"the database has not answered within {PATIENCE:.0f} s; the "
        "feedback may still be stored, and sending it again is safe"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """What became of a feedback.

    Parameters
    ----------
    outcome : Outcome
        What the ledger says: learned, relabelled, unchanged or forgotten.
    revision : int
        The ledger row that holds it, or the latest where nothing changed.
    before : Verdict or None
        The verdict on the message before it was learned; None where it was
        forgotten.
    labels : tuple of str
        The profile's labels, in the order of the verdict's arrays.
    """

    outcome: Outcome
    revision: int
    before: Verdict | None
    labels: tuple[str, ...]


class Feedback:
    """Teach, move and forget messages, durably.

    Parameters
    ----------
    live : LiveProfiles
        The profiles in memory.
    writer : Writer
        The thread that appends to the ledger.
    recent : Recent or None
        Messages scored within the last second or so.
    engine : Engine
        Where older scored messages are looked up.
    clock : callable
        Returns the time now, in UTC.
    tally : Tally
        Where outcomes are counted.
    store_words : bool
        Whether the text of features is kept.
    write_behind : float
        How long another worker may take to store what it has scored; an id that
        is not known yet is waited for as long. Unit: seconds.
    """

    def __init__(
        self,
        live: LiveProfiles,
        writer: Writer,
        recent: Recent | None,
        engine: Engine,
        clock: Callable[[], datetime],
        tally: Tally,
        *,
        store_words: bool,
        write_behind: float = 0.0,
    ) -> None:
        self._live = live
        self._writer = writer
        self._recent = recent
        self._engine = engine
        self._clock = clock
        self._tally = tally
        self._store_words = store_words
        self._write_behind = write_behind

    def teach(self, profile: str, raw: bytes, *, label: str, source: str) -> Taught:
        """Learn a message, or move it to another label.

        Where its headers name the id under which it was scored, it is learned
        as it was scored, whatever mail servers have changed since.

        Raises
        ------
        UnknownProfile, UnknownLabel, EmptyMessage
            If the request names what does not exist.
        DatabaseUnavailable
            If it could not be stored; then nothing is learned.
        """
        return self.start_teach(profile, raw, label=label, source=source).result()

    def teach_by_id(
        self, profile: str, digest: bytes, *, label: str, source: str
    ) -> Taught:
        """Learn a message that was scored or taught before, by its id.

        Raises
        ------
        UnknownMessage
            If what was seen of it is not kept, or not any more.
        UnknownProfile, UnknownLabel
            If the request names what does not exist.
        DatabaseUnavailable
            If it could not be stored; then nothing is learned.
        """
        return self.start_teach_by_id(
            profile, digest, label=label, source=source
        ).result()

    def forget(self, profile: str, digest: bytes, *, source: str) -> Taught:
        """Take back a message, as if it had never been learned.

        Raises
        ------
        UnknownMessage
            If it is not learned.
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If it could not be stored; then it is still learned.
        """
        return self.start_forget(profile, digest, source=source).result()

    def start_teach(
        self, profile: str, raw: bytes, *, label: str, source: str
    ) -> Pending:
        """Do what `teach` does, and wait for nothing but the look-up of a mark.

        Raises
        ------
        UnknownProfile, UnknownLabel, EmptyMessage
            As `teach`.
        DatabaseUnavailable
            If too much is waiting already.
        """
        live = self._live.get(profile)
        require_label(live, label)
        observation = observe(raw, live.snapshot.specification.views)
        evidence = self._as_scored(live, raw, observation)
        if evidence is None:
            kept = (
                observation.browsable() if self._store_words else observation.nameless()
            )
            evidence = ScoredRow.of(kept, time=self._clock())
        return self._learn(live, evidence, label, source)

    def start_teach_by_id(
        self, profile: str, digest: bytes, *, label: str, source: str
    ) -> Pending:
        """Do what `teach_by_id` does, and wait for the look-up only.

        Raises
        ------
        UnknownMessage, UnknownProfile, UnknownLabel, DatabaseUnavailable
            As `teach_by_id`.
        """
        live = self._live.get(profile)
        require_label(live, label)
        try:
            evidence = self._recall(live, digest)
        except UnknownMessage:
            with reading(self._engine) as connection:
                profiles.require_there(connection, live.row)
                row = ledger.latest(connection, live.row.id, digest)
            if row is None or row.label is None:
                raise
            # Learned so long ago that its label is all that is kept. The same
            # label is no news; another is refused where the ledger decides.
            return self._say(live, digest, label, source)
        return self._learn(live, evidence, label, source)

    def start_forget(self, profile: str, digest: bytes, *, source: str) -> Pending:
        """Do what `forget` does, and wait for nothing.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If too much is waiting already.
        """
        return self._say(self._live.get(profile), digest, None, source)

    def _say(
        self, live: LiveProfile, digest: bytes, label: str | None, source: str
    ) -> Pending:
        """Say what a message is, or is not, whose features the ledger has."""
        teaching = Teaching(
            digest=digest,
            label=label,
            evidence=None,
            source=source,
            time=self._clock(),
            scores=None,
        )
        return Pending(
            live=live,
            digest=digest,
            before=None,
            answer=self._submit(live, teaching),
        )

    def _learn(
        self, live: LiveProfile, evidence: ScoredRow, label: str, source: str
    ) -> Pending:
        # Scored before it is learned, always: that makes the error rates on
        # the site's own mail live figures.
        before = score(live.snapshot, evidence.views)
        teaching = Teaching(
            digest=evidence.digest,
            label=label,
            evidence=evidence,
            source=source,
            time=self._clock(),
            scores=record(before, live.snapshot.specification),
        )
        return Pending(
            live=live,
            digest=evidence.digest,
            before=before,
            answer=self._submit(live, teaching),
        )

    def _submit(self, live: LiveProfile, teaching: Teaching) -> Future[Outcome]:
        """Hand a teaching to the writer, and count what becomes of it."""
        begun = time.perf_counter()
        answer = self._writer.submit(live, teaching)

        def count(done: Future[Outcome]) -> None:
            failed = done.exception() is not None
            kind = "failed" if failed else done.result().kind
            self._tally.taught(kind, seconds=time.perf_counter() - begun)

        answer.add_done_callback(count)
        return answer

    def identify(self, profile: str, raw: bytes) -> bytes:
        """Return the digest that a message is taught under, to forget it by.

        Raises
        ------
        UnknownProfile, EmptyMessage
            If the request names what does not exist.
        DatabaseUnavailable
            If it cannot be looked up.
        """
        live = self._live.get(profile)
        observation = observe(raw, live.snapshot.specification.views)
        evidence = self._as_scored(live, raw, observation)
        return observation.digest if evidence is None else evidence.digest

    def _as_scored(
        self, live: LiveProfile, raw: bytes, arrived: Observation
    ) -> ScoredRow | None:
        """Return what was scored of a message, if its headers say which it was."""
        for digest in marked_ids(raw):
            scored_then = self._known(live, digest)
            if scored_then is not None and is_same_message(scored_then, arrived):
                return scored_then
        return None

    def _recall(self, live: LiveProfile, digest: bytes) -> ScoredRow:
        """Return what was seen of a message when it was scored or taught."""
        until = time.monotonic() + self._write_behind
        while (known := self._known(live, digest)) is None:
            if time.monotonic() < until:
                time.sleep(LOOK_AGAIN)
                continue
            msg = (
                f"nothing is kept of a message {digest.hex()}: it was not scored "
                "here, or too long ago; send the message itself"
            )
            raise UnknownMessage(msg)
        return known

    def _known(self, live: LiveProfile, digest: bytes) -> ScoredRow | None:
        """Return what is kept of a message, here or in the database."""
        if self._recent is not None:
            observation = self._recent.get(live.row.id, digest)
            if observation is not None:
                return ScoredRow.of(observation, time=self._clock())
        with reading(self._engine) as connection:
            stored: LedgerRow | ScoredRow | None = ledger.latest(
                connection, live.row.id, digest
            )
            if stored is None or stored.vector is None:
                stored = scored.get(connection, live.row.id, digest)
        if stored is None or stored.vector is None:
            return None
        return ScoredRow(
            digest=digest,
            vector=stored.vector,
            encoded_names=stored.encoded_names if self._store_words else None,
            feature_set=stored.feature_set,
            time=stored.time,
            decoded=stored.views,
        )


def require_label(live: LiveProfile, label: str) -> None:
    """Raise UnknownLabel if a profile lacks a label."""
    require_known(label, live.row.labels, f"the profile {live.row.name!r}")


def require_known(label: str, labels: tuple[str, ...], who: str) -> None:
    """Raise if a label is not one of some labels.

    Raises
    ------
    UnknownLabel
        With the labels that there are.
    """
    if label not in labels:
        msg = f"{who} has no label {label[:64]!r}; its labels are: {', '.join(labels)}"
        raise UnknownLabel(msg)
