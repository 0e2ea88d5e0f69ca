"""Access: keys, the people in memory, and administrative events.

Contract of this file: no request queries the database.  A process sees its own changes
at once, and those of other processes with the maintenance, about twice a second.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Final

from app.access.networks import Networks
from app.access.rights import (
    SECRET_BYTES,
    AccessKey,
    AuditEvent,
    Keyring,
    Person,
    check_access_name,
    check_expiry,
    digest_of,
    parse_rights,
    text_of,
)
from app.classifier.specification import check_name
from app.errors import InvalidInput
from app.services.clock import now
from app.storage import access
from app.storage.database.engine import reading, with_short_timeout, writing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection, Engine

    from app.access.rights import Principal


MAX_EVENTS: Final = 1000
"""Events of one answer."""
# Events that are removed in one transaction.
_AT_ONCE: Final = 1000


def note(
    connection: Connection, act: str, *, who: str, of: str, **details: Any
) -> None:
    """Store an event, in the transaction of what it reports.

    Parameters
    ----------
    connection : Connection
        The transaction.
    act : str
        What was done.
    who : str
        Who did it.
    of : str
        The key, the person or the profile.
    **details : object
        Further fields of the event, as JSON values.
    """
    event = AuditEvent(time=now(), who=who, act=act, object=of, details=details or None)
    access.add_event(connection, event)


def list_events(
    engine: Engine, *, before: int | None = None, limit: int
) -> list[AuditEvent]:
    """Return events, the newest first; with `before`, those of smaller numbers."""
    with reading(engine) as connection:
        return access.events(connection, before=before, limit=limit)


def expire_events(engine: Engine, *, before: datetime) -> int:
    """Remove a few events that are too old; return how many."""
    with reading(engine) as connection:
        oldest = access.oldest_event(connection)
    if oldest is None or oldest >= before:
        return 0
    with writing(engine) as connection:
        return access.expire_events(connection, before=before, limit=_AT_ONCE)


SECRET: Final = "cookies"  # noqa: S105  the name of one
"""The secret that cookies are signed with."""
MAX_LIMITS: Final = 1000
"""Profiles, labels or networks of a key."""


def made_key(
    name: str,
    rights: Iterable[str],
    *,
    profiles: Iterable[str] = (),
    labels: Iterable[str] = (),
    networks: Iterable[str] = (),
    names_sources: bool = False,
    expires_at: datetime | None = None,
) -> tuple[str, AccessKey]:
    """Return the text of a new key, and the key.

    Raises
    ------
    InvalidInput
        If the name or a limit is invalid.
    """
    check_access_name(name)
    time = now()
    check_expiry("the key", expires_at, now=time)
    limits = [tuple(each) for each in (profiles, labels, networks)]
    if max(map(len, limits)) > MAX_LIMITS:
        msg = (
            f"a key can be limited to at most {MAX_LIMITS} profiles, labels or networks"
        )
        raise InvalidInput(msg)
    for profile in limits[0]:
        check_name(profile.removeprefix("@"))
    Networks(limits[2], of="the networks of the key")
    text = text_of(token_bytes(SECRET_BYTES))
    return text, AccessKey(
        name=name,
        digest=digest_of(text),
        rights=parse_rights(rights),
        profiles=frozenset(limits[0]) or None,
        labels=frozenset(limits[1]) or None,
        networks=limits[2],
        names_sources=names_sources,
        created_at=time,
        expires_at=expires_at,
    )


def add_key(engine: Engine, key: AccessKey, *, who: str) -> None:
    """Store a new key.

    Parameters
    ----------
    engine : Engine
        The database.
    key : AccessKey
        The key.
    who : str
        Who makes it, for the events.

    Raises
    ------
    NameTaken
        If a key with this name exists.
    """
    with writing(engine) as connection:
        access.add_key(connection, key)
        note(
            connection,
            "key created",
            who=who,
            of=key.name,
            rights=sorted(key.rights),
        )


def revoke_key(engine: Engine, name: str, *, who: str) -> AccessKey:
    """Revoke a key and return it; all processes refuse it within a second or two.

    Raises
    ------
    UnknownKey
        If no key in force has that name.
    """
    with writing(engine) as connection:
        access.revoke_key(connection, name, time=now())
        note(connection, "key revoked", who=who, of=name)
        return next(each for each in access.keys(connection) if each.name == name)


def list_keys(engine: Engine) -> list[AccessKey]:
    """Return all keys, revoked ones included, in the order of their names."""
    with reading(engine) as connection:
        return access.keys(connection)


class LiveKeys:
    """The keys and the people of the database, in the memory of a process.

    Parameters
    ----------
    engine : Engine
        The database.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._version: tuple[int, ...] = ()
        self._keyring = Keyring()
        self._used: dict[str, float] = {}
        self.people: dict[str, Person] = {}
        self.secret: bytes | None = None

    def __len__(self) -> int:
        """Return how many keys are in force."""
        return len(self._keyring)

    def refresh(self) -> None:
        """Read keys and people again if anything has changed."""
        with reading(with_short_timeout(self._engine)) as connection:
            version = access.version(connection)
            # Made with the first session, perhaps while this is read.
            if self.secret is None:
                made = access.secret(connection, SECRET)
                if made is not None:
                    self.secret = made
            if version == self._version:
                return
            keyring = Keyring(access.keys(connection))
            people = {each.name: each for each in access.people(connection)}
        self._keyring, self.people = keyring, people
        self._version = version

    def read_secret(self) -> None:
        """Read the secret of the cookies."""
        with reading(self._engine) as connection:
            self.secret = access.secret(connection, SECRET)

    def find(self, text: str, *, host: str | None, time: float) -> Principal | None:
        """Return who asks with a key, as `Keyring.find`."""
        found = self._keyring.find(text, host=host, time=time)
        if found is not None:
            self._used[found.name] = time
        return found

    def flush(self) -> None:
        """Store when keys were used last.

        Raises
        ------
        DatabaseUnavailable
            If they cannot be stored; the next call tries again.
        """
        # Other threads note uses meanwhile.
        used = dict(self._used)
        if not used:
            return
        with writing(self._engine) as connection:
            access.keys_used(
                connection,
                {
                    name.removeprefix("key:"): datetime.fromtimestamp(
                        60 * math.floor(at / 60), UTC
                    )
                    for name, at in used.items()
                },
            )
        for name, at in used.items():
            if self._used.get(name) == at:
                del self._used[name]
