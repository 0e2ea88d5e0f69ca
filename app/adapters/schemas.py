"""What goes over the wire? The JSON documents of the HTTP door and `--json`."""

from __future__ import annotations

import math
import re
from datetime import datetime  # noqa: TC003  pydantic reads it at run time
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from app.errors import InvalidInput
from app.mail.compose import compose
from app.storage.entry import OWN
from app.storage.prune import SOURCE as PRUNED
from app.storage.undos import PREFIX as UNDONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from app.classifier.explain import Entry
    from app.classifier.score import Verdict
    from app.services.classify import Classified
    from app.services.feedback import Taught

PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
"""Text of one line; PostgreSQL takes no NUL."""

MAX_SOURCE = 64

_SOURCE = re.compile(PRINTABLE)

# What is undone or audited by its source must not be mixed with what a person
# said under the same name.
_RESERVED: Final = (OWN, PRUNED)
_RESERVED_PREFIXES: Final = (UNDONE, "import:")


def check_source(source: str) -> None:
    """Raise if the ledger cannot keep who says so.

    Raises
    ------
    InvalidInput
        If it is empty, too long, or not printable text of one line.
    """
    printable = _SOURCE.match(source) and source.isprintable()
    if not printable or len(source) > MAX_SOURCE:
        msg = (
            f"a source is 1 to {MAX_SOURCE} printable characters, such as a user's "
            f"name; got {source[:MAX_SOURCE]!r}"
        )
        raise InvalidInput(msg)
    if source in _RESERVED or source.startswith(_RESERVED_PREFIXES):
        msg = (
            f"the source {source!r} stands for what the filter does itself; give "
            "another name, such as a user's"
        )
        raise InvalidInput(msg)


_NOBODY: Final[Mapping[str, Classified]] = MappingProxyType({})

Nats = Annotated[float | None, Field(description="Natural-log units; null for -∞.")]


