"""Documents of the history, the review and the ledger."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  pydantic reads it at run time
from typing import TYPE_CHECKING, Literal, Self

from app.bayes.posterior import probability_of
from app.classifier.verdict import Decision  # noqa: TC001  pydantic reads it
from app.doors.documents import AnswerDocument, OfProfileOut
from app.doors.documents.verdict import ClassifyOut
from app.ledger.entry import RowKind  # noqa: TC001  pydantic reads it at run time,
from app.services.delivery import Delivered

if TYPE_CHECKING:
    from app.classifier.verdict import Place
    from app.services.history import HistoryEntry, MessageHistory
    from app.services.inspection import LedgerPage

Door = Literal["http", "milter", "spamd", "rspamd"]


class LineReasonOut(AnswerDocument):
    """One of the strongest reasons of a verdict."""

    text: str
    """The words, the header, or the domain of the links."""
    log_odds: float
    """Nats that it added."""


class HistoryEntryOut(AnswerDocument):
    """One verdict, and the present state of its message."""

    id: str
    """The id of the message, which can be used to teach it."""
    time: datetime
    """When it was scored, in UTC."""
    door: Door
    """The door through which the verdict was requested."""
    decision: Decision
    """The decision at that time."""
    probability: float | None
    """Probability of spam at that time; null if undefined."""
    log_odds: float | None
    """Spam against the rest at that time, in nats; null if infinite."""
    size: int
    """Size of the message in bytes."""
    features: int
    """Number of features of the message."""
    unseen: int
    """Features that were new to the profile."""
    sender: str | None
    """Its header From, with control characters as escapes; this and the texts below are
    null if POSTBAYES_STORE_WORDS is off.
    """
    subject: str | None
    """Its header Subject."""
    recipients: str | None
    """Recipients of this profile as the mail server gave them; otherwise the header To.
    """
    envelope: str | None
    """Sender of the SMTP envelope, if the door knows it."""
    reasons: list[LineReasonOut] | None
    """The strongest reasons at that time; null if no explanation was requested:
    `/history/{id}` then explains the message with what is learned now.
    """
    label: str | None
    """Label of the message now; null: not taught."""
    source: str | None
    """Source of the latest feedback, or of the undo that took it back."""
    teachable: bool
    """Whether the message can be taught by its id."""
    worth: float
    """Value of teaching the message, from 0 to 2: 4p(1 - p)(1 + s), where s is the
    share of new features.
    """

    @classmethod
    def of(cls, entry: HistoryEntry) -> Self:
        """Return the document of an entry."""
        line, reasons = entry.line, None
        if line.reasons is not None:
            reasons = [
                LineReasonOut(text=text, log_odds=nats) for text, nats in line.reasons
            ]
        odds = line.log_odds
        return cls.describing(
            entry,
            line,
            id=line.digest.hex(),
            probability=None if odds is None else probability_of(odds),
            reasons=reasons,
        )


class HistoryOut(OfProfileOut):
    """The answer of `/history`."""

    entries: list[HistoryEntryOut]
    """Verdicts, newest first."""
    next: str | None
    """The `before` of the next request; null: these are the last. One search examines
    20,000 verdicts, so there can be more even if none was found.
    """

    @classmethod
    def of(
        cls, profile: str, entries: list[HistoryEntry], before: Place | None
    ) -> Self:
        """Return the document of a page."""
        return cls(
            profile=profile,
            entries=[HistoryEntryOut.of(entry) for entry in entries],
            next=None if before is None else cursor(before),
        )


class TaughtOut(AnswerDocument):
    """One row of the ledger about a message."""

    revision: int
    """Its number; later rows have greater numbers."""
    time: datetime
    """When it was written, in UTC."""
    label_before: str | None
    """Label before; null: not learned."""
    label: str | None
    """New label; null: not learned."""
    source: str
    """Who taught it."""


class MessageHistoryOut(AnswerDocument):
    """The answer of `/history/{id}`."""

    id: str
    """The id of the message."""
    profile: str
    """The profile that answered."""
    entries: list[HistoryEntryOut]
    """Its newest verdicts, 20 at most; empty if it was only taught, or if the verdicts
    are older than POSTBAYES_HISTORY_DAYS.
    """
    taught: list[TaughtOut]
    """Its feedback, oldest first."""
    now: ClassifyOut | None
    """The verdict with what is learned now, which may include the message itself; null
    if its features are no longer stored.
    """

    @classmethod
    def of(cls, digest: bytes, stored: MessageHistory) -> Self:
        """Return the document of a message."""
        return cls(
            id=digest.hex(),
            profile=stored.profile,
            entries=[HistoryEntryOut.of(entry) for entry in stored.entries],
            taught=[TaughtOut.describing(row) for row in stored.rows],
            now=stored.now and ClassifyOut.of(Delivered.of(stored.now)),
        )


class ReviewOut(OfProfileOut):
    """The answer of `/review`."""

    entries: list[HistoryEntryOut]
    """Messages that were not taught, *unsure* ones first, and then by `worth`."""


def cursor(place: Place) -> str:
    r"""Return a place in the history as a text without blanks.

    Examples
    --------
    >>> from datetime import UTC
    >>> cursor((datetime(2026, 3, 1, tzinfo=UTC), b"\x01\x02"))
    '20260301T000000.000000-0102'
    """
    time, digest = place
    return f"{time:%Y%m%dT%H%M%S.%f}-{digest.hex()}"


class LedgerRowOut(TaughtOut):
    """One row of a ledger."""

    id: str | None
    """The id of the message; null for a sum of many messages."""
    kind: RowKind
    """`message`; `sum`: many messages of an import, or pruned features; or `note`: what
    a followed site says of a message, which adds nothing.
    """
    undo: str | None
    """The undo that wrote the row; null: feedback."""
    taken_back: bool
    """Whether an undo in force takes it back."""


class LedgerOut(AnswerDocument):
    """Some rows of a ledger, newest first."""

    profile: str
    """The profile of the ledger."""
    rows: list[LedgerRowOut]
    """The rows."""
    next: int | None
    """The `before` of the next request; null: these are the last."""
    unfinished: int
    """Changes of recorded undos that the service has not carried out yet."""

    @classmethod
    def of(cls, found: LedgerPage) -> Self:
        """Return the document of some rows."""
        return cls.describing(
            found,
            rows=[
                LedgerRowOut.describing(
                    row,
                    id=row.digest.hex() if row.kind != "sum" else None,
                    undo=f"undo:{row.undo}" if row.undo else None,
                    taken_back=row.revision in found.taken_back,
                )
                for row in found.rows
            ],
        )
