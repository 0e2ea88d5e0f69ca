"""Documents of feedback and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from app.doors.documents import AnswerDocument
from app.doors.documents.figures import ErrorsOut
from app.doors.documents.message import TextIn
from app.doors.documents.verdict import VerdictOut, verdict_fields
from app.ledger.entry import MAX_SOURCE, PRINTABLE, UNDO_PREFIX

if TYPE_CHECKING:
    from app.services.feedback import Taught
    from app.services.undo import Undone


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
        description="Who teaches it; kept in the ledger.",
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
    outcome, before = taught.outcome, taught.verdict_before
    return {
        "id": outcome.digest.hex(),
        "outcome": outcome.kind,
        "label": outcome.label,
        "label_before": outcome.label_before,
        "revision": taught.revision,
        "score_before": None
        if before is None
        else verdict_fields(before, taught.labels, taught.rule),
    }


MAX_IDS = 1_000
"""Ids in one request; whoever has more of them has a source or a time as well."""
Id = Annotated[str, Field(max_length=64)]


class UndoIn(BaseModel):
    """The teachings to take back: they match everything that is given."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    ids: list[Id] = Field(
        default_factory=list,
        max_length=MAX_IDS,
        description="Ids of messages; none given means any.",
    )
    source: str | None = Field(
        None,
        max_length=MAX_SOURCE,
        pattern=PRINTABLE,
        description="Who taught it, the `source` of `/feedback`; `import:NAME`; or "
        "`undo:7`, to take back an undo.",
    )
    from_: AwareDatetime | None = Field(
        None, alias="from", description="Taught then or later. With a time zone."
    )
    until: AwareDatetime | None = Field(
        None, description="Taught before then. With a time zone."
    )
    dry_run: bool = Field(False, description="Only return what would change.")
    confirm: str | None = Field(
        None,
        max_length=64,
        description="`confirm` of the dry run of the same undo. Needed where more than "
        "20 messages, and 1 % of those learned, would change; what was taught since "
        "the dry run is left.",
    )


class MovedOut(AnswerDocument):
    """Messages that get from one label to another."""

    label_before: str | None = Field(description="Null: not learned.")
    label: str | None = Field(description="Null: not learned.")
    messages: int = Field(description="How many of them.")


class UndoOut(AnswerDocument):
    """What was taken back, or would be."""

    undo: str | None = Field(
        description="Name of the undo: the source by which it can be undone. Null in a "
        "dry run, and where nothing is left to take back."
    )
    dry_run: bool = Field(description="Whether nothing was changed.")
    rows: int = Field(description="Ledger rows that are taken back.")
    undos: list[str] = Field(description="Earlier undos that are taken back.")
    finished: list[str] = Field(
        description="Earlier undos that were left unfinished: they are carried out "
        "first, and may be the same one."
    )
    messages: list[MovedOut] = Field(
        description="Messages whose label changes. A message that somebody else has "
        "labelled since keeps that label."
    )
    summed: dict[str, int] = Field(
        description="Messages of imports, per label: negative where they are taken "
        "back."
    )
    features: int | None = Field(
        description="Features whose counts change; null but in a dry run."
    )
    figures_before: ErrorsOut | None = Field(
        description="The error figures of all scored messages as they are; of a dry "
        "run."
    )
    figures_after: ErrorsOut | None = Field(
        description="And as they would be; of a dry run."
    )
    confirm: str | None = Field(
        description="Token that confirms the undo; of a dry run, and null where none "
        "is needed."
    )
    profile: str = Field(description="The profile of the ledger.")
    revision: int = Field(description="Its newest row.")

    @classmethod
    def of(cls, undone: Undone) -> Self:
        """Return the document of an undo."""
        plan, forecast = undone.plan, undone.forecast
        return cls.describing(
            undone,
            undo=undone.name,
            dry_run=forecast is not None,
            rows=len(plan.revisions),
            undos=[f"{UNDO_PREFIX}{number}" for number in sorted(plan.undo.takes)],
            messages=[
                MovedOut(label_before=before, label=after, messages=messages)
                for (before, after), messages in sorted(
                    plan.messages.items(), key=lambda item: str(item[0])
                )
            ],
            summed=dict(plan.summed),
            features=forecast and forecast.features,
            figures_before=forecast and ErrorsOut.of(forecast.errors_before),
            figures_after=forecast and ErrorsOut.of(forecast.errors_after),
            confirm=forecast and forecast.confirm,
        )
