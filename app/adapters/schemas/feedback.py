"""What is taught, and what became of it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, Field

from app.adapters.schemas.message import TextIn
from app.adapters.schemas.source import MAX_SOURCE, PRINTABLE
from app.adapters.schemas.verdict import VerdictOut, verdict_fields

if TYPE_CHECKING:
    from app.services.pending import Taught


class FeedbackIn(TextIn):
    """A feedback as JSON: an id or a message, and a label."""

    id: str | None = Field(
        None, description="Id that `/classify` returned, instead of the message."
    )
    label: str | None = Field(None, description="What the message was.")
    source: str | None = Field(
        None,
        max_length=MAX_SOURCE,
        pattern=PRINTABLE,
        description="Who says so; kept in the ledger.",
    )


class FeedbackOut(BaseModel):
    """The answer of `/feedback`."""

    id: str = Field(description="The id of the message.")
    outcome: Literal["learned", "unchanged", "relabelled", "forgotten"] = Field(
        description="`learned`, `relabelled` (moved from another label), `unchanged` "
        "(it was learned so already), or `forgotten`."
    )
    label: str | None = Field(description="What the message is learned as now.")
    label_before: str | None = Field(description="What it was learned as before.")
    revision: int = Field(
        description="The ledger row that was written; where nothing changed, the "
        "latest one."
    )
    score_before: VerdictOut | None = Field(
        description="The verdict on the message before it was learned. In a quick "
        "series, some of the messages that came just before it are not learned either."
    )

    @classmethod
    def of(cls, taught: Taught) -> Self:
        """Return the document of an outcome."""
        return cls.model_validate(feedback_fields(taught))


def feedback_fields(taught: Taught) -> dict[str, object]:
    """Return the fields of a `FeedbackOut`, in its order."""
    outcome, before = taught.outcome, taught.before
    return {
        "id": outcome.digest.hex(),
        "outcome": outcome.kind,
        "label": outcome.label,
        "label_before": outcome.label_before,
        "revision": taught.revision,
        "score_before": None
        if before is None
        else verdict_fields(before, taught.labels),
    }
