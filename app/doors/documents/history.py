"""Documents of what happened: the history, the review and the ledger."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  pydantic reads it at run time
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, Field

from app.bayes.posterior import probability_of
from app.doors.documents import AnswerDocument
from app.doors.documents.verdict import ClassifyOut
from app.ledger.entry import RowKind  # noqa: TC001  pydantic reads it at run time
from app.services.delivery import Delivered

if TYPE_CHECKING:
    from app.ledger.history import Place
    from app.services.history import HistoryEntry, MessageHistory
    from app.services.inspection import LedgerPage

Door = Literal["http", "milter", "spamd", "rspamd"]
Decision = Literal["spam", "ham", "unsure"]


class LineReasonOut(AnswerDocument):
    """One of the strongest reasons of a verdict."""

    text: str = Field(description="The words, the header, or the domain of the links.")
    log_odds: float = Field(description="What it added, in nats.")


class HistoryEntryOut(AnswerDocument):
    """One verdict, and what is known of its message now."""

    id: str = Field(description="The id of the message, which teaches it.")
    time: datetime = Field(description="When it was scored, in UTC.")
    door: Door = Field(description="What asked for the verdict.")
    decision: Decision = Field(description="The decision of that time.")
    probability: float | None = Field(
        description="Probability of spam of that time; null where it is not defined."
    )
    log_odds: float | None = Field(
        description="Spam against the rest at that time, in nats; null where infinite."
    )
    size: int = Field(description="Bytes of the message.")
    features: int = Field(description="Features of the message.")
    unseen: int = Field(description="Those that the profile had never seen.")
    sender: str | None = Field(
        description="Its header From, with control characters as escapes; this and the "
        "texts below are null where POSTBAYES_STORE_WORDS is off."
    )
    subject: str | None = Field(description="Its header Subject.")
    recipients: str | None = Field(
        description="Recipients of this profile as the mail server named them; else "
        "its header To."
    )
    envelope: str | None = Field(
        description="Sender of the SMTP envelope, where the door knows it."
    )
    reasons: list[LineReasonOut] | None = Field(
        description="The strongest reasons of that time; null where no explanation was "
        "asked for: `/history/{id}` then explains the message by what is learned now."
    )
    label: str | None = Field(
        description="What the message is taught as now; null: it is not."
    )
    source: str | None = Field(description="Who taught it last, or took that back.")
    teachable: bool = Field(description="Whether its id suffices to teach it.")
    worth: float = Field(
        description="What teaching it is worth, from 0 to 2: 4p(1 - p) times 1 and the "
        "share of its features that were new."
    )

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


class HistoryOut(BaseModel):
    """The answer of `/history`."""

    profile: str = Field(description="The profile that answered.")
    entries: list[HistoryEntryOut] = Field(description="Verdicts, newest first.")
    before: str | None = Field(
        description="Where to go on: the `before` of the next request; null where "
        "there is no more. A search looks at 20,000 verdicts, and may go on though it "
        "found none."
    )

    @classmethod
    def found(
        cls, profile: str, entries: list[HistoryEntry], before: Place | None
    ) -> Self:
        """Return the document of a page."""
        return cls(
            profile=profile,
            entries=[HistoryEntryOut.of(entry) for entry in entries],
            before=None if before is None else cursor(before),
        )


class TaughtOut(AnswerDocument):
    """One row of the ledger about a message."""

    revision: int = Field(description="Number of the row.")
    time: datetime = Field(description="When it was written, in UTC.")
    label_before: str | None = Field(
        description="What the message was before; null: not learned."
    )
    label: str | None = Field(description="What it became; null: not learned.")
    source: str = Field(description="Who taught it.")


class MessageHistoryOut(BaseModel):
    """The answer of `/history/{id}`."""

    id: str = Field(description="The id of the message.")
    profile: str = Field(description="The profile that answered.")
    entries: list[HistoryEntryOut] = Field(
        description="Its newest verdicts, 20 at most; none where it was taught only, "
        "or where they are older than POSTBAYES_HISTORY_DAYS."
    )
    taught: list[TaughtOut] = Field(description="What was taught of it, oldest first.")
    now: ClassifyOut | None = Field(
        description="The verdict by what is learned now, which may be the message "
        "itself; null where its features are no longer stored."
    )

    @classmethod
    def found(
        cls,
        profile: str,
        digest: bytes,
        entries: list[HistoryEntry],
        stored: MessageHistory,
    ) -> Self:
        """Return the document of a message."""
        return cls(
            id=digest.hex(),
            profile=profile,
            entries=[HistoryEntryOut.of(entry) for entry in entries],
            taught=[TaughtOut.describing(row) for row in stored.rows],
            now=stored.now and ClassifyOut.of(Delivered.of(stored.now)),
        )


class ReviewOut(BaseModel):
    """The answer of `/review`."""

    profile: str = Field(description="The profile that answered.")
    entries: list[HistoryEntryOut] = Field(
        description="Messages that nobody taught, *unsure* ones first, and then by "
        "their `worth`."
    )


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


class LedgerRowOut(AnswerDocument):
    """One row of the ledger."""

    revision: int = Field(description="Its number: rows are counted up.")
    time: datetime = Field(description="When it was written, in UTC.")
    id: str | None = Field(
        description="The id of the message; null for a sum of many messages that were "
        "counted elsewhere."
    )
    kind: RowKind = Field(
        description="`message`, or `sum`: many messages of an import, or pruned "
        "features."
    )
    label_before: str | None = Field(
        description="What the message was before; null: not learned."
    )
    label: str | None = Field(description="What it became; null: not learned.")
    source: str = Field(description="Who taught it.")
    undo: str | None = Field(
        description="The undo that wrote the row; null: it was taught."
    )
    taken_back: bool = Field(description="Whether an undo in force takes it back.")


class LedgerOut(AnswerDocument):
    """Some rows of a ledger, newest first."""

    profile: str = Field(description="The profile of the ledger.")
    rows: list[LedgerRowOut] = Field(description="The rows.")
    next: int | None = Field(
        description="What to ask for with `before` next; null: these are the last."
    )
    unfinished: int = Field(
        description="Changes of recorded undos that the service has still to carry out."
    )

    @classmethod
    def of(cls, found: LedgerPage) -> Self:
        """Return the document of some rows."""
        return cls.describing(
            found,
            rows=[
                LedgerRowOut.describing(
                    row,
                    id=row.digest.hex() if row.kind == "message" else None,
                    undo=None if row.undo is None else f"undo:{row.undo}",
                    taken_back=row.revision in found.taken_back,
                )
                for row in found.rows
            ],
        )
