"""Documents of feedback and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field

from app.doors.documents import AnswerDocument, Moment, RequestDocument
from app.doors.documents.figures import ErrorsOut
from app.doors.documents.message import TextIn
from app.doors.documents.verdict import VerdictOut, verdict_fields
from app.ledger.entry import MAX_SOURCE, PRINTABLE, UNDO_PREFIX

if TYPE_CHECKING:
    from app.services.feedback import Taught
    from app.services.undo import Undone


class FeedbackIn(TextIn):
    """A feedback as JSON: an id or a message, and a label."""

    id: str | None = None
    """Id that `/classify` returned, instead of the message."""
    label: str | None = None
    """The label of the message."""
    source: str | None = Field(None, max_length=MAX_SOURCE, pattern=PRINTABLE)
    """The source of the feedback, kept in the ledger."""


class FeedbackOut(AnswerDocument):
    """The answer of `/feedback`."""

    id: str
    """The id of the message."""
    outcome: Literal["learned", "unchanged", "relabelled", "forgotten"]
    """`learned`, `relabelled` (moved from another label), `unchanged` (already learned
    with this label), or `forgotten`.
    """
    label: str | None
    """Label of the message now."""
    label_before: str | None
    """Label of the message before."""
    revision: int
    """The ledger row that was written; if nothing changed, the latest one."""
    score_before: VerdictOut | None
    """The verdict on the message before it was learned. In a quick series, it may also
    lack the messages just before.
    """

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
"""Most ids in a request; for more, select by source or time."""
Id = Annotated[str, Field(max_length=64)]


class UndoIn(RequestDocument):
    """The teachings to take back: they match everything that is given."""

    ids: list[Id] = Field(default_factory=list, max_length=MAX_IDS)
    """Ids of messages; none given means any."""
    source: str | None = Field(None, max_length=MAX_SOURCE, pattern=PRINTABLE)
    """Source of the feedback, as in `/feedback`; `import:NAME`; or `undo:7`, to take
    back an undo.
    """
    from_: Moment | None = Field(None, alias="from")
    """Only feedback from this time on. With a time zone."""
    until: Moment | None = None
    """Only feedback before this time. With a time zone."""
    dry_run: bool = False
    """Only return what would change."""
    confirm: str | None = Field(None, max_length=64)
    """`confirm` of the dry run of the same undo. Needed if more than 20 messages and
    more than 1 % of those learned would change; feedback since the dry run is kept.
    """


class MovedOut(AnswerDocument):
    """Messages that get from one label to another."""

    label_before: str | None
    """Null: not learned."""
    label: str | None
    """Null: not learned."""
    messages: int
    """Number of such messages."""


class UndoOut(AnswerDocument):
    """The effect of an undo or of its dry run."""

    undo: str | None
    """Name of the undo: the source by which it can be undone. Null in a dry run, and if
    nothing is left to take back.
    """
    dry_run: bool
    """Whether nothing was changed."""
    rows: int
    """Ledger rows that are taken back."""
    undos: list[str]
    """Earlier undos that are taken back."""
    finished: list[str]
    """Earlier, unfinished undos, which are carried out first; one of them may be this
    undo.
    """
    messages: list[MovedOut]
    """Messages whose label changes. A message that somebody else has labelled since
    keeps that label.
    """
    summed: dict[str, int]
    """Messages of imports, per label: negative where they are taken back."""
    features: int | None
    """Features whose counts change; only in a dry run, else null."""
    figures_before: ErrorsOut | None
    """The current error figures of all scored messages; only in a dry run."""
    figures_after: ErrorsOut | None
    """The error figures after the undo; only in a dry run."""
    confirm: str | None
    """Token that confirms the undo; only in a dry run, and null if none is needed."""
    profile: str
    """The profile whose feedback is taken back."""
    revision: int
    """Its newest row."""

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
