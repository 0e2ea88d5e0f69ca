"""Documents of verdicts: explanations, and a message with its shading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field

from app.bayes.posterior import finite
from app.classifier.explain import title
from app.classifier.verdict import Action, Decision  # noqa: TC001  pydantic reads them
from app.doors.documents import AnswerDocument, OfProfileOut
from app.services.delivery import Delivered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.classifier.specification import Specification
    from app.classifier.verdict import Verdict
    from app.kernels import Floats
    from app.services.classify import Classified
    from app.services.inspection import Inspected

Nats = Annotated[
    Annotated[float, AfterValidator(finite)] | None,
    Field(description="In nats; null for -∞."),
]


class ViewOut(AnswerDocument):
    """The result of one naive Bayes classifier."""

    event_model: str
    """Its event model, such as `multinomial`."""
    log_posterior: dict[str, Nats]
    """Log-posterior of each label, in nats."""
    log_odds: Nats = Field(description="Spam against the rest, in nats.")
    features: int
    """Features of the message that were seen before."""


class VerdictOut(AnswerDocument):
    """A decision with its numbers."""

    decision: Decision
    """What the filter says: `spam`, `ham`, or `unsure` between the thresholds and while
    it knows too little.
    """
    label: str
    """The most probable label."""
    probability: float
    """Probability of spam."""
    log_odds: Nats = Field(description="Spam against the rest, in nats.")
    log_posterior: dict[str, Nats]
    """Log-posterior of each label, in nats."""
    views: dict[str, ViewOut]
    """The verdict of each naive Bayes classifier, by name."""


def verdict_fields(verdict: Verdict, specification: Specification) -> dict[str, object]:
    """Return the fields of a `VerdictOut`, in its order.

    Classifiers without weight in the verdict are left out: a Gaussian that fits badly
    may be at -1e9 nats.
    """
    labels, rule = specification.labels, specification.verdict
    return {
        "decision": verdict.decision,
        "label": labels[verdict.label],
        "probability": verdict.probability,
        "log_odds": verdict.log_odds,
        "log_posterior": by_label(labels, verdict.log_posterior),
        "views": {
            name: {
                "event_model": view.event_model,
                "log_posterior": by_label(labels, view.log_posterior),
                "log_odds": view.log_odds,
                "features": view.features,
            }
            for name, view in verdict.views.items()
            if name in rule.classifiers
        },
    }


def by_label(labels: Iterable[str], values: Floats) -> dict[str, float]:
    """Return numbers by the labels, or other names, that they belong to."""
    return dict(zip(labels, values.tolist(), strict=True))


class PartOut(AnswerDocument):
    """One feature of a reason."""

    feature: str
    """The text of the feature, with the place where it stood before a colon; `#` and
    its id where the text is not kept.
    """
    view: str
    """The view of the feature."""
    log_odds: float
    """What it adds, in nats."""
    messages: dict[str, int]
    """Learned messages of each label that hold it."""


class EntryOut(AnswerDocument):
    """One summand of the log-odds."""

    kind: Literal["prior", "reason", "rest"]
    """`prior`: the class prior with the bias of the fusion; `reason`: features that a
    person sees as one, or an entry of the lists or a correspondent; `rest`: the
    features of all reasons that are not listed.
    """
    text: str
    """The adjacent words, the header, the domain of the links, the list entry or the
    correspondent; `(prior)` or `(rest)`.
    """
    family: str | None
    """The family of the reason, `list` or `people` for lists and correspondents; null
    for the prior and the rest.
    """
    log_odds: float
    """Nats that the entry adds; positive is evidence of spam."""
    features: int
    """Number of features of the entry; 0 for lists and correspondents."""
    messages: dict[str, int]
    """For the prior: learned messages of each label."""
    parts: list[PartOut]
    """The strongest features of the reason, three at most."""

    @property
    def title(self) -> str:
        """The text as a person reads it."""
        return title(self.text, self.family, [part.feature for part in self.parts])


class IdentifiedOut(AnswerDocument):
    """A document that begins with the id of a message."""

    id: str
    """Teach the message by this id."""


class RecipientOut(OfProfileOut):
    """The answer for one recipient."""

    decision: Decision
    """What the filter says: `spam`, `ham`, or `unsure` between the thresholds and while
    it knows too little.
    """
    action: Action
    """The action that its policy requests from a mail server."""
    probability: float
    """Probability of spam."""
    log_odds: Nats = Field(description="Spam against the rest, in nats.")


class LevelOut(AnswerDocument):
    """The part of one level in a verdict."""

    profile: str
    """The profile."""
    messages: dict[str, int]
    """Messages that it has learned, by label."""
    weight: int
    """Weight of each of these messages."""
    log_odds: Nats = Field(description="Nats that they add.")


# pydantic takes the fields of the last base first: the id stands first.
class ClassifyOut(VerdictOut, IdentifiedOut):
    """The answer of `/classify`."""

    action: Action
    """The action that the policy of the profile requests from a mail server: `none`,
    `add header`, `quarantine` or `reject`. With several recipients, a message is held
    or rejected only if the policy of each recipient says so.
    """
    families: dict[str, float]
    """Subtotals of the words, pairs, headers, links and so on, of the lists (`list`)
    and correspondents (`people`), and of the prior, the strongest first. They sum to
    the log-odds.
    """
    explanation: list[EntryOut]
    """The prior, lists and correspondents, the strongest reasons on the side of the
    verdict, those on the other side, and the rest. Their log_odds sum to that of the
    verdict.
    """
    explained_pct: float | None
    """Share of the log-odds that the listed reasons add, in per cent; more than 100 if
    the rest contradicts them. Null for *unsure*.
    """
    profile: str
    """The profile that answered."""
    levels: list[LevelOut]
    """For a profile that backs off: the part of each level, the most personal first.
    Their log_odds, with those of lists and correspondents, sum to that of the verdict.
    """
    revision: int
    """The latest ledger row that was learned."""
    defects: list[str]
    """Defects of the message."""
    recipients: dict[str, RecipientOut]
    """The answer for each `?recipient=`, by the profile of the recipient."""

    @classmethod
    def of(cls, delivered: Delivered) -> Self:
        """Return the document of an answer, with the answers of its recipients."""
        return cls.model_validate(answer_fields(delivered))


def answer_fields(delivered: Delivered) -> dict[str, object]:
    """Return the fields of a `ClassifyOut`, in its order."""
    classified = delivered.classified
    explanation = classified.explanation
    return {
        "id": classified.observation.id,
        **verdict_fields(classified.verdict, classified.specification),
        "action": delivered.action,
        "families": explanation.families,
        "explanation": explanation.summands,
        "explained_pct": explained_pct(classified),
        "profile": classified.profile,
        "levels": classified.levels,
        "revision": classified.revision,
        "defects": classified.observation.defects,
        "recipients": {
            address: _recipient_fields(answer)
            for address, answer in delivered.recipients.items()
        },
    }


def explained_pct(classified: Classified) -> float | None:
    """Return the share of the listed reasons in the log-odds, in per cent."""
    share = classified.explanation.share
    if share is None or classified.verdict.decision == "unsure":
        return None
    # It may be -0.0 if no reason is listed.
    return 100.0 * share + 0.0


def _recipient_fields(classified: Classified) -> dict[str, object]:
    verdict = classified.verdict
    return {
        "profile": classified.profile,
        "decision": verdict.decision,
        "action": classified.action,
        "probability": verdict.probability,
        "log_odds": verdict.log_odds,
    }


MAX_EXPLAINED: Final = 1000
"""Most reasons of each side in an explanation."""


class FeatureHereOut(PartOut):
    """One feature at one of its places."""

    places: int
    """Number of its places in the message; each adds the same part of its log_odds."""


class SegmentOut(AnswerDocument):
    """A run of text with its contribution."""

    text: str
    """The text."""
    log_odds: float
    """Nats that its features add here."""
    shade: int = Field(ge=-3, le=3)
    """Strength of its features relative to the strongest of the message, in steps;
    positive is evidence of spam, and 0 hardly counts.
    """
    features: list[FeatureHereOut]
    """The strongest of its features; empty if `shade` is 0."""


class PassageOut(AnswerDocument):
    """A header, a text, a link or a file of a message."""

    kind: Literal["header", "text", "link", "file"]
    """The kind of the passage."""
    name: str
    """For a header, its name; for a text, its place: `plain`, `html`, `alternative`,
    `attached`, `alt` (stands in for an image) or `hidden` (no reader sees it); for a
    link, its HTML element; for a file, its type.
    """
    log_odds: float
    """Nats that the passage adds."""
    segments: list[SegmentOut]
    """The segments, which joined are the whole text."""


class AttachmentOut(AnswerDocument):
    """A file of a message, which nobody opened."""

    name: str
    """Its name; empty if it has none."""
    media_type: str
    """Its declared media type."""
    bytes: int
    """Its decoded size."""
    kind: str
    """Its type by its first bytes, such as `zip`; else empty."""


class MessageOut(ClassifyOut):
    """The answer of `/message`."""

    passages: list[PassageOut]
    """The message as the filter reads it, in order. The passages, `elsewhere` and
    `prior` sum to the log-odds.
    """
    elsewhere: dict[str, float]
    """Nats that features without a place add, by view, such as whole addresses; and the
    lists (`list`) and correspondents (`people`).
    """
    prior: Nats = Field(
        description="Nats that the class prior and the bias of the fusion add."
    )
    tricks: list[str]
    """Tricks with characters: `invisible`, `bidi`, `mixed` scripts and `spaced`
    letters.
    """
    attachments: list[AttachmentOut]
    """The files of the message, which are listed but not opened."""


def message_fields(found: Inspected) -> dict[str, object]:
    """Return the fields of a `MessageOut`, in its order."""
    shading = found.shading
    return {
        **answer_fields(Delivered.of(found.classified)),
        "passages": [
            {name: getattr(passage, name) for name in PassageOut.model_fields}
            for passage in shading.passages
        ],
        "elsewhere": shading.elsewhere,
        "prior": shading.prior,
        "tricks": found.tricks,
        "attachments": [
            {
                "name": part.filename,
                "media_type": part.media_type,
                "bytes": part.size,
                "kind": part.kind,
            }
            for part in found.attachments
        ],
    }
