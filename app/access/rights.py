"""Rights: the rights of requests, and the principals, keys and people with them.

Contract of this file: a right does not include others, except that the right to manage
includes changing lists.  The right to teach does not include reading, and the right to
manage does not include teaching.  Only the owner of a key has its text: the service and
the database have its SHA-256.  Because a key has 256 random bits, the hash reveals
nothing, and needs neither a salt nor a slow function.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal

from app.access.networks import Networks
from app.errors import Forbidden, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


class Right(StrEnum):
    """A right that a route or a command of a door requires."""

    CLASSIFY = "classify"
    TEACH = "teach"
    READ = "read"
    LISTS = "lists"
    MANAGE = "manage"
    REPLICATE = "replicate"


MEANINGS: Final = {
    Right.CLASSIFY: "Score messages and see the reasons.",
    Right.TEACH: "Teach messages, and forget single messages.",
    Right.READ: "Read profiles, figures, words, history and metrics.",
    Right.LISTS: "Change allow and deny lists (included in `manage`).",
    Right.MANAGE: "Undo, and change policies, lists, keys and people.",
    Right.REPLICATE: "Copy the ledger to another service.",
}
"""Each right in one sentence."""
ALL_RIGHTS: Final = frozenset(Right)
ROLES: Final = {
    "reader": frozenset({Right.CLASSIFY, Right.READ}),
    "teacher": frozenset({Right.CLASSIFY, Right.READ, Right.TEACH}),
    "admin": ALL_RIGHTS - {Right.REPLICATE},
}
"""The rights of people, by role."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The client of a request.

    Parameters
    ----------
    name : str
        Its name in the ledger's `source`: `key:mx1`, `user:anna`, `http`.
    profiles : frozenset of str or None
        Names of the profiles that it may use; `@example.org` stands for the profiles of
        a domain and of its addresses.  None means all.
    kind : str
        A client that needs no key, a key, or a person.
    labels : frozenset of str or None
        The labels that it may teach; None means all.
    names_sources : bool
        Whether the ledger uses the source that it gives.
    """

    name: str
    rights: frozenset[Right]
    profiles: frozenset[str] | None = None
    kind: Literal["local", "key", "person"] = "key"
    labels: frozenset[str] | None = None
    names_sources: bool = False

    def may(self, right: Right | None) -> bool:
        """Return whether it has a right; None means no right is required."""
        if right == Right.LISTS and Right.MANAGE in self.rights:
            return True
        return right is None or right in self.rights

    def may_use(self, profile: str) -> bool:
        """Return whether it may use a profile.

        Examples
        --------
        >>> owner = Principal("key:mx1", ALL_RIGHTS, frozenset({"ann", "@example.org"}))
        >>> [owner.may_use(each) for each in ("ann", "bob", "eve@example.org")]
        [True, False, True]
        """
        if self.profiles is None or profile in self.profiles:
            return True
        return f"@{profile.rpartition('@')[2]}" in self.profiles

    def require(self, profile: str) -> str:
        """Return the name of a profile; raise if it may not use it.

        Raises
        ------
        Forbidden
            If it may not.
        """
        if not self.may_use(profile):
            own = ", ".join(sorted(self.profiles or ())) or "none"
            # Not by its name: that of a recipient would show whose address has a
            # profile, and which one its alias leads to.
            raise Forbidden(
                f"{self.name} may not use the profile of the request; its profiles: "
                f"{own}"
            )
        return profile

    def require_label(self, label: str) -> str:
        """Return a label; raise if it may not teach it.

        Raises
        ------
        Forbidden
            If it may not.
        """
        if self.labels is not None and label not in self.labels:
            own = ", ".join(sorted(self.labels)) or "none"
            msg = f"{self.name} may not teach {label[:64]!r}; its labels: {own}"
            raise Forbidden(msg)
        return label

    def require_every_label(self, act: str) -> None:
        """Raise if it is limited to some labels, for an act that concerns others too.

        Raises
        ------
        Forbidden
            If it is.
        """
        if self.labels is not None:
            raise Forbidden(f"{self.name} is limited to some labels, and may not {act}")

    def require_rights(self, rights: Iterable[Right]) -> None:
        """Raise unless it has the rights that it is about to give to others.

        Raises
        ------
        Forbidden
            If it lacks one, or is limited to some labels; otherwise a client with the
            right to manage could gain rights.
        """
        self.require_every_label("give rights to others")
        lacking = sorted(right for right in rights if not self.may(right))
        if lacking:
            raise Forbidden(
                f"{self.name} cannot give the right {lacking[0]}, because it "
                "lacks that right; use `postbayes keys create`"
            )

    def require_all(self, what: str) -> None:
        """Raise if it is limited to some profiles.

        Parameters
        ----------
        what : str
            The object shared by all profiles, for the message.

        Raises
        ------
        Forbidden
            If it is.
        """
        if self.profiles is not None:
            msg = f"{self.name} is limited to some profiles, and may not use {what}"
            raise Forbidden(msg)

    @property
    def only_profile(self) -> str | None:
        """The only profile that it may use; None if there are several."""
        if self.profiles is None or len(self.profiles) != 1:
            return None
        (only,) = self.profiles
        return None if only.startswith("@") else only

    def source(self, given: str | None) -> str:
        """Return the source of its teachings in the ledger.

        Parameters
        ----------
        given : str or None
            The source that the client gives; for a key it counts only if it may name
            sources.

        Examples
        --------
        >>> LOCAL.source("ann"), LOCAL.source(None)
        ('ann', 'http')
        >>> Principal("key:mx1", ALL_RIGHTS).source("ann")
        'key:mx1'
        """
        return given if given and self.names_sources else self.name


LOCAL: Final = Principal("http", ALL_RIGHTS, kind="local", names_sources=True)
"""A client that needs no key."""
NOBODY: Final = Principal("nobody", frozenset(), frozenset(), kind="local")
"""The client of a request that everybody may make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person who may sign in.

    Parameters
    ----------
    name : str
        Name to sign in with.
    password : str or None
        Hash in the format of argon2; None if they sign in without a password.
    role : str
        A name of `app.access.rights.ROLES`.
    profile : str or None
        The only profile that they see; None means all.
    revision : int
        Number of changes; a session belongs to one revision.
    """

    name: str
    password: str | None
    role: str
    profile: str | None
    created_at: datetime
    revision: int = 1

    @property
    def has_password(self) -> bool:
        """Whether they sign in with a password."""
        return self.password is not None

    @property
    def principal(self) -> Principal:
        """The principal for sessions of this person.

        A person who teaches only one profile, such as the user of a mailbox, may also
        change its lists, which affect no one else.  A key that teaches may not, since
        it may belong to a spam trap.
        """
        rights = ROLES.get(self.role, frozenset())
        if self.profile is not None and Right.TEACH in rights:
            rights |= {Right.LISTS}
        return Principal(
            f"user:{self.name}",
            rights,
            None if self.profile is None else frozenset({self.profile}),
            "person",
        )


PREFIX: Final = "pb_"
"""Prefix of a key, by which scanners for secrets find leaked ones."""
SECRET_BYTES: Final = 32
"""Random bytes of a key."""
MAX_NAME: Final = 64
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")


def text_of(secret: bytes) -> str:
    """Return the text of a key.

    Parameters
    ----------
    secret : bytes
        `SECRET_BYTES` random bytes.

    Examples
    --------
    >>> text_of(bytes(32))
    'pb_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
    """
    return PREFIX + urlsafe_b64encode(secret).rstrip(b"=").decode()


def digest_of(text: str) -> bytes:
    """Return the stored digest of a key's text."""
    return sha256(text.encode("utf-8", "surrogateescape")).digest()


