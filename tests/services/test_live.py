"""What the ledger has is followed in memory, and what it has not is told."""

from __future__ import annotations

from sqlalchemy import update

from app.storage import profiles, tables
from app.storage.append import append
from app.storage.engine import writing
from tests.storage.builders import taught


def test_a_row_that_cannot_be_read_is_told_once(app, caplog):
    """It is tried twice a second, and nobody mends it meanwhile."""
    with writing(app.engine) as connection:
        row = profiles.find(connection, "default")
        append(connection, row, [taught(1, "spam", {"money": 1})])
        connection.execute(update(tables.ledger).values(vector=b"nonsense"))
    for _ in range(3):
        app.live.refresh()

    assert 1 == caplog.text.count("cannot follow: A stored vector has version")
