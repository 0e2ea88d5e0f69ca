"""How does what was taught get into the ledger? In its order, all of it or nothing."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, func, select

from app.storage import ledger, profiles, scored, tables
from app.storage.entry import OWN
from app.storage.teaching import decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from app.storage.entry import LedgerRow
    from app.storage.profiles import ProfileRow
    from app.storage.teaching import Outcome, Teaching

_OWN_OF_DAY: Final = select(func.count()).where(
    tables.ledger.c.profile_id == bindparam("profile_id"),
    tables.ledger.c.source == OWN,
    tables.ledger.c.time >= bindparam("midnight"),
)


def append(
    connection: Connection, profile: ProfileRow, teachings: Sequence[Teaching]
) -> list[Outcome]:
    """Write what was taught into the ledger, all of it or nothing.

    The teachings are decided in their order, so a message may occur in them
    twice.  Revisions are consecutive, and the order of commits is the order of
    revisions: the profile stays locked until the transaction ends.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile : ProfileRow
        Whose ledger.
    teachings : sequence of Teaching
        What to write.

    Returns
    -------
    list of Outcome
        One per teaching, in the same order.

    Raises
    ------
    UnknownLabel
        If a label is not one of the profile's; nothing is written.
    ProfileReplaced
        If the profile is gone.
    """
    for teaching in teachings:
        profiles.require_label(profile, teaching.label)
    revision = profiles.lock(connection, profile)
    latest_rows = ledger.latest_of(
        connection, profile.id, {teaching.digest for teaching in teachings}
    )
    learned = {digest for digest, row in latest_rows.items() if row.label is not None}
    scored_rows = scored.get_many(
        connection,
        profile.id,
        {
            teaching.digest
            for teaching in teachings
            if teaching.evidence is None and teaching.label is not None
        }
        - learned,
    )
    own_before = _own_of_day(connection, profile.id, teachings)
    outcomes = []
    written: list[LedgerRow] = []
    for teaching in teachings:
        outcome = decide(
            teaching,
            before=latest_rows.get(teaching.digest),
            remembered=scored_rows.get(teaching.digest),
            revision=revision + len(written) + 1,
            own_before=own_before,
        )
        outcomes.append(outcome)
        if outcome.row is not None:
            latest_rows[teaching.digest] = outcome.row
            written.append(outcome.row)
            own_before += outcome.row.own
    ledger.write(connection, profile.id, written)
    return outcomes


def _own_of_day(
    connection: Connection, profile_id: int, teachings: Sequence[Teaching]
) -> int:
    """Return how many verdicts were learned unasked on the day of the newest one."""
    times = [teaching.time for teaching in teachings if teaching.own]
    if not times:
        return 0
    newest = max(times).astimezone(UTC)
    midnight = newest.replace(hour=0, minute=0, second=0, microsecond=0)
    found: int = connection.execute(
        _OWN_OF_DAY, {"profile_id": profile_id, "midnight": midnight}
    ).scalar_one()
    return found
