"""What was scored lately: a bounded table."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier, Thread

import pytest
from sqlalchemy import text

from app.errors import DatabaseUnavailable
from app.ledger import entry
from app.services.upkeep import erase_some
from app.storage import scored, tables
from app.storage.database.engine import reading, writing
from tests.support.builders import (
    MARCH,
    digest,
    fold_all,
    new_profile,
    observed,
    taught,
    teach,
)
from tests.support.databases import on_postgresql


def row(message, minutes=0, words=("money",)):
    """Return a message that was scored some minutes after the first."""
    return entry.ScoredRow.of(
        observed(message, dict.fromkeys(words, 1)),
        time=MARCH + timedelta(minutes=minutes),
    )


def put(engine, profile, *rows):
    """Remember messages in a transaction of their own."""
    with writing(engine) as connection:
        scored.put_many(connection, profile.id, rows)


def left(engine, profile, messages):
    """Return which of the messages are still remembered."""
    with reading(engine) as connection:
        found = scored.get_many(connection, profile.id, map(digest, messages))
    return [message for message in messages if digest(message) in found]


def expire(engine, profile, *, minutes, keep=100, keep_bytes=10**9, limit=100):
    """Forget all that was scored before that minute, and all but the newest."""
    since = MARCH + timedelta(minutes=minutes)
    kept = scored.Kept(tables.scored, since, keep, keep_bytes)
    with writing(engine) as connection:
        upto = scored.last_over(connection, kept, profile.id)
        return scored.expire(connection, kept, profile.id, upto=upto, limit=limit)


def test_a_scored_message_comes_back_as_it_was(engine):
    """With its vector, names and time; another is not there."""
    profile = new_profile(engine)
    put(engine, profile, row(1))
    with reading(engine) as connection:
        found = scored.get_many(connection, profile.id, [digest(1)]).get(digest(1))
        missing = scored.get_many(connection, profile.id, [digest(2)]).get(digest(2))

    assert row(1) == found
    assert missing is None


def test_scoring_a_message_again_renews_it(engine):
    """The newest features and time count, in one batch too."""
    profile = new_profile(engine)
    put(engine, profile, row(1))
    put(engine, profile, row(1, minutes=1), row(1, minutes=2, words=["other"]))
    with reading(engine) as connection:
        found = scored.get_many(connection, profile.id, [digest(1)]).get(digest(1))

    assert row(1, minutes=2, words=["other"]) == found


def test_nothing_to_remember_is_nothing_to_do(engine):
    """An empty batch is fine."""
    profile = new_profile(engine)
    put(engine, profile)

    assert [] == left(engine, profile, [])


def test_what_is_too_old_goes(engine):
    """The boundary itself stays."""
    profile = new_profile(engine)
    put(engine, profile, *(row(m, minutes=m) for m in range(5)))

    assert 2 == expire(engine, profile, minutes=2, keep=100)
    assert [2, 3, 4] == left(engine, profile, range(5))


def test_what_is_too_much_goes(engine):
    """The newest stay, exactly as many as are to be kept."""
    profile = new_profile(engine)
    put(engine, profile, *(row(m, minutes=m) for m in range(5)))

    assert 3 == expire(engine, profile, minutes=0, keep=2)
    assert [3, 4] == left(engine, profile, range(5))
    assert 0 == expire(engine, profile, minutes=0, keep=2)
    assert 2 == expire(engine, profile, minutes=0, keep=0)


def test_the_oldest_go_a_few_at_a_time(engine):
    """Nobody waits for fifty thousand of them; what is left goes next."""
    profile = new_profile(engine)
    put(engine, profile, *(row(m, minutes=m) for m in range(5)))

    assert 2 == expire(engine, profile, minutes=0, keep=2, limit=2)
    assert [2, 3, 4] == left(engine, profile, range(5))
    assert 1 == expire(engine, profile, minutes=0, keep=2, limit=2)
    assert [3, 4] == left(engine, profile, range(5))


def test_messages_of_one_moment_are_bounded_too(engine):
    """A batch has one time; still exactly as many stay as are to be kept."""
    profile = new_profile(engine)
    put(engine, profile, *(row(m) for m in range(10)))

    assert 6 == expire(engine, profile, minutes=0, keep=4)
    assert 4 == len(left(engine, profile, range(10)))


def test_profiles_do_not_expire_each_other(engine):
    """Each has its own bounds."""
    one, other = new_profile(engine), new_profile(engine)
    put(engine, one, row(1))
    put(engine, other, row(1))

    assert 1 == expire(engine, one, minutes=9, keep=0)
    assert [1] == left(engine, other, [1])


def test_more_messages_than_fit_one_query_are_found(engine):
    """All of 1,100."""
    profile = new_profile(engine)
    put(engine, profile, *(row(m) for m in range(1100)))

    assert list(range(1100)) == left(engine, profile, range(1100))


@on_postgresql
def test_expiry_does_not_wait_for_a_row_that_is_being_written(engine):
    """That row is new again; the others go."""
    profile = new_profile(engine)
    put(engine, profile, row(1), row(2), row(3))
    with writing(engine) as connection:
        scored.put_many(connection, profile.id, [row(2, minutes=9)])

        assert 2 == expire(engine, profile, minutes=5, keep=100)
    assert [2] == left(engine, profile, [1, 2, 3])


def test_workers_that_remember_the_same_messages_do_not_deadlock(engine):
    """Whatever the order of their batches, and with expiry between them."""
    profile = new_profile(engine)
    barrier = Barrier(4)
    failures = []

    def run(number):
        barrier.wait()
        try:
            for n in range(15):
                batch = [row(m, minutes=n) for m in range(40)]
                put(engine, profile, *(batch if number % 2 else reversed(batch)))
                expire(engine, profile, minutes=n, keep=30)
        except DatabaseUnavailable as error:
            failures.append(error)

    threads = [Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == failures


@on_postgresql
@pytest.mark.parametrize("who", ["a person", "the erasure"])
def test_who_forgets_messages_does_not_deadlock_with_who_stores_them(engine, who):
    """All lock the rows in the order of their keys, not as they lie in the table."""
    profile = new_profile(engine)
    first, second = sorted([1, 2], key=digest)
    # The table and the ledger have them in the other order.
    put(engine, profile, row(second))
    put(engine, profile, row(first))
    for label in ("ham", None) if who == "the erasure" else ():
        teach(engine, profile, *(taught(n, label, {"a": 1}) for n in (second, first)))
        fold_all(engine, profile)
        put(engine, profile, row(second), row(first))

    def forget():
        if who == "the erasure":
            assert erase_some(engine, profile, upto=4)
            return
        with writing(engine) as connection:
            connection.execute(text("SET LOCAL enable_indexscan = off"))
            scored.forget(connection, profile.id, [digest(second), digest(first)])

    thread = Thread(target=forget)
    waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with writing(engine) as connection:
        scored.put_many(connection, profile.id, [row(first)])
        thread.start()
        while thread.is_alive() and not connection.scalar(waits):
            pass
        scored.put_many(connection, profile.id, [row(second)])
    thread.join()

    assert [] == left(engine, profile, [first, second])


def test_the_newest_that_fit_into_some_bytes_stay(engine):
    """However few rows they are: one message may be as large as a thousand."""
    profile = new_profile(engine)
    size = row(1).stored_bytes
    put(engine, profile, *(row(n, minutes=n) for n in range(5)))

    assert 3 == expire(engine, profile, minutes=0, keep_bytes=2 * size + 1)
    assert [3, 4] == left(engine, profile, range(5))
    assert 0 == expire(engine, profile, minutes=0, keep_bytes=2 * size)


def test_large_rows_are_forgotten_a_few_at_a_time(engine, monkeypatch):
    """SQLite overwrites what is deleted, under its write lock; one goes always."""
    profile = new_profile(engine)
    size = row(1).stored_bytes
    put(engine, profile, *(row(n, minutes=n) for n in range(5)))
    monkeypatch.setattr(scored, "EXPIRED_BYTES", 2 * size)

    assert 2 == expire(engine, profile, minutes=9)
    monkeypatch.setattr(scored, "EXPIRED_BYTES", 1)
    assert 1 == expire(engine, profile, minutes=9)
    assert [3, 4] == left(engine, profile, range(5))
