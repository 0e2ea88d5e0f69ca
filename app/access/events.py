"""Events: what somebody did, beside the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """What somebody did, beside the ledger.

    Parameters
    ----------
    time : datetime
        When.
    who : str
        The name of the principal, or `cli:` and the user of the system.
    act : str
        What was done.
    object : str
        The key, the person or the profile.
    details : dict or None
        What else there is to say.
    id : int
        Its number, which grows; 0 for a new one.
    """

    time: datetime
    who: str
    act: str
    object: str
    details: dict[str, Any] | None = None
    id: int = 0
