"""Access: keys, people in memory, administrative events, and the gate of requests.

Contract of this file: no request queries the database.  A process sees its own changes
at once, and those of other processes with the maintenance, about twice a second.

A request is refused unless a key, a session or its network admits it.  A wrong key
costs one SHA-256 and an entry in a bounded table.
"""

from __future__ import annotations

import threading
import time
from dataclasses import KW_ONLY, InitVar, dataclass
from datetime import UTC, datetime
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Final, Protocol

from app.access.networks import Networks, network
from app.access.rights import (
    LOCAL,
    NOBODY,
    SECRET_BYTES,
    AccessKey,
    AuditEvent,
    Keyring,
    Person,
    Right,
    check_access_name,
    check_expiry,
    digest_of,
    text_of,
)
from app.classifier.specification import check_name
from app.errors import Forbidden, InvalidInput, TooManyRequests, Unauthenticated
from app.services.clock import Buckets, now
from app.storage import access
from app.storage.database.engine import reading, with_short_timeout, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import Connection, Engine

    from app.access.rights import Principal
    from app.settings import Settings

MAX_EVENTS: Final = 1000
"""Events of one answer."""
# Events that are removed in one transaction.
_AT_ONCE: Final = 1000


def note(
    connection: Connection, act: str, of: str, *, actor: str, **details: Any
) -> None:
    """Store an event of a key, a person or a profile, in its transaction."""
    access.add_event(
        connection, time=now(), who=actor, act=act, object=of, details=details or None
    )


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
    rights: Iterable[Right],
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
        If the name or a limit is invalid, or there is no right.
    """
    check_access_name(name)
    held = frozenset(rights)
    if not held:
        raise InvalidInput(f"the rights of a key can be {', '.join(Right)}; got none")
    time = now()
    check_expiry("the key", expires_at, now=time)
    limits = [tuple(each) for each in (profiles, labels, networks)]
    if max(map(len, limits)) > MAX_LIMITS:
        raise InvalidInput(
            f"a key can be limited to at most {MAX_LIMITS} profiles, labels or networks"
        )
    for profile in limits[0]:
        check_name(profile.removeprefix("@"))
    Networks(limits[2], of="the networks of the key")
    text = text_of(token_bytes(SECRET_BYTES))
    return text, AccessKey(
        name=name,
        digest=digest_of(text),
        rights=held,
        profiles=frozenset(limits[0]) or None,
        labels=frozenset(limits[1]) or None,
        networks=limits[2],
        names_sources=names_sources,
        created_at=time,
        expires_at=expires_at,
    )


def add_key(engine: Engine, key: AccessKey, *, actor: str) -> None:
    """Store a new key.

    Raises
    ------
    NameTaken
        If a key with this name exists.
    """
    with writing(engine) as connection:
        access.add_key(connection, key)
        rights = sorted(key.rights)
        note(connection, "key created", key.name, actor=actor, rights=rights)


def revoke_key(engine: Engine, name: str, *, actor: str) -> AccessKey:
    """Revoke a key and return it; all processes refuse it within a second or two.

    Raises
    ------
    UnknownKey
        If no key in force has that name.
    """
    with writing(engine) as connection:
        access.revoke_key(connection, name, time=now())
        note(connection, "key revoked", name, actor=actor)
        return next(each for each in access.keys(connection) if each.name == name)


def list_keys(engine: Engine) -> list[AccessKey]:
    """Return all keys, revoked ones included, in the order of their names."""
    with reading(engine) as connection:
        return access.keys(connection)


class LiveKeys:
    """The keys and the people of the database, in the memory of a process."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._version: tuple[int, ...] = ()
        self._keyring = Keyring()
        self._used: dict[str, float] = {}
        self.people: dict[str, Person] = {}
        self.secret: bytes | None = None
        self._refreshing = threading.Lock()

    def refresh(self) -> None:
        """Read keys and people again if anything has changed."""
        # One at a time: an older reading must not replace a newer one, and let a key in
        # that was revoked in between.
        with self._refreshing, reading(with_short_timeout(self.engine)) as connection:
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

    def make_secret(self) -> bytes:
        """Return the secret of the cookies, which is made with the first of them.

        Raises
        ------
        DatabaseUnavailable
            If it cannot be stored.
        """
        if self.secret is None:
            with writing(self.engine) as connection:
                self.secret = access.add_secret(connection, SECRET, token_bytes(32))
        return self.secret

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
        with writing(self.engine) as connection:
            access.keys_used(
                connection,
                {
                    name.removeprefix("key:"): datetime.fromtimestamp(at - at % 60, UTC)
                    for name, at in used.items()
                },
            )
        for name, at in used.items():
            if self._used.get(name) == at:
                del self._used[name]


