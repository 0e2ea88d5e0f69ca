"""A connection that stays open between the transactions of one thread."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from app.storage.database.engine import Kept, reading
from app.storage.tables import profile as table
from tests.support.builders import new_profile
from tests.support.databases import on_postgresql, on_sqlite


@pytest.fixture
def kept(engine):
    """What writes to the database of a test."""
    keeper = Kept(engine)
    yield keeper
    keeper.close()


def move(kept, revision):
    """Write something, and return the driver's connection."""
    with kept.writing() as connection:
        connection.execute(update(table).values(revision=revision))
        return connection.connection.dbapi_connection


def revision_of(engine):
    """Return what was committed."""
    with reading(engine) as connection:
        return connection.execute(select(table.c.revision)).scalar_one()


def test_each_transaction_is_committed(engine, kept):
    """As if each had a connection of its own."""
    new_profile(engine)

    seen = []
    for revision in (1, 2, 3):
        move(kept, revision)
        seen.append(revision_of(engine))

    assert [1, 2, 3] == seen


@on_sqlite
def test_its_connection_stays_open(engine, kept):
    """The pool is not asked again until it is closed."""
    new_profile(engine)

    first, second = move(kept, 1), move(kept, 2)
    out = engine.pool.checkedout()
    kept.close()

    assert first is second
    assert (1, 0) == (out, engine.pool.checkedout())


@on_postgresql
def test_a_server_is_asked_whether_it_is_alive(engine, kept):
    """So its connections go back to the pool, which asks."""
    new_profile(engine)

    move(kept, 1)

    assert 0 == engine.pool.checkedout()


def test_what_fails_is_rolled_back(engine, kept):
    """The next transaction has a connection that works."""
    new_profile(engine)
    move(kept, 1)

    def fail():
        with kept.writing() as connection:
            connection.execute(update(table).values(revision=2))
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert (0, 1) == (engine.pool.checkedout(), revision_of(engine))
    move(kept, 3)
    assert 3 == revision_of(engine)


def test_it_may_be_closed_twice(engine, kept):
    """And used again afterwards."""
    new_profile(engine)
    kept.close()
    move(kept, 1)
    kept.close()
    kept.close()
    move(kept, 2)

    assert 2 == revision_of(engine)
