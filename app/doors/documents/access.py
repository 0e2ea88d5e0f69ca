"""Documents of access: keys, people, events, and allow and deny lists."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  pydantic reads it at run time
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import AfterValidator, Field

from app.access.lists import MAX_NOTE, MAX_VALUE, SAYS, ListEntry, ListKind, ListSubject
from app.access.rights import MAX_NAME, ROLES, Right
from app.classifier.verdict import MAX_NATS
from app.doors.documents import AnswerDocument, Moment, RequestDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.access.rights import AuditEvent


class KeyIn(RequestDocument):
    """A key that is to be made."""

    name: str = Field(max_length=MAX_NAME)
    """Name of the key; its source in the ledger is `key:` and the name."""
    rights: list[Right] = Field(min_length=1)
    """Its rights."""
    profiles: list[str] = Field(default=[])
    """The profiles that it may use; `@example.org` means the profile of the domain and
    those of its addresses. Empty: all.
    """
    labels: list[str] = Field(default=[])
    """The labels that it may teach. Empty: all."""
    networks: list[str] = Field(default=[])
    """Addresses and networks that it may be used from. Empty: any."""
    names_sources: bool = False
    """Whether it may set the `source` of feedback, as a mail server that knows its
    users does.
    """
    expires_at: Moment | None = None
    """When it expires; null: never."""


Sorted = Annotated[list[str], AfterValidator(sorted)]


class KeyOut(AnswerDocument):
    """A key, without its text."""

    name: str
    """Its name."""
    rights: Sorted
    """Its rights."""
    profiles: Sorted | None
    """The profiles that it may use; null: all."""
    labels: Sorted | None
    """The labels that it may teach; null: all."""
    networks: list[str]
    """Addresses and networks that it may be used from; empty: any."""
    names_sources: bool
    """Whether it may set the `source` of feedback."""
    created_at: datetime
    """When it was created."""
    expires_at: datetime | None
    """When it expires; null: never."""
    last_used_at: datetime | None
    """When it was last used, to the minute; up to two minutes late."""
    revoked_at: datetime | None
    """When it was revoked."""


class CreatedKeyOut(KeyOut):
    """A key that was just made."""

    key: str
    """The key itself, which is shown only once."""


class KeysOut(AnswerDocument):
    """All keys."""

    keys: list[KeyOut]
    """The keys in the order of their names, including revoked ones."""


class PersonIn(RequestDocument):
    """A new person."""

    name: str = Field(max_length=MAX_NAME)
    """Name to sign in with; in the ledger, the source is `user:` and the name."""
    role: str = Field(max_length=MAX_NAME, description=f"One of {', '.join(ROLES)}.")
    password: str | None = None
    """Null: a proxy or a provider signs them in."""
    profile: str | None = None
    """The only profile that they can see; null: all."""


class PasswordIn(RequestDocument):
    """A change of the client's own password."""

    password: str
    """The present one."""
    new_password: str
    """The new password, of 8 characters or more."""


class PasswordResetIn(RequestDocument):
    """Another password of somebody."""

    password: str
    """8 characters or more."""


class PersonOut(AnswerDocument):
    """A person who can sign in, without the password."""

    name: str
    """Name to sign in with."""
    role: str
    """Their role."""
    profile: str | None
    """The only profile that they can see; null: all."""
    has_password: bool
    """Whether they sign in with a password; otherwise a proxy or a provider signs them
    in.
    """
    created_at: datetime
    """When they were added."""


class PeopleOut(AnswerDocument):
    """The people who can sign in."""

    people: list[PersonOut]
    """The people in the order of their names."""


class EventOut(AnswerDocument):
    """An administrative event."""

    id: int
    """Its number; later events have greater numbers."""
    time: datetime
    """When."""
    who: str
    """The principal: `key:NAME`, `user:NAME`, `http` for a client without a key, or
    `cli:USER`.
    """
    act: str
    """What was done."""
    object: str
    """The key, the person or the profile."""
    details: dict[str, Any] | None
    """Further details; null: none."""


class EventsOut(AnswerDocument):
    """Some events, the newest first."""

    events: list[EventOut]
    """The events."""
    next: int | None
    """The `before` of the next request; null: these are the oldest."""

    @classmethod
    def of(cls, events: Sequence[AuditEvent], limit: int) -> Self:
        """Return the document of `limit` events at most; a further one is the next."""
        more = len(events) > limit
        return cls(events=events[:limit], next=events[limit - 1].id if more else None)


MAX_LISTED_ENTRIES: Final = 1000
"""Entries of one request or answer."""


class ListEntryIn(RequestDocument):
    """An entry that is to be set."""

    entry: str = Field(max_length=MAX_VALUE + 16, description=f"Its subject: {SAYS}.")
    nats: float = Field(ge=-MAX_NATS, le=MAX_NATS)
    """Nats that it adds to the log-odds: negative ones allow, positive ones deny."""
    expires_at: Moment | None = None
    """When it expires; null: never."""
    note: str = Field(default="", max_length=MAX_NOTE)
    """A note of one line, for other people."""

    def read(self, *, source: str, now: datetime) -> ListEntry:
        """Return the entry, as set by a source now."""
        return ListEntry(
            subject=ListSubject.parse(self.entry),
            source=source,
            created_at=now,
            **self.model_dump(exclude={"entry"}),
        )


class ListsIn(RequestDocument):
    """Entries that are to be set, all or none."""

    entries: list[ListEntryIn] = Field(min_length=1, max_length=MAX_LISTED_ENTRIES)
    """The entries; each replaces an entry with the same subject."""


class ListEntryOut(AnswerDocument):
    """An entry."""

    entry: str
    """Its subject, in the form of a request."""
    kind: ListKind
    """The kind of the subject."""
    nats: float
    """Nats that it adds to the log-odds: negative ones allow, positive ones deny."""
    source: str
    """Who set it."""
    created_at: datetime
    """When it was set."""
    expires_at: datetime | None
    """When it expires; null: never."""
    note: str
    """A note of one line, or empty."""

    @classmethod
    def of(cls, entry: ListEntry) -> Self:
        """Return the document of an entry."""
        return cls.describing(entry, entry=str(entry.subject), kind=entry.subject.kind)


class ListsOut(AnswerDocument):
    """Some entries of a profile, by kind and value."""

    entries: list[ListEntryOut]
    """The entries."""
    next: str | None
    """The `after` of the next request; null: these are the last."""

    @classmethod
    def of(cls, entries: Sequence[ListEntry], limit: int | None = None) -> Self:
        """Return the document of at most `limit` entries, as `EventsOut`, or of all."""
        listed = [ListEntryOut.of(each) for each in entries[:limit]]
        more = len(entries) > len(listed)
        return cls(entries=listed, next=listed[-1].entry if more else None)
