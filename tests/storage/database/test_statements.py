"""Prepared statements: what SQLAlchemy gives, on the driver's cursor."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta, timezone

import pytest
from psycopg.errors import InvalidCatalogName
from psycopg.pq import DiagnosticField
from sqlalchemy import bindparam, insert, select, text, update

from app.errors import DatabaseUnavailable
from app.storage import tables
from app.storage.database.dialect import Prepared
from app.storage.database.engine import reading, writing
from tests.support.builders import new_profile
from tests.support.databases import on_postgresql

ADD = Prepared(insert(tables.ledger))
COLUMNS = [column.label(column.key) for column in tables.ledger.columns]
GET = Prepared(
    select(*COLUMNS)
    .where(
        tables.ledger.c.profile_id == bindparam("profile_id"),
        # A value that the statement brings along.
        tables.ledger.c.kind == "message",
    )
    .order_by(tables.ledger.c.revision)
)
# What SQLite has no type for, and what is not there.
ROW = {
    "revision": 1,
    "digest": b"\x00\xff" * 8,
    "label_before": None,
    "label": "ham",
    "epoch": 202603,
    "vector": b"\x00",
    "encoded_names": None,
    "feature_set": 1,
    "source": "anna",
    "time": datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=2))),
    "scores": {"log_odds": 0.1, "views": {"words": None}},
    "kind": "message",
    "undo": None,
}


def stored(engine, profile):
    """Return the rows of a ledger as SQLAlchemy reads them."""
    with reading(engine) as connection:
        rows = connection.execute(
            select(*COLUMNS)
            .where(tables.ledger.c.profile_id == profile.id)
            .order_by(tables.ledger.c.revision)
        )
        return [row._asdict() for row in rows]


def test_what_is_inserted_is_what_sqlalchemy_reads(engine):
    """Bytes, times, JSON and what is missing, one row or several at once."""
    profile = new_profile(engine)
    row = ROW | {"profile_id": profile.id}
    more = [row | {"revision": 2, "scores": None}, row | {"revision": 3, "undo": 7}]
    with writing(engine) as connection:
        ADD.change(connection, [row])
        ADD.change(connection, more)
        ADD.change(connection, [])

    assert [row, *more] == stored(engine, profile)
    assert UTC == stored(engine, profile)[0]["time"].tzinfo


def test_what_is_read_is_what_sqlalchemy_reads(engine):
    """Each row has the names and the types of its columns."""
    profile = new_profile(engine)
    with writing(engine) as connection:
        connection.execute(
            insert(tables.ledger),
            [
                ROW | {"profile_id": profile.id, "revision": revision, "kind": kind}
                for revision, kind in ((1, "message"), (2, "sum"), (3, "message"))
            ],
        )
    with reading(engine) as connection:
        rows = GET.rows(connection, profile_id=profile.id)
        none = GET.rows(connection, profile_id=profile.id + 1)

    first, _, last = stored(engine, profile)
    assert [first, last] == [row._asdict() for row in rows]
    assert [] == none


def test_it_runs_in_the_transaction_of_the_connection(engine):
    """A rollback undoes it."""
    profile = new_profile(engine)

    def failing():
        with writing(engine) as connection:
            ADD.change(connection, [ROW | {"profile_id": profile.id}])
            assert 1 == len(GET.rows(connection, profile_id=profile.id))
            raise LookupError

    with pytest.raises(LookupError):
        failing()
    assert [] == stored(engine, profile)


def test_a_defect_is_raised_as_the_driver_says_it(engine):
    """The database is not unavailable, so trying again would not help."""
    profile = new_profile(engine)
    move = Prepared(
        update(tables.profile)
        .where(tables.profile.c.id == bindparam("profile_id"))
        .values(name=bindparam("new_name"))
    )

    def failing():
        with writing(engine) as connection:
            move.change(connection, [{"profile_id": profile.id, "new_name": None}])

    with pytest.raises(engine.dialect.loaded_dbapi.IntegrityError):
        failing()


@on_postgresql
def test_what_ends_a_session_is_no_defect(engine):
    """PgBouncer 1.24 passes on why it cannot log in to the server."""
    message = 'database "postbayes" does not exist'
    refused = InvalidCatalogName(message, info={DiagnosticField.SEVERITY: b"FATAL"})

    with (
        pytest.raises(DatabaseUnavailable, match=f"is unavailable: {message}. Nothing"),
        writing(engine),
    ):
        raise refused


@on_postgresql
def test_a_connection_that_is_lost_is_not_used_again(engine, caplog):
    """Nothing is rolled back on it, which would log a traceback."""
    profile = new_profile(engine)

    def killed():
        with writing(engine) as connection:
            own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with writing(engine) as other:
                other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": own})
            ADD.change(connection, [ROW | {"profile_id": profile.id}])

    with caplog.at_level(logging.ERROR), pytest.raises(DatabaseUnavailable):
        killed()
    assert [] == caplog.records
    assert [] == stored(engine, profile)
