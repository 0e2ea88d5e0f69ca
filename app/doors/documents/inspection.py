"""Documents of a message as the filter reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.doors.documents.verdict import ClassifyOut, Nats, answer_fields
from app.services.delivery import Delivered

if TYPE_CHECKING:
    from app.services.inspection import Inspected


class FeatureHereOut(BaseModel):
    """One feature at one of its places."""

    model_config = ConfigDict(from_attributes=True)

    feature: str = Field(
        description="The text of the feature, with the place where it stood before a "
        "colon; `#` and its id where the text is not kept."
    )
    view: str = Field(description="The view of the feature.")
    log_odds: float = Field(
        description="What it adds in all its places together, in nats."
    )
    places: int = Field(
        description="In how many places of the message it stands; each adds the same "
        "part."
    )
    messages: dict[str, int] = Field(
        description="Learned messages of each label that hold it."
    )


class SegmentOut(BaseModel):
    """A run of text, and what it adds."""

    model_config = ConfigDict(from_attributes=True)

    text: str = Field(description="The text.")
    log_odds: float = Field(description="What its features add here, in nats.")
    shade: int = Field(
        ge=-3,
        le=3,
        description="How strong its features are beside the strongest of the message, "
        "in steps; positive speaks for spam, and 0 hardly counts.",
    )
    features: list[FeatureHereOut] = Field(
        description="The strongest of its features; empty where `shade` is 0."
    )


class PassageOut(BaseModel):
    """A header, a text, a link or a file of a message."""

    model_config = ConfigDict(from_attributes=True)

    kind: Literal["header", "text", "link", "file"] = Field(
        description="What the passage is."
    )
    name: str = Field(
        description="Of a header its name; of a text its place: `plain`, `html`, "
        "`alternative`, `attached`, `alt` (stands in for an image) or `hidden` (no "
        "reader sees it); of a link its HTML element; of a file its media type."
    )
    log_odds: float = Field(description="What the passage adds, in nats.")
    segments: list[SegmentOut] = Field(
        description="The text, segment by segment: joined, they are the whole."
    )


class AttachmentOut(BaseModel):
    """A file of a message, which nobody opened."""

    name: str = Field(description="Its name; empty if it has none.")
    media_type: str = Field(description="Its declared media type.")
    bytes: int = Field(description="Its decoded size.")
    kind: str = Field(
        description="What its first bytes say it is, such as `zip`; else empty."
    )


class MessageOut(ClassifyOut):
    """The answer of `/message`."""

    passages: list[PassageOut] = Field(
        description="The message as the filter reads it, in its order. What the "
        "passages, `elsewhere` and `prior` add is the log-odds."
    )
    elsewhere: dict[str, float] = Field(
        description="View by view, what features without a place add, in nats: the "
        "structure, measurements, addresses as a whole; and by kind (`list`, `people`) "
        "what is stated beside the features."
    )
    prior: Nats = Field(
        description="What the class prior and the bias of the fusion add."
    )
    tricks: list[str] = Field(
        description="Tricks that are played with characters: `invisible`, `bidi`, "
        "`mixed` scripts and `spaced` letters."
    )
    attachments: list[AttachmentOut] = Field(
        description="The files of the message: named, and not opened."
    )


def message_fields(found: Inspected) -> dict[str, object]:
    """Return the fields of a `MessageOut`, in its order."""
    shading = found.shading
    return {
        **answer_fields(Delivered.of(found.classified)),
        "passages": [
            {
                "kind": passage.kind,
                "name": passage.name,
                "log_odds": passage.log_odds,
                "segments": passage.segments,
            }
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
