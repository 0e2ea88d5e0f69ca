"""Rights: what a request may do, and the principal who makes it.

Contract of this file: a right covers nothing but itself, except that whoever manages
also changes lists.  Whoever may teach may not read for that reason, and whoever may
manage may not teach.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from app.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable


class Right(StrEnum):
    """The right that a route or the command of a door needs."""

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
"""The rights of people who sign in, by their role."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The client of a request.

    Parameters
    ----------
    name : str
        As it stands in the ledger's `source`: `key:mx1`, `user:anna`, `http`.
    rights : frozenset of Right
        What it may do.
    profiles : frozenset of str or None
        Names of the profiles that it may use; `@example.org` stands for the profile of
        a domain and those of its addresses.  None: all.
    kind : str
        A client of this machine or of a network that needs no key, a key, or a person.
    labels : frozenset of str or None
        The labels that it may teach.  None: all.
    names_sources : bool
        Whether the source that it gives is that of the ledger.
    """

    name: str
    rights: frozenset[Right]
    profiles: frozenset[str] | None = None
    kind: Literal["local", "key", "person"] = "key"
    labels: frozenset[str] | None = None
    names_sources: bool = False

    def may(self, right: Right | None) -> bool:
        """Return whether it has a right; None is what everybody may."""
        if right is Right.LISTS and Right.MANAGE in self.rights:
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
        """Return the name of a profile that it may use.

        Raises
        ------
        Forbidden
            If it may not.
        """
        if not self.may_use(profile):
            own = ", ".join(sorted(self.profiles or ())) or "none"
            msg = (
                f"{self.name} may not use the profile {profile!r}; its profiles: {own}"
            )
            raise Forbidden(msg)
        return profile

    def require_label(self, label: str) -> str:
        """Return a label that it may teach.

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
        """Raise if it is limited to some labels, since an act speaks for another one.

        Raises
        ------
        Forbidden
            If it is.
        """
        if self.labels is not None:
            raise Forbidden(f"{self.name} is limited to some labels, and may not {act}")

    def require_rights(self, rights: Iterable[Right]) -> None:
        """Raise unless it has some rights, which it is about to give to others.

        Raises
        ------
        Forbidden
            If it lacks one: a client with the right to manage could otherwise escalate.
        """
        lacking = sorted(right for right in rights if not self.may(right))
        if lacking:
            msg = (
                f"{self.name} cannot give the right {lacking[0]}, because it "
                "lacks that right; use `postbayes keys create`"
            )
            raise Forbidden(msg)

    def require_all(self, what: str) -> None:
        """Raise if it is limited to some profiles.

        Parameters
        ----------
        what : str
            What is of all profiles, for the sentence.

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
        """The one profile that it may use; None where there are several."""
        if self.profiles is None or len(self.profiles) != 1:
            return None
        (only,) = self.profiles
        return None if only.startswith("@") else only

    def source(self, given: str | None) -> str:
        """Return what the ledger says of who teaches.

        Parameters
        ----------
        given : str or None
            What the client says; that of a key counts only if it may name sources.

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
"""Whoever asks what everybody may."""
