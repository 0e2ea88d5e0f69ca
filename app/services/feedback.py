"""The use case of feedback: a person says what a message was."""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.classifier.score import Verdict, score
from app.errors import DatabaseUnavailable, Expired, UnknownLabel, UnknownMessage
from app.features.observation import Observation
from app.services.classify import observe
from app.services.marked import is_same_message, marked_ids
from app.storage import ledger, scored
from app.storage.engine import reading
from app.storage.teaching import Teaching
from app.storage.vector import decode, decode_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from sqlalchemy import Engine

    from app.services.live import LiveProfile, LiveProfiles
    from app.services.recent import Recent
    from app.services.writer import Writer
    from app.storage.entry import LedgerRow
    from app.storage.scored import ScoredRow
    from app.storage.teaching import Outcome

# Longer than the database's own time-out, so that its error comes first.
PATIENCE: Final = 60.0


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
    store_words : bool
        Whether the text of features is kept.
    """

    def __init__(
        self,
        live: LiveProfiles,
        writer: Writer,
        recent: Recent | None,
        engine: Engine,
        clock: Callable[[], datetime],
        *,
        store_words: bool,
    ) -> None:
        self._live = live
        self._writer = writer
        self._recent = recent
        self._engine = engine
        self._clock = clock
        self._store_words = store_words

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
        live = self._live.get(profile)
        require_label(live, label)
        observation = observe(raw, live.snapshot.specification.views)
        observation = self._as_scored(live, raw, observation)
        return self._learn(live, observation, label, source)

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
        live = self._live.get(profile)
        require_label(live, label)
        return self._learn(live, self._recall(live, digest), label, source)

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
        live = self._live.get(profile)
        outcome = self._commit(
            live,
            Teaching(
                digest=digest,
                label=None,
                observation=None,
                source=source,
                time=self._clock(),
                scores=None,
            ),
        )
        if outcome.kind == "unknown":
            msg = (
                f"the profile {live.row.name!r} has not learned a message "
                f"{digest.hex()}; there is nothing to forget"
            )
            raise UnknownMessage(msg)
        return self._taught(live, outcome, None)

    def _learn(
        self, live: LiveProfile, observation: Observation, label: str, source: str
    ) -> Taught:
        # Scored before it is learned, always: that makes the error rates on
        # the site's own mail live figures.
        before = score(live.snapshot, observation.views)
        outcome = self._commit(
            live,
            Teaching(
                digest=observation.digest,
                label=label,
                observation=observation.browsable()
                if self._store_words
                else observation.nameless(),
                source=source,
                time=self._clock(),
                scores=scores_for_ledger(before),
            ),
        )
        return self._taught(live, outcome, before)

    def _commit(self, live: LiveProfile, teaching: Teaching) -> Outcome:
        try:
            outcome = self._writer.submit(live, teaching).result(PATIENCE)
        except FutureTimeoutError as error:
            msg = (
                f"the database has not answered within {PATIENCE:.0f} s; the "
                "feedback may still be stored, and sending it again is safe"
            )
            raise DatabaseUnavailable(msg) from error
        if outcome.kind == "expired":
            msg = (
                f"message {teaching.digest.hex()} was learned so long ago that its "
                "features are not kept any more (POSTBAYES_VECTOR_DAYS): it stays "
                "what it was learned as; teach newer mail like it instead"
            )
            raise Expired(msg)
        return outcome

    def _taught(
        self, live: LiveProfile, outcome: Outcome, before: Verdict | None
    ) -> Taught:
        row = outcome.row
        return Taught(
            outcome=outcome,
            revision=live.snapshot.revision if row is None else row.revision,
            before=before,
            labels=live.row.labels,
        )

    def _as_scored(
        self, live: LiveProfile, raw: bytes, arrived: Observation
    ) -> Observation:
        """Return what was scored of a message, if its headers say which it was."""
        for digest in marked_ids(raw):
            try:
                scored_then = self._recall(live, digest)
            except UnknownMessage:
                continue
            if is_same_message(scored_then, arrived):
                return scored_then
        return arrived

    def _recall(self, live: LiveProfile, digest: bytes) -> Observation:
        """Return what was seen of a message when it was scored or taught."""
        if self._recent is not None:
            observation = self._recent.get(live.row.id, digest)
            if observation is not None:
                return observation
        with reading(self._engine) as connection:
            stored: LedgerRow | ScoredRow | None = ledger.latest(
                connection, live.row.id, digest
            )
            if stored is None or stored.vector is None:
                stored = scored.get(connection, live.row.id, digest)
        if stored is None or stored.vector is None:
            msg = (
                f"nothing is kept of a message {digest.hex()}: it was not scored "
                "here, or too long ago; send the message itself"
            )
            raise UnknownMessage(msg)
        return Observation(
            stored.digest,
            stored.feature_set,
            decode(stored.vector),
            {} if stored.encoded_names is None else decode_names(stored.encoded_names),
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


def scores_for_ledger(verdict: Verdict) -> Mapping[str, object]:
    """Return what the ledger keeps of the score before learning.

    It is what live figures and a later fusion of the views need: the
    decision, its log-odds, and each classifier's log-odds with the number of
    features that it rests on.
    """
    return {
        "decision": verdict.decision,
        "log_odds": verdict.log_odds,
        "views": {
            name: {"log_odds": view.log_odds, "features": view.features}
            for name, view in verdict.views.items()
        },
    }
