"""Events: who did what beside the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.access.events import AuditEvent
from app.services.clock import now
from app.storage import access
from app.storage.database.engine import reading, writing

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection, Engine

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
        What else there is to say, as JSON has it.
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
