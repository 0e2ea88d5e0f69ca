"""Sessions: people who sign in, their passwords, and their cookies.

Contract of this file:

- Passwords are hashed with Argon2id, outside of the event loop.
- A session is a signed cookie that names a person and the revision of that person's
  row.  A changed password, a changed role or a removal ends it in every process.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from itsdangerous import BadData, TimestampSigner, URLSafeTimedSerializer

from app.access.networks import network
from app.access.rights import ROLES, Person, check_access_name
from app.classifier.specification import check_name
from app.errors import (
    DatabaseUnavailable,
    Forbidden,
    InvalidInput,
    TooManyRequests,
    Unauthenticated,
)
from app.services.access import note
from app.services.clock import Buckets, now
from app.storage import access
from app.storage.database.engine import reading, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Engine

    from app.access.rights import Principal
    from app.services.access import LiveKeys

SHORTEST_PASSWORD: Final = 8
"""Least length of a password (NIST SP 800-63B-4 section 3.1.1.2: 15 if sole factor)."""
LONGEST_PASSWORD: Final = 1024
# RFC 9106 section 4, the second recommendation: 64 MiB, some 60 ms.
_HASHER: Final = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=1)
# Hash of a password that nobody has, so an unknown name takes as long as a known one.
_NOBODYS: Final = (
    "$argon2id$v=19$m=65536,t=3,p=1$AAAAAAAAAAAAAAAAAAAAAA"
    "$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)
ELSEWHERE: Final = 600
"""How long a person may take to sign in at a provider.  Unit: seconds."""
SKEW: Final = 300
"""How far the clock of another host that signs cookies may be ahead.  Unit: seconds."""


def check_password(password: str) -> None:
    """Raise if a password is too short or too long.

    Raises
    ------
    InvalidInput
        If the password is too short or too long.
    """
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InvalidInput(
            f"a password must have from {SHORTEST_PASSWORD} to {LONGEST_PASSWORD:,} "
            f"characters, got {len(password)}"
        )


def add_person(
    engine: Engine,
    name: str,
    *,
    role: str,
    password: str | None,
    profile: str | None = None,
    actor: str,
) -> None:
    """Add a person who can sign in.

    Parameters
    ----------
    name : str
        Name to sign in with; the source in the ledger is `user:` and the name.
    role : str
        A name of `ROLES`.
    password : str or None
        None if a proxy or a provider signs them in.
    profile : str or None
        The only profile that they see; None means all.

    Raises
    ------
    InvalidInput
        If the name, the role, the password or the profile cannot be used.
    NameTaken
        If a person with this name exists.
    """
    check_access_name(name, of="person")
    if role not in ROLES:
        raise InvalidInput(
            f"the role must be one of {', '.join(ROLES)}; got {role[:64]!r}"
        )
    if profile is not None:
        check_name(profile.removeprefix("@"))
    if password is not None:
        check_password(password)
    new = Person(
        name=name,
        password=None if password is None else _HASHER.hash(password),
        role=role,
        profile=profile,
        created_at=now(),
    )
    with writing(engine) as connection:
        access.add_person(connection, new)
        note(connection, "person added", name, actor=actor, role=role)


def remove_person(engine: Engine, name: str, *, actor: str) -> None:
    """Remove a person, and end their sessions.

    Raises
    ------
    UnknownPerson
        If there is no person with this name.
    """
    with writing(engine) as connection:
        access.change_person(connection, name, removed_at=now(), password=None)
        note(connection, "person removed", name, actor=actor)


def set_password(engine: Engine, name: str, password: str, *, actor: str) -> None:
    """Set the password of a person, and end their sessions.

    Raises
    ------
    InvalidInput
        If it is too short or too long.
    UnknownPerson
        If there is no person with this name.
    """
    check_password(password)
    hashed = _HASHER.hash(password)
    with writing(engine) as connection:
        access.change_person(connection, name, password=hashed)
        note(connection, "password changed", name, actor=actor)


def list_people(engine: Engine) -> list[Person]:
    """Return the people who can sign in, in the order of their names."""
    with reading(engine) as connection:
        return access.people(connection)


class _Signer(TimestampSigner):
    """A signer with a given clock."""

    def __init__(self, *given: Any, clock: Callable[[], float], **more: Any) -> None:
        super().__init__(*given, **more)
        self._clock = clock

    def get_timestamp(self) -> int:
        """Return the time in a signature."""
        return int(self._clock())


@dataclass(eq=False)
class Sessions:
    """Sign-in, and the session cookies.

    Parameters
    ----------
    idle, most : float
        A session ends this long after its last page, and after its start.  Unit:
        seconds.
    refused : callable
        Is given the reason of each refusal: `password`, `rate` or `provider`.
    clock, steady : callable
        Return the time since 1970, and one that does not go back.  Unit: seconds.
    """

    keys: LiveKeys
    _: KW_ONLY
    idle: float
    most: float
    refused: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.time
    steady: InitVar[Callable[[], float]] = time.monotonic

    def __post_init__(self, steady: Callable[[], float]) -> None:
        """Limit the attempts to sign in."""
        # Precedent: as for wrong keys, but slower, because a password can be guessed.
        self._of_names = Buckets(1 / 30, 5, clock=steady)
        self._of_hosts = Buckets(1 / 30, 10, clock=steady)

    def sign_in(self, name: str, password: str, *, host: str | None) -> str:
        """Return the cookie of a new session.

        It takes some 60 ms of CPU, so it must not run in the event loop.  A hash of
        another cost is renewed, which ends the earlier sessions of the person.

        Raises
        ------
        Unauthenticated
            If the password is wrong, or there is no person with this name.
        TooManyRequests
            If there were too many attempts for this name or from this address.
        """
        person = self._proved(name, password, host)
        if _HASHER.check_needs_rehash(person.password or _NOBODYS):
            person = self._renewed(person, _HASHER.hash(password))
        return self._signed_in(person)

    def _renewed(self, person: Person, hashed: str) -> Person:
        renewed = False
        # Where nothing can be stored, people sign in all the same; it waits.
        with suppress(DatabaseUnavailable), writing(self.keys.engine) as connection:
            renewed = access.renew_password(connection, person, hashed)
        if not renewed:
            # If it was changed since it was proved, the session is of no use.
            return person
        self.keys.refresh()
        return replace(person, revision=person.revision + 1)

    def change_password(
        self, principal: Principal, password: str, new: str, *, host: str | None
    ) -> str:
        """Change the password of a person, and return the cookie of a new session.

        All earlier sessions end.

        Raises
        ------
        Forbidden
            If the principal is not a person, or signs in elsewhere.
        InvalidInput
            If the new password is too short or too long.
        Unauthenticated, TooManyRequests
            As `sign_in`.
        """
        name = principal.name.partition(":")[2]
        person = self.keys.people.get(name) if principal.kind == "person" else None
        if person is None or person.password is None:
            raise Forbidden(
                f"{principal.name} does not sign in with a password, so there is none "
                "to change"
            )
        check_password(new)
        self._proved(name, password, host, wrong="the current password is wrong")
        set_password(self.keys.engine, name, new, actor=principal.name)
        self.keys.refresh()
        return self.begin(self.keys.people[name])

    def _proved(
        self,
        name: str,
        password: str,
        host: str | None,
        *,
        wrong: str = "the name or the password is wrong",
    ) -> Person:
        """Return the person with a name and a password."""
        # In this order: an address that has no attempts left must not use up those of
        # a person.
        wait = self._of_hosts.take(network(host or "")) or self._of_names.take(
            name[:64]
        )
        if wait:
            self.refused("rate")
            raise TooManyRequests.until("too many attempts to sign in", wait)
        person = self.keys.people.get(name)
        hashed = None if person is None else person.password
        if not _is_right(hashed, password) or person is None:
            self.refused("password")
            raise Unauthenticated(wrong)
        return person

    def sign_in_as(self, name: str) -> str:
        """Return the cookie of a new session of a person signed in by a provider.

        Raises
        ------
        Unauthenticated
            If there is no person with this name.
        """
        person = self.keys.people.get(name)
        if person is None:
            raise Unauthenticated(
                f"you signed in as {name[:64]!r}, who is not among the people of this "
                "service; an administrator can add you with `postbayes people add "
                "NAME --no-password`"
            )
        return self._signed_in(person)

    def _signed_in(self, person: Person) -> str:
        with writing(self.keys.engine) as connection:
            note(connection, "signed in", person.name, actor=f"user:{person.name}")
        return self.begin(person)

    def begin(self, person: Person) -> str:
        """Return the cookie of a new session of an authenticated person.

        It may store the secret of the cookies in the database.
        """
        began = int(self.clock())
        session = {"name": person.name, "revision": person.revision, "began": began}
        return self._signed("session", session)

    def find(self, cookie: str) -> tuple[Principal, str | None] | None:
        """Return who asks with a cookie, and a new cookie if it is time for one.

        None if the cookie is invalid or too old, or the person was removed or has a new
        password.
        """
        fields, age = self._opened("session", cookie, within=self.idle)
        if fields is None:
            return None
        person = self.keys.people.get(fields["name"])
        if person is None or person.revision != fields["revision"]:
            return None
        if self.clock() - fields["began"] >= self.most:
            return None
        # Not with each page, because answers could overtake each other.
        old = age > self.idle / 10
        return person.principal, self._signed("session", fields) if old else None

    def named(self, name: str) -> Principal | None:
        """Return the principal for a name that a proxy has authenticated."""
        person = self.keys.people.get(name)
        return None if person is None else person.principal

    def seal(self, fields: Mapping[str, str]) -> str:
        """Return a cookie with the state of a sign-in at a provider.

        It may store the secret of the cookies in the database.
        """
        return self._signed("provider", fields)

    def unseal(self, cookie: str) -> dict[str, str] | None:
        """Return the content of a cookie of `seal`; None if it is not valid."""
        fields: dict[str, str] | None
        fields, _ = self._opened("provider", cookie, within=ELSEWHERE)
        return fields

    def token(self, of: str) -> str:
        """Return the proof that a form is from a page for this principal.

        Parameters
        ----------
        of : str
            The name of the principal, with a value that distinguishes its browser.
        """
        return "" if self.keys.secret is None else self._signed("form", of)

    def is_token(self, token: str, of: str) -> bool:
        """Return whether a form has a valid proof from `token`."""
        signed, _ = self._opened("form", token, within=self.most)
        return bool(signed == of)

    def _signed(self, salt: str, value: object) -> str:
        secret = self.keys.make_secret()
        signed: str = self._serializer(secret, salt).dumps(value)
        return signed

    def _opened(self, salt: str, signed: str, *, within: float) -> tuple[Any, float]:
        """Return what was signed, None if that is not valid, and its age.

        Unit: seconds.
        """
        if self.keys.secret is not None:
            with suppress(BadData):
                value, at = self._serializer(self.keys.secret, salt).loads(
                    signed, return_timestamp=True
                )
                age = self.clock() - at.timestamp()
                # max_age would refuse signatures of a host whose clock is ahead.
                if -SKEW <= age <= within:
                    return value, age
        return None, math.inf

    def _serializer(self, secret: bytes, salt: str) -> URLSafeTimedSerializer:
        clock = {"clock": self.clock}
        return URLSafeTimedSerializer(secret, salt, signer=_Signer, signer_kwargs=clock)


def _is_right(hashed: str | None, password: str) -> bool:
    """Return whether a password matches a hash; it takes as long without a hash."""
    try:
        matches = _HASHER.verify(hashed or _NOBODYS, password[:LONGEST_PASSWORD])
    except (VerificationError, InvalidHashError):
        return False
    return matches and len(password) <= LONGEST_PASSWORD
