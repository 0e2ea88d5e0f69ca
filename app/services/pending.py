"""A feedback on its way into the ledger, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import Expired, UnknownMessage
from app.services.recall import answered

if TYPE_CHECKING:
    from concurrent.futures import Future

    from app.classifier.score import Verdict
    from app.services.writer import Written
    from app.storage.teaching import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A feedback on its way into the ledger.

    Parameters
    ----------
    digest : bytes
        Identity of the message.
    answer : Future of Written
        Comes once the row is on disk.  It cannot be cancelled.
    """

    digest: bytes
    answer: Future[Written]

    def taught(self, written: Written) -> Taught:
        """Return the answer as the sender wants it.

        Raises
        ------
        Expired
            If the message was learned too long ago to be changed.
        UnknownMessage
            If it is not there to be forgotten.
        """
        outcome, profile = written.outcome, written.profile
        if outcome.kind == "expired":
            msg = (
                f"message {self.digest.hex()} was learned so long ago that its "
                "features are not kept any more (POSTBAYES_VECTOR_DAYS): it stays "
                "what it was learned as; teach newer mail like it instead"
            )
            raise Expired(msg)
        if outcome.kind == "unknown" and written.before is None:
            msg = (
                f"the profile {profile.row.name!r} has not learned a message "
                f"{self.digest.hex()}; there is nothing to forget"
            )
            raise UnknownMessage(msg)
        row = outcome.row
        return Taught(
            outcome=outcome,
            revision=profile.revision if row is None else row.revision,
            before=written.before,
            labels=profile.row.labels,
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
        return self.taught(answered(self.answer))


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
