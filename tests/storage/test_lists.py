"""Correspondents in the database: read a part at a time."""

from __future__ import annotations

from sqlalchemy import text

from app.storage import lists
from app.storage.database.engine import reading, writing
from app.storage.lists import CorrespondentRow
from tests.support.builders import MARCH, new_profile
from tests.support.databases import on_postgresql


@on_postgresql
def test_correspondents_are_read_a_part_at_a_time(engine, monkeypatch):
    """The driver would otherwise fetch every row of the table before the first."""
    monkeypatch.setattr(lists, "_PART", 2)
    profile = new_profile(engine)
    rows = [CorrespondentRow(profile.id, bytes((n,)), b"x", 1, MARCH) for n in range(5)]
    with writing(engine) as connection:
        lists.add_correspondents(connection, rows)
    with reading(engine) as connection:
        parts = lists.correspondents_in_parts(connection)
        first = next(parts)
        cursors = connection.scalar(text("SELECT count(*) FROM pg_cursors"))
        rest = list(parts)

    assert ([2, 2, 1], 1) == ([len(first), *map(len, rest)], cursors)
    assert sorted(rows) == sorted(row for part in (first, *rest) for row in part)


@on_postgresql
def test_who_drops_correspondents_does_not_wait_for_who_writes_to_them(engine):
    """Those are not the oldest any more; the others go."""
    profile = new_profile(engine)
    rows = [CorrespondentRow(profile.id, bytes((n,)), b"x", 1, MARCH) for n in range(3)]
    with writing(engine) as connection:
        lists.add_correspondents(connection, rows)
    with writing(engine) as connection:
        lists.add_correspondents(connection, rows[:1])
        with writing(engine) as other:
            lists.drop_oldest_correspondents(other, profile.id, most=0)
    with reading(engine) as connection:
        (kept,) = lists.correspondents_in_parts(connection)

    assert [rows[0]._replace(messages=2)] == kept