WRONG_BURST: Final = 10
"""Wrong keys from one address that are answered without delay.

Precedent: fail2ban's `maxretry` is 5, OpenSSH's MaxAuthTries 6; after a change of keys,
several processes of a deployment may use the old one.
"""
WRONG_SECONDS: Final = 6.0
"""Seconds for each further wrong key; others are asked to wait."""
BURST_SECONDS: Final = 2.0
"""Burst that a client may make above its rate."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The origin and the credentials of a request.

    Parameters
    ----------
    host : str or None
        Address of the client behind the configured proxies; None for a Unix socket.
    relayed : bool
        Whether a proxy relayed it that is unknown, or does not name its client.
    key : str or None
        The key in the request.
    cookie : str or None
        The session cookie in the request.
    person : str or None
        Name of the person whom a configured proxy has signed in.
    """

    host: str | None
    relayed: bool = False
    key: str | None = None
    cookie: str | None = None
    person: str | None = None


class People(Protocol):
    """Those who have signed in."""

    def find(self, cookie: str) -> tuple[Principal, str | None] | None:
        """Return who asks with a cookie, as `app.services.sessions.Sessions.find`."""
        ...

    def named(self, name: str) -> Principal | None:
        """Return the principal for a name; None if there is no such person."""
        ...


@dataclass(eq=False)
class Gate:
    """Admits requests.

    Parameters
    ----------
    settings : Settings
        The networks that need no key, and the rates.
    people : People or None
        The people who sign in; None if sign-in is off.
    refused : callable, optional
        Is given the reason of each refusal: `key`, `none`, `right` or `rate`.
    """

    keys: LiveKeys | Keyring
    settings: InitVar[Settings]
    people: People | None = None
    _: KW_ONLY
    refused: Callable[[str], None] = lambda _: None

    def __post_init__(self, settings: Settings) -> None:
        """Begin under the settings."""
        self._wrong = Buckets(1 / WRONG_SECONDS, WRONG_BURST)
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Go on under other settings.

        Raises
        ------
        InvalidSetting
            If a network is invalid; nothing is changed.
        """
        keyless = Networks(settings.keyless_from, of="POSTBAYES_KEYLESS_FROM")
        self.proxies = Networks(settings.proxies, of="POSTBAYES_PROXIES")
        self._keyless = keyless
        name = settings.sign_in_header
        self.sign_in_header = None if name is None else name.lower().encode()
        self._of_keys = self._buckets(settings.rate_per_key)
        self._of_hosts = self._buckets(settings.rate_per_address)

    def _buckets(self, rate: float) -> Buckets | None:
        if not rate:
            return None
        return Buckets(rate, max(1.0, BURST_SECONDS * rate))

    def admit(self, caller: Caller, right: Right | None) -> Principal:
        """Return who makes a request; everybody may if it needs no right.

        Raises
        ------
        Unauthenticated
            If it needs a key and has no valid one.
        Forbidden
            If its key lacks this right, or a proxy has signed in an unknown person.
        TooManyRequests
            If the client has to wait.
        """
        if right is None:
            if not self.needs_no_key(caller):
                self._slow_down(self._of_hosts, caller)
            return NOBODY
        principal = self._principal(caller)
        # The common case: a mail server on this machine.
        if principal is LOCAL:
            return LOCAL
        self._slow_down(self._of_hosts, caller)
        if principal is None:
            self.refused("none")
            if caller.person is not None:
                # Not `Unauthenticated`: the pages would ask for a password, which
                # signs nobody in while the proxy says another name.
                raise Forbidden(
                    f"a proxy signed in {caller.person[:64]!r}, who is not among the "
                    "people of this service; add them with `postbayes people add`"
                )
            raise Unauthenticated(_missing(caller))
        self._slow_down(self._of_keys, caller, principal.name)
        if not principal.may(right):
            self.refused("right")
            own = ", ".join(sorted(principal.rights))
            raise Forbidden(
                f"{principal.name} lacks the right {str(right)!r}; it has: {own}"
            )
        return principal

    def may(self, caller: Caller, right: Right) -> bool:
        """Return whether a request is admitted, for protocols with only one refusal."""
        try:
            self.admit(caller, right)
        except (Unauthenticated, Forbidden, TooManyRequests):
            return False
        return True

    def identify(self, caller: Caller) -> Principal | None:
        """Return who has signed in; None if nobody has."""
        people = self.people
        if people is None:
            return None
        if caller.person is not None:
            return people.named(caller.person)
        found = None if caller.cookie is None else people.find(caller.cookie)
        return None if found is None else found[0]

    def _principal(self, caller: Caller) -> Principal | None:
        """Return who asks; None if the request does not tell and needs a key."""
        if caller.key is not None:
            return self._keyed(caller, caller.key)
        if caller.cookie is not None or caller.person is not None:
            person = self.identify(caller)
            # The person whom the proxy has signed in asks, not the proxy.
            if person is not None or caller.person is not None:
                return person
        return LOCAL if self.needs_no_key(caller) else None

    def needs_no_key(self, caller: Caller) -> bool:
        """Return whether a client may do everything without a key."""
        return not caller.relayed and self._keyless.holds(caller.host)

    def _keyed(self, caller: Caller, key: str) -> Principal:
        found = self.keys.find(key, host=caller.host, time=time.time())
        if found is not None:
            return found
        self.refused("key")
        # Valid keys are looked up first, so a client whose address is shared by one
        # that guesses keys is still admitted.
        self._slow_down(self._of_hosts, caller)
        wait = self._wrong.take(network(caller.host or ""))
        if wait:
            what = "too many wrong keys came from this address"
            raise TooManyRequests.until(what, wait)
        raise Unauthenticated(
            "this key is not valid: it is unknown, revoked, expired, or not allowed "
            "from this address; `postbayes keys list` shows the keys"
        )

    def _slow_down(
        self, buckets: Buckets | None, caller: Caller, name: str | None = None
    ) -> None:
        """Raise if a key, or an address, asks more often than it may."""
        if buckets is None:
            return
        wait = buckets.take(name or network(caller.host or ""))
        if wait:
            self.refused("rate")
            raise TooManyRequests.until(
                f"{name or 'this address'} sends requests too often",
                wait,
                ", or raise POSTBAYES_RATE_PER_KEY and POSTBAYES_RATE_PER_ADDRESS",
            )


def _missing(caller: Caller) -> str:
    if caller.relayed:
        return (
            "the request has no key, and came through a proxy that is unknown or sends "
            "no X-Forwarded-For; send `Authorization: Bearer pb_...` (`postbayes keys "
            "create`), and name the proxy in POSTBAYES_PROXIES"
        )
    return (
        "the request has no key; send `Authorization: Bearer pb_...` (`postbayes keys "
        "create`), or name the network of the client in POSTBAYES_KEYLESS_FROM"
    )
