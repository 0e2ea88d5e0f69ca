"""Rights: the rights of requests, and the principals who make them.

Contract of this file: a right does not include others, except that the right to manage
includes changing lists.  The right to teach does not include reading, and the right to
manage does not include teaching.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from app.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    rights : frozenset of Right
        Its rights.
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
        """Return the name of a profile; raise if it may not use it.

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
            If it lacks one; otherwise a client with the right to manage could gain
            rights.
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
