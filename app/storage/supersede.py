"""How does a profile begin anew under its name?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select, update

from app.storage import profiles, tables

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from app.storage.profiles import ProfileRow


def supersede(
    connection: Connection,
    old: ProfileRow,
    *,
    labels: tuple[str, ...],
    spam_labels: tuple[str, ...],
    created_at: datetime,
    policy: object,
) -> ProfileRow:
    """Return a profile that has learned nothing, in the place of `old`.

    What was scored lately can still be taught by its id.

    Notes
    -----
    It has another key than `old`: a process that holds the old one in memory
    would otherwise take the new ledger for the continuation of the old.
    """
    # Nobody appends from here on: whoever waits finds the row gone.
    connection.execute(
        select(tables.profile.c.id)
        .where(tables.profile.c.id == old.id)
        .with_for_update()
    ).scalar_one()
    # No name that `check_name` allows has a blank.
    new = profiles.create(
        connection,
        name=f"{old.name} (new)",
        labels=labels,
        spam_labels=spam_labels,
        feature_set=old.feature_set,
        created_at=created_at,
    )
    connection.execute(
        update(tables.scored)
        .where(tables.scored.c.profile_id == old.id)
        .values(profile_id=new.id)
    )
    for table in reversed(tables.metadata.sorted_tables):
        if "profile_id" in table.c:
            connection.execute(delete(table).where(table.c.profile_id == old.id))
    connection.execute(delete(tables.profile).where(tables.profile.c.id == old.id))
    connection.execute(
        update(tables.profile)
        .where(tables.profile.c.id == new.id)
        .values(name=old.name, policy=policy or None)
    )
    return profiles.find(connection, old.name)