# Near the end of the calendar a time has no equal in some zones, and PostgreSQL answers
# in the zone of its session (test_an_expiry_beyond_the_calendar_is_refused).
MAX_LIFE: Final = timedelta(days=36_525)
"""From the time that a key or an entry of a list is made to its expiry, at most."""


def check_expiry(subject: str, expires_at: datetime | None, *, now: datetime) -> None:
    """Refuse an expiry in the past, or more than `MAX_LIFE` from now.

    Raises
    ------
    InvalidInput
        With the subject, which would expire then.
    """
    if expires_at is None or now < expires_at <= now + MAX_LIFE:
        return
    reason = "which is in the past"
    if expires_at > now:
        reason = "more than 100 years from now; for no expiry, leave it out"
    raise InvalidInput(f"{subject} would expire at {expires_at.isoformat()}, {reason}")


def check_access_name(name: str, *, of: str = "key") -> None:
    """Raise unless a name is valid for a key or a person.

    Raises
    ------
    InvalidInput
        The message describes valid names.
    """
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"a {of} must have a name of at most {MAX_NAME} ASCII letters, "
            "digits and . _ @ + -, the first a letter or a digit; got "
            f"{name[:MAX_NAME]!r}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """A stored key.

    Parameters
    ----------
    name : str
        Its name; the source in the ledger is `key:` and the name.
    digest : bytes
        SHA-256 of its text.
    profiles : frozenset of str or None
        The profiles that it may use, as in `Principal.profiles`; None means all.
    labels : frozenset of str or None
        The labels that it may teach; None means all.
    networks : tuple of str
        Networks from which it may be used; empty means any.
    names_sources : bool
        Whether it may name sources, as a mail server that knows its users.
    created_at, expires_at, last_used_at, revoked_at : datetime or None
        Time of each; None means never.
    """

    name: str
    digest: bytes
    rights: frozenset[Right]
    created_at: datetime
    profiles: frozenset[str] | None = None
    labels: frozenset[str] | None = None
    networks: tuple[str, ...] = ()
    names_sources: bool = False
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def principal(self) -> Principal:
        """The principal for requests with it."""
        return Principal(
            f"key:{self.name}",
            self.rights,
            self.profiles,
            "key",
            labels=self.labels,
            names_sources=self.names_sources,
        )


class Keyring:
    """The keys in force, by digest.

    Parameters
    ----------
    keys : iterable of AccessKey
        The stored keys; revoked ones are left out.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> text = text_of(bytes(32))
    >>> key = AccessKey(
    ...     name="mx1",
    ...     digest=digest_of(text),
    ...     rights=frozenset({Right.CLASSIFY}),
    ...     created_at=datetime(2026, 1, 1, tzinfo=UTC),
    ... )
    >>> keys = Keyring([key])
    >>> keys.find(text, host="192.0.2.1", time=0.0).name
    'key:mx1'
    >>> keys.find(text + "A", host="192.0.2.1", time=0.0) is None
    True
    """

    def __init__(self, keys: Iterable[AccessKey] = ()) -> None:
        self._held = {
            key.digest: (key, Networks(key.networks, of="a key"))
            for key in keys
            if key.revoked_at is None
        }

    def find(self, text: str, *, host: str | None, time: float) -> Principal | None:
        """Return the principal for a key; None if the key is not valid.

        Parameters
        ----------
        host : str or None
            Address of the client; None for a Unix socket.
        time : float
            The present time.  Unit: seconds since 1970.
        """
        # The time of the look-up reveals nothing useful, because an attacker cannot
        # choose the digest.
        held = self._held.get(digest_of(text))
        if held is None:
            return None
        key, networks = held
        if key.expires_at is not None and key.expires_at.timestamp() <= time:
            return None
        return key.principal if not networks or networks.holds(host) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One administrative event.

    Parameters
    ----------
    who : str
        The name of the principal, or `cli:` and the user of the system.
    object : str
        The key, the person or the profile.
    id : int
        Its growing number; 0 for a new event.
    """

    time: datetime
    who: str
    act: str
    object: str
    details: dict[str, Any] | None = None
    id: int = 0
