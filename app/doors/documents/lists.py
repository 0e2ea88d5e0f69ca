"""Documents of the lists of a profile."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  pydantic reads it at run time
from typing import TYPE_CHECKING, Final, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from app.access.lists import (
    MAX_NOTE,
    MAX_VALUE,
    SAYS,
    ListEntry,
    ListKind,
    ListSubject,
)
from app.classifier.verdict import MAX_NATS

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_LISTED_ENTRIES: Final = 1000
"""Entries of one request or answer."""


class ListEntryIn(BaseModel):
    """An entry that is to be set."""

    model_config = ConfigDict(extra="forbid")

    entry: str = Field(
        max_length=MAX_VALUE + 16, description=f"What it is about: {SAYS}."
    )
    nats: float = Field(
        ge=-MAX_NATS,
        le=MAX_NATS,
        description="What it adds to the log-odds: negative nats allow, positive ones "
        "deny.",
    )
    expires_at: AwareDatetime | None = Field(
        default=None, description="When it stops to count; null: never."
    )
    note: str = Field(
        default="", max_length=MAX_NOTE, description="A line for other people."
    )

    def read(self, *, source: str, now: datetime) -> ListEntry:
        """Return the entry that somebody sets now."""
        return ListEntry(
            subject=ListSubject.parse(self.entry),
            nats=self.nats,
            source=source,
            created=now,
            expires=self.expires_at,
            note=self.note,
        )


class ListsIn(BaseModel):
    """Entries that are to be set, all or none."""

    model_config = ConfigDict(extra="forbid")

    entries: list[ListEntryIn] = Field(
        min_length=1,
        max_length=MAX_LISTED_ENTRIES,
        description="The entries; each takes the place of the one about the same.",
    )


class ListEntryOut(BaseModel):
    """An entry."""

    entry: str = Field(description="What it is about, as it can be sent.")
    kind: ListKind = Field(description="Which kind of thing that is.")
    nats: float = Field(
        description="What it adds to the log-odds: negative nats allow, positive ones "
        "deny."
    )
    source: str = Field(description="Who set it.")
    created_at: datetime = Field(description="When it was set.")
    expires_at: datetime | None = Field(description="When it stops to count.")
    note: str = Field(description="A line for other people; else empty.")

    @classmethod
    def of(cls, entry: ListEntry) -> Self:
        """Return the document of an entry."""
        return cls(
            entry=str(entry.subject),
            kind=entry.subject.kind,
            nats=entry.nats,
            source=entry.source,
            created_at=entry.created,
            expires_at=entry.expires,
            note=entry.note,
        )


class ListsOut(BaseModel):
    """Some entries of a profile, by kind and value."""

    entries: list[ListEntryOut] = Field(description="The entries.")
    next: str | None = Field(
        description="The entry to ask for with `after` next; null: these are the last."
    )

    @classmethod
    def of(cls, entries: Sequence[ListEntry], limit: int) -> Self:
        """Return the document of the entries that were found, `limit` at most."""
        listed = [ListEntryOut.of(each) for each in entries]
        full = len(listed) == limit
        return cls(entries=listed, next=listed[-1].entry if full else None)
