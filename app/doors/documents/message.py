"""Documents of messages: as JSON, sent, taught, taken back and in batches; problems.

A contact form or a comment is not an RFC 5322 message.  It is composed into one and
then parsed like any other, so there is one path from bytes to features.
"""

from __future__ import annotations

import hashlib
from datetime import datetime  # noqa: TC003  pydantic reads it
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import Field, SkipValidation, model_validator

from app.doors.documents import AnswerDocument, Moment, RequestDocument
from app.doors.documents.figures import ErrorsOut  # noqa: TC001  pydantic reads it
from app.doors.documents.verdict import ClassifyOut, VerdictOut, verdict_fields
from app.ledger.entry import MAX_SOURCE, PRINTABLE, UNDO_PREFIX
from app.services.recipients import MAX_ADDRESS, MAX_RECIPIENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.services.undo import Undone
    from app.services.writer import Taught


class SentIn(RequestDocument):
    """A message that a user of the site has sent."""

    sender: str = Field(max_length=MAX_ADDRESS)
    """The sender: the address, or the login name of the user."""
    recipients: list[str] = Field(min_length=1, max_length=MAX_RECIPIENTS)
    """The envelope's recipients. If there are more than 20, they are ignored."""


class SentOut(AnswerDocument):
    """The correspondents that a sent message counted."""

    counted: int
    """Recipients who are correspondents now; always 0 without POSTBAYES_AUTHSERV_ID."""


class CorrespondentsOut(AnswerDocument):
    """Whom the users of a profile have written to."""

    addresses: int
    """Number of addresses; 1 or 0 if an address was requested."""
    messages: int
    """Messages to these addresses."""
    last: datetime | None
    """Day of the latest message, in UTC; null if there is none."""


class TextIn(RequestDocument):
    """A message as JSON: whole in `message`, or as the fields of a form."""

    message: str | None = None
    """The whole message (RFC 5322) as text, in place of the other fields."""
    subject: str | None = None
    """The subject of the form or comment."""
    from_: str | None = Field(None, alias="from")
    """The sender, as `Name <address>` or an address."""
    to: str | None = None
    """The recipient."""
    reply_to: str | None = None
    """Address for answers, if not the sender."""
    body: str | None = None
    """The text."""
    html: str | None = None
    """The same text as HTML."""

    def raw(self) -> bytes | None:
        """Return the message in bytes; None if there is none."""
        if self.message is not None:
            return self.message.encode("utf-8", "replace")
        headers = {
            "From": self.from_,
            "To": self.to,
            "Reply-To": self.reply_to,
            "Subject": self.subject,
        }
        given = {name: value for name, value in headers.items() if value is not None}
        if not "".join((*given.values(), self.body or "", self.html or "")).strip():
            return None
        return compose(given, self.body or "", self.html)

    @model_validator(mode="after")
    def _in_one_form(self) -> Self:
        form = TextIn.model_fields.keys() - {"message"}
        if self.message is not None and form & self.model_fields_set:
            raise ValueError("send either `message` or the fields of a form, not both")
        return self


class ProblemOut(AnswerDocument):
    """An error, RFC 9457."""

    type: str
    """A URN for the type of problem, for programs."""
    title: str
    """The status in words."""
    status: int
    """The HTTP status."""
    detail: str
    """The problem, and what to do about it."""


def compose(headers: Mapping[str, str], text: str, html: str | None = None) -> bytes:
    """Return the raw message of some headers and a body.

    Parameters
    ----------
    headers : mapping of str to str
        Header values by name.  Line ends in a value become spaces, so the text of a
        form cannot add a header.
    html : str, optional
        The same body in HTML; the message is then multipart/alternative.

    Returns
    -------
    bytes
        A message in UTF-8 with LF line ends.

    Examples
    --------
    >>> compose({"Subject": "Hello"}, "How are you?").splitlines()[0]
    b'Subject: Hello'
    """
    lines = [f"{name}: {' '.join(value.split())}" for name, value in headers.items()]
    lines.append("MIME-Version: 1.0")
    bodies = {"plain": text} | ({} if html is None else {"html": html})
    parts = [
        f"Content-Type: text/{kind}; charset=utf-8\n\n{body}"
        for kind, body in bodies.items()
    ]
    if html is None:
        lines += parts
    else:
        # A digest of the bodies does not occur in them unless the hash is broken. A
        # search for an unused boundary could be prolonged by a sender at will.
        digest = hashlib.blake2b((text + html).encode("utf-8", "replace"))
        boundary = f"=_{digest.hexdigest()[:32]}"
        lines += [f'Content-Type: multipart/alternative; boundary="{boundary}"', ""]
        lines += [f"--{boundary}\n{part}" for part in parts]
        lines += [f"--{boundary}--", ""]
    # JSON can contain a lone surrogate, which cannot be encoded.
    return "\n".join(lines).encode("utf-8", "replace")


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
        else verdict_fields(before, taught.profile.specification),
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
        plan = undone.plan
        return cls.describing(
            undone,
            undo=undone.name,
            dry_run=undone.features is not None,
            rows=len(plan.undo.revisions),
            undos=[f"{UNDO_PREFIX}{number}" for number in sorted(plan.undo.takes)],
            messages=[
                MovedOut(label_before=before, label=after, messages=messages)
                for (before, after), messages in sorted(
                    plan.messages.items(), key=lambda item: str(item[0])
                )
            ],
            summed=dict(plan.summed),
        )


# An entry takes some 0.4 kB, so the entries of a message take 4 kB, and those of a
# batch 4 MB.
MAX_BATCH_EXPLAINED: Final = 5
# A body of at most 8 MiB of JSON has 8 kB for each message. Precedent: batchModify of
# Gmail's API takes 1,000 messages.
MAX_MESSAGES: Final = 1000


class BatchIn(RequestDocument):
    """Messages as JSON, each of which is looked at by itself."""

    # Validated one by one: an invalid message does not affect the others.
    messages: list[SkipValidation[TextIn]] = Field(
        description=f"The messages, {MAX_MESSAGES:,} at most, each with the fields of "
        "the JSON of `/classify`."
    )


class ResultOut(AnswerDocument):
    """The result for one message."""

    answer: ClassifyOut | None
    """The answer of `/classify`; null if the message cannot be used."""
    problem: ProblemOut | None
    """The problem of the message, as from `/classify`; else null."""


class BatchOut(AnswerDocument):
    """The answer of `/classify/batch`."""

    results: list[ResultOut]
    """One result for each message, in the same order."""
