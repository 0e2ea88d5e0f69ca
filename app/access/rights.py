"""Rights: what a request may do, and the principal who makes it.

Contract of this file: a right covers nothing but itself.  Whoever may teach may not
read for that reason, and whoever may manage may not teach.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal


class Right(StrEnum):
    """What a route or the command of a door asks for."""

    CLASSIFY = "classify"
    TEACH = "teach"
    READ = "read"
    MANAGE = "manage"
    REPLICATE = "replicate"


MEANINGS: Final = {
    Right.CLASSIFY: "Score messages, and see why.",
    Right.TEACH: "Teach messages, and take single ones back for good.",
    Right.READ: "See profiles, figures, words, history and metrics.",
    Right.MANAGE: "Undo, and change policies, lists, keys and people.",
    Right.REPLICATE: "Copy the ledger to another service.",
}
"""Each right in one sentence."""
ALL_RIGHTS: Final = frozenset(Right)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks.

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
    """

    name: str
    rights: frozenset[Right]
    profiles: frozenset[str] | None = None
    kind: Literal["local", "key", "person"] = "key"

    def may(self, right: Right | None) -> bool:
        """Return whether it has a right; None is what everybody may."""
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


LOCAL: Final = Principal("http", ALL_RIGHTS, kind="local")
"""A client that needs no key."""
