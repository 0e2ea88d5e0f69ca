"""Lists of senders: changed by people, and held in memory by every process.

Contract of this file: no message queries the database.  A process sees its own changes
at once, and those of other processes with the maintenance, about twice a second.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from app.access.lists import Identities, ListEntry, ListSubject, ListTable, require_few
from app.errors import InvalidInput, UnknownEntry
from app.services.access import note
from app.services.clock import now
from app.storage import lists, profiles, retention
from app.storage.database.engine import reading, with_short_timeout, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Engine

    from app.classifier.statement import Origin, Statement, Testimony
    from app.mail.message import Message
    from app.services.cache import LiveProfiles

log = logging.getLogger(__name__)
# Most entries that an event names; it gives the number of further ones.
_NAMED: Final = 10


def add_entries(
    engine: Engine, profile: str, entries: Sequence[ListEntry], *, actor: str
) -> None:
    """Store entries of a profile, all or none; each replaces its subject's entry.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    InvalidInput
        If the profile would have too many.
    """
    with writing(engine) as connection:
        row = profiles.find_locked(connection, profile)
        _drop_expired(connection, row.id)
        lists.put_many(connection, row.id, entries)
        require_few(lists.count(connection, row.id))
        named = [f"{x.verb} {x.subject} {x.nats:+g}" for x in entries[:_NAMED]]
        given = {"number": len(entries), "entries": named}
        note(connection, "list entries set", profile, actor=actor, **given)


def remove_entry(
    engine: Engine, profile: str, subject: ListSubject, *, actor: str
) -> None:
    """Remove the entry of a subject from the lists of a profile.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    UnknownEntry
        If it has no such entry.
    """
    with writing(engine) as connection:
        row = profiles.find_locked(connection, profile)
        if not lists.remove(connection, row.id, subject):
            raise UnknownEntry(
                f"the lists of {profile!r} have no entry {str(subject)!r}; `postbayes "
                "lists list` shows the entries"
            )
        _drop_expired(connection, row.id)
        note(connection, "list entry removed", profile, actor=actor, entry=str(subject))


def _drop_expired(connection: Connection, profile_id: int) -> None:
    """Remove the entries that had expired at the last time that a service believed.

    They count no more in any case, and a clock that is ahead must not remove others.
    """
    mark = retention.clock_mark(connection)
    if mark is not None:
        lists.expire(connection, profile_id, now=min(mark.used, now()))


def list_entries(
    engine: Engine,
    profile: str,
    *,
    after: ListSubject | None = None,
    limit: int | None = None,
) -> list[ListEntry]:
    """Return the unexpired entries of a profile, sorted by kind and value.

    `app.storage.lists.entries` describes `after` and `limit`.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    """
    with reading(engine) as connection:
        row = profiles.find(connection, profile)
        return lists.entries(connection, row.id, after=after, limit=limit, now=now())


def _read(connection: Connection, profile_id: int) -> ListTable:
    """Return the entries of a profile; none if one was damaged by hand."""
    try:
        return ListTable(lists.entries(connection, profile_id))
    except (InvalidInput, ValueError) as error:
        log.error(  # noqa: TRY400  a defect of the data, not of ours
            "the lists of the profile with the key %d cannot be read and are ignored: "
            "%s",
            profile_id,
            error,
        )
    return ListTable(())


@dataclass(eq=False)
class LiveLists:
    """The lists of all profiles, in the memory of a process; a `Witness`.

    `levels` returns a profile and those above it, the most personal first.

    Raises
    ------
    DatabaseUnavailable
        If the lists cannot be read at the start.
    """

    live: LiveProfiles
    levels: Callable[[str], Iterable[str]]

    def __post_init__(self) -> None:
        """Read the lists."""
        self._versions: dict[int, tuple[datetime, int]] = {}
        self._tables: dict[int, ListTable] = {}
        self._refreshing = threading.Lock()
        self.refresh()

    def __len__(self) -> int:
        """Return how many entries there are."""
        return sum(map(len, self._tables.values()))

    def refresh(self) -> None:
        """Read the lists that have changed."""
        # One at a time: an older reading must not replace a newer one.
        short = with_short_timeout(self.live.engine)
        with self._refreshing, reading(short) as connection:
            versions = lists.versions(connection)
            if versions == self._versions:
                return
            tables = {
                each: _read(connection, each)
                if self._versions.get(each) != version
                else self._tables.get(each, ListTable(()))
                for each, version in versions.items()
            }
            self._tables = {each: table for each, table in tables.items() if table}
            self._versions = versions

    def __call__(self, message: Message, origin: Origin) -> Testimony | None:
        """Return the statements of the lists about a message, by profile."""
        if not self._tables:
            return None
        identities = Identities.of(message, sender=origin.sender, client=origin.client)
        return partial(self._stated, identities)

    def _stated(self, identities: Identities, profile: str) -> tuple[Statement, ...]:
        """Return the statement of the most personal entry, which counts."""
        for cached in self.live.among(self.levels(profile)):
            table = self._tables.get(cached.row.id)
            entry = None if table is None else table.find(identities, now())
            if entry is not None:
                return (entry.statement(),)
        return ()
