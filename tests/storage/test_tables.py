"""The tables: moments, and what leads the keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import literal, select
from sqlalchemy.exc import StatementError

from app.storage import profiles, tables
from app.storage.database.engine import reading, writing
from tests.support.builders import new_profile
from tests.support.databases import on_one_database

moments = st.datetimes(
    min_value=datetime(1970, 1, 2),  # noqa: DTZ001  (the strategy takes naive bounds)
    max_value=datetime(9999, 12, 30),  # noqa: DTZ001
    timezones=st.sampled_from(
        [UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))]
    ),
)


def moved(engine, profile, moment):
    """Write a moment and read it again."""
    with writing(engine) as connection:
        connection.execute(
            tables.profile.update()
            .where(tables.profile.c.id == profile.id)
            .values(created_at=moment)
        )
    with reading(engine) as connection:
        return profiles.find(connection, profile.name).created_at


@on_one_database
@given(moments)
def test_a_moment_comes_back_in_utc(engine, moment):
    """To the microsecond, whatever the zone of the server or of the writer."""
    found = moved(engine, new_profile(engine), moment)

    assert moment == found
    assert UTC == found.tzinfo


def test_a_time_without_a_zone_is_refused(engine):
    """It could be any of twenty-four moments."""
    with pytest.raises(StatementError, match="no time zone"):
        moved(engine, new_profile(engine), datetime(2026, 3, 1))  # noqa: DTZ001


def test_a_missing_time_stays_missing(engine):
    """NULL is no moment."""
    with reading(engine) as connection:
        found = connection.execute(select(literal(None, tables.UtcDateTime())))

        assert found.scalar_one() is None


def test_the_profile_leads_every_key():
    """So that the tables can be distributed by it."""
    for table in tables.metadata.sorted_tables:
        first = next(iter(table.primary_key.columns)).name
        if table in tables.OF_THE_SITE:
            continue

        assert ("id" if table.name == "profile" else "profile_id") == first
        for index in table.indexes:
            assert "profile_id" == next(iter(index.columns)).name
