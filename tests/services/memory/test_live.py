"""What the ledger has is followed in memory, and what it has not is told."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from app.storage import profiles, tables
from app.storage.database.engine import writing
from app.storage.ledger import append
from tests.support.builders import taught


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


def test_a_row_that_cannot_be_read_is_told_once(app, caplog):
    """It is tried twice a second; once it is mended, the next one is told again."""

    def change(vector):
        with writing(app.engine) as connection:
            connection.execute(update(tables.ledger).values(vector=vector))
        for _ in range(3):
            app.live.refresh()
        return caplog.text.count("cannot follow: A stored vector has version")

    with writing(app.engine) as connection:
        row = profiles.find(connection, "default")
        append(connection, row, [taught(1, "spam", {"money": 1})])
        vector = connection.execute(select(tables.ledger.c.vector)).scalar_one()

    assert [1, 1] == [change(b"nonsense"), change(vector)]
    with writing(app.engine) as connection:
        append(connection, row, [taught(2, "spam", {"money": 1})])
    assert 2 == change(b"nonsense")


def test_a_row_that_takes_back_what_was_not_learned_is_told(app, caplog):
    """What is in memory stays as it is."""
    with writing(app.engine) as connection:
        row = profiles.find(connection, "default")
        append(connection, row, [taught(1, "spam", {"money": 1})])
        append(connection, row, [taught(1, "ham")])
        connection.execute(
            update(tables.ledger)
            .where(tables.ledger.c.revision == 2)
            .values(label_before="ham", label="spam")
        )
    known = app.live.get("default").snapshot

    app.live.refresh()

    assert "cannot follow: a count of messages would be negative: -1" in caplog.text
    assert known is app.live.get("default").snapshot
