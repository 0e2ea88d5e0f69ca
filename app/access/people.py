"""People: who may sign in, and what they may do then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.access.rights import ROLES, Principal, Right

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who may sign in.

    Parameters
    ----------
    name : str
        What they sign in as.
    password : str or None
        As argon2 writes it; None: not with a password.
    role : str
        A name of `app.access.rights.ROLES`.
    profile : str or None
        The only profile that they see; None: all.
    created : datetime
        When they were added.
    revision : int
        Counts the changes; a session is of one revision.
    """

    name: str
    password: str | None
    role: str
    profile: str | None
    created: datetime
    revision: int = 1

    @property
    def principal(self) -> Principal:
        """Who asks in a session of this person.

        Whoever teaches one profile alone, as the user of a mailbox, changes its lists,
        too: an entry moves nobody else's verdicts.  A key that teaches does not, since
        it may be that of a spam trap.
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
