"""Query parameters."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query
from pydantic import BaseModel, ConfigDict

from app.doors.documents.verdict import MAX_EXPLAINED
from app.ledger.entry import MAX_SOURCE, PRINTABLE

# RFC 5321 section 4.5.3.1.8 has a server take 100; Postfix sends 50 at once
# (default_destination_recipient_limit).
MAX_QUERIED: Final = 100
ProfileName = Annotated[
    str | None,
    Query(
        description="Name of the profile. Where it is not given, the recipients' "
        "answers, and without recipients that of POSTBAYES_PROFILE."
    ),
]
Recipient = Annotated[
    list[str],
    Query(
        max_length=MAX_QUERIED,
        description="Who receives the message, an address or a user's name; may be "
        "repeated.",
    ),
]
Explain = Annotated[
    int,
    Query(
        ge=0,
        le=MAX_EXPLAINED,
        description="How many reasons to explain with, of each side.",
    ),
]
Label = Annotated[
    str | None, Query(description="What the message was: a label of the profile.")
]
Source = Annotated[
    str | None,
    Query(
        max_length=MAX_SOURCE,
        pattern=PRINTABLE,
        description="Who teaches it; kept in the ledger.",
    ),
]


class ClassifyQuery(BaseModel):
    """The query of `/classify`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: ProfileName = None
    recipient: Recipient = []
    explain: Explain = 10


class FeedbackQuery(BaseModel):
    """The query of `/feedback`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: Label = None
    profile: ProfileName = None
    recipient: Recipient = []
    source: Source = None