class TextIn(BaseModel):
    """A message as JSON: whole in `message`, or as the fields of a form."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    message: str | None = Field(
        None, description="The whole message, RFC 5322, as text. Excludes the rest."
    )
    subject: str | None = Field(None, description="The subject of the form or comment.")
    from_: str | None = Field(
        None,
        alias="from",
        description="The sender, as `Name <address>` or an address.",
    )
    to: str | None = Field(None, description="The recipient.")
    reply_to: str | None = Field(
        None, description="Where answers go, if not to the sender."
    )
    body: str | None = Field(None, description="The text.")
    html: str | None = Field(None, description="The text once more, as HTML.")

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

    def mixed(self) -> bool:
        """Tell whether both forms were used at once."""
        fields = self.model_fields_set & {
            "subject",
            "from_",
            "to",
            "reply_to",
            "body",
            "html",
        }
        return self.message is not None and bool(fields)


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


class ViewOut(BaseModel):
    """What one naive Bayes classifier says by itself."""

    event_model: str = Field(description="Its event model, such as `multinomial`.")
    log_posterior: dict[str, Nats] = Field(
        description="Log-posterior of each label, in nats."
    )
    log_odds: Nats = Field(description="Spam against the rest, in nats.")
    features: int = Field(description="Features of the message seen before.")


class VerdictOut(BaseModel):
    """A decision with its numbers."""

    decision: Literal["spam", "ham", "unsure"] = Field(
        description="What the filter says: `spam`, `ham`, or `unsure` between the "
        "thresholds and while it knows too little."
    )
    label: str = Field(description="The most probable label.")
    probability: float = Field(description="Probability of spam.")
    log_odds: Nats = Field(description="Spam against the rest, in nats.")
    log_posterior: dict[str, Nats] = Field(
        description="Log-posterior of each label, in nats."
    )
    views: dict[str, ViewOut] = Field(
        description="The naive Bayes classifiers by themselves, by name."
    )

    @classmethod
    def of(cls, verdict: Verdict, labels: tuple[str, ...]) -> Self:
        """Return the document of a verdict."""
        return cls(**verdict_fields(verdict, labels))


class EntryOut(BaseModel):
    """One summand of the log-odds."""

    kind: Literal["prior", "feature", "rest"] = Field(
        description="The class prior with the bias of the fusion, one feature, or all "
        "features that are not listed."
    )
    feature: str = Field(
        description="The text of the feature, with the place where it stood before a "
        "colon; `#` and its id where the text is not kept; `(prior)` or `(rest)`."
    )
    view: str | None = Field(description="The view of the feature; null for the prior.")
    log_odds: float = Field(
        description="What the entry adds, in nats; positive speaks for spam."
    )
    features: int = Field(description="How many features stand behind the entry.")
    messages: dict[str, int] = Field(
        description="Learned messages of each label that hold the feature."
    )

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """Return the document of an entry."""
        return cls(
            kind=entry.kind,
            feature=entry.feature,
            view=entry.view,
            log_odds=entry.log_odds,
            features=entry.features,
            messages=dict(entry.messages),
        )


class IdentifiedOut(BaseModel):
    """What begins with the id of a message."""

    id: str = Field(description="Teach the message by this id.")


class RecipientOut(BaseModel):
    """The answer for one recipient."""

    profile: str = Field(description="The profile that answered.")
    decision: Literal["spam", "ham", "unsure"] = Field(
        description="What the filter says: `spam`, `ham`, or `unsure` between the "
        "thresholds and while it knows too little."
    )
    probability: float = Field(description="Probability of spam.")
    log_odds: Nats = Field(description="Spam against the rest, in nats.")

    @classmethod
    def of(cls, classified: Classified) -> Self:
        """Return the document of an answer."""
        verdict = classified.verdict
        return cls(
            profile=classified.profile,
            decision=verdict.decision,
            probability=verdict.probability,
            log_odds=_finite(verdict.log_odds),
        )


# pydantic takes the fields of the last base first: the id stands first.
class ClassifyOut(VerdictOut, IdentifiedOut):
    """The answer of `/classify`."""

    explanation: list[EntryOut] = Field(
        description="Entries whose log_odds sum to that of the verdict."
    )
    profile: str = Field(description="The profile that answered.")
    revision: int = Field(description="The ledger row that was learned last.")
    defects: list[str] = Field(description="What was wrong with the message.")
    recipients: dict[str, RecipientOut] = Field(
        description="The answer for each `?recipient=`, of the profile that is theirs."
    )

    @classmethod
    def of_classified(
        cls, classified: Classified, recipients: Mapping[str, Classified] = _NOBODY
    ) -> Self:
        """Return the document of an answer, and of those to its recipients."""
        return cls(
            **verdict_fields(classified.verdict, classified.labels),
            id=classified.observation.id,
            explanation=[EntryOut.of(entry) for entry in classified.explanation],
            profile=classified.profile,
            revision=classified.revision,
            defects=list(classified.observation.defects),
            recipients={
                address: RecipientOut.of(answer)
                for address, answer in recipients.items()
            },
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
        description="The verdict on the message before it was learned."
    )

    @classmethod
    def of(cls, taught: Taught) -> Self:
        """Return the document of an outcome."""
        before = taught.before
        return cls(
            id=taught.outcome.digest.hex(),
            outcome=taught.outcome.kind,
            label=taught.outcome.label,
            label_before=taught.outcome.label_before,
            revision=taught.revision,
            score_before=None
            if before is None
            else VerdictOut.of(before, taught.labels),
        )


class ViewStateOut(BaseModel):
    """What one view has learned."""

    features: int = Field(
        description="Distinct features seen in any class, or fields measured."
    )
    occurrences: dict[str, int] = Field(
        description="Occurrences of features per label; empty for measurements."
    )


class ThresholdOut(BaseModel):
    """Where a decision begins, said in two ways."""

    log_odds: float = Field(description="Of spam against the rest, in nats.")
    probability: float = Field(description="The same as a probability of spam.")


class FusionOut(BaseModel):
    """What the views are worth here."""

    weights: dict[str, float] = Field(description="Of each view, by its normaliser.")
    bias: dict[str, float] = Field(description="Added for each label, in nats.")
    fitted_revision: int = Field(description="Up to which ledger row they were fitted.")
    fitted_messages: int = Field(
        description="To how many messages; 0 while the shipped weights stand."
    )


class ProfileOut(BaseModel):
    """One profile: what it is made of and what it has learned."""

    name: str = Field(description="The profile's name.")
    labels: list[str] = Field(description="What its messages can be labelled as.")
    spam_labels: list[str] = Field(
        description="Those of the labels that stand for unwanted mail."
    )
    feature_set: int = Field(
        description="The number of the rules that features are extracted by."
    )
    created_at: datetime = Field(description="When it was made, in UTC.")
    revision: int = Field(
        description="Its newest ledger row that this process has learned."
    )
    messages: dict[str, int] = Field(description="Messages learned, per label.")
    views: dict[str, ViewStateOut] = Field(description="What each view has learned.")
    spam_threshold: ThresholdOut = Field(
        description="From here up the decision is spam."
    )
    ham_threshold: ThresholdOut = Field(
        description="From here down the decision is ham; between the two lies unsure."
    )
    fusion: FusionOut = Field(
        description="What the views are worth, as it follows from what was taught."
    )
    undo_days: float | None = Field(
        description="Days for which what was taught can be undone, moved or "
        "forgotten; null: for ever."
    )


class ProblemOut(BaseModel):
    """An error, RFC 9457."""

    type: str = Field(description="A URN that programs tell the kind of problem by.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong and what to do about it.")


def verdict_fields(verdict: Verdict, labels: tuple[str, ...]) -> dict[str, object]:
    """Return the fields that every verdict document has."""
    return {
        "decision": verdict.decision,
        "label": labels[verdict.label],
        "probability": verdict.probability,
        "log_odds": _finite(verdict.log_odds),
        "log_posterior": _by_label(labels, verdict.log_posterior),
        "views": {
            name: ViewOut(
                event_model=view.event_model,
                log_posterior=_by_label(labels, view.log_posterior),
                log_odds=_finite(view.log_odds),
                features=view.features,
            )
            for name, view in verdict.views.items()
        },
    }


def _finite(value: float) -> float | None:
    """Return None for what JSON has no word for."""
    return value if math.isfinite(value) else None


def _by_label(
    labels: tuple[str, ...], values: NDArray[np.float64]
) -> dict[str, float | None]:
    return {
        label: _finite(value)
        for label, value in zip(labels, values.tolist(), strict=True)
    }
