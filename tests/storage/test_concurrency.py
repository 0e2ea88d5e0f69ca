"""Many writers on one profile: nothing is lost, and the order is one."""

from __future__ import annotations

import random
from threading import Barrier, Event, Thread

from app.errors import DatabaseUnavailable
from app.storage.database.engine import open_engine, reading, writing
from app.storage.fold import audit, prepare, write
from app.storage.ledger import rows_after
from app.storage.scored import put_many
from tests.support.builders import new_profile, taught, teach

WRITERS = 6
ROUNDS = 12
MANY = 32


def run_all(threads):
    """Run threads to their end."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_commits_are_in_the_order_of_revisions(engine):
    """A reader that follows by revision never misses a row that commits late."""
    profile = new_profile(engine)
    barrier = Barrier(WRITERS + 1)
    done = Event()
    gaps = []
    followed = []

    def write(number):
        barrier.wait()
        for n in range(ROUNDS):
            batch = [taught((number, n, i), "ham", {"a": 1}) for i in range(n % 3 + 1)]
            teach(engine, profile, *batch)

    def follow():
        barrier.wait()
        last = 0
        while True:
            finished = done.is_set()
            with reading(engine) as connection:
                rows = rows_after(connection, profile.id, revision=last, limit=1000)
            revisions = [row.revision for row in rows]
            if revisions != list(range(last + 1, last + 1 + len(rows))):
                gaps.append((last, revisions))
            followed.extend(row.digest for row in rows)
            last += len(rows)
            if finished and not rows:
                return

    follower = Thread(target=follow)
    follower.start()
    run_all([Thread(target=write, args=(number,)) for number in range(WRITERS)])
    done.set()
    follower.join()

    assert [] == gaps
    assert WRITERS * ROUNDS * 2 == len(followed) == len(set(followed))


def test_a_message_taught_by_many_at_once_is_learned_once(engine):
    """One learns it, the others find it unchanged."""
    profile = new_profile(engine)
    barrier = Barrier(WRITERS)
    kinds = []

    def write():
        barrier.wait()
        (outcome,) = teach(engine, profile, taught("the same", "spam", {"a": 1}))
        kinds.append(outcome.kind)

    run_all([Thread(target=write) for _ in range(WRITERS)])

    assert ["learned"] + ["unchanged"] * (WRITERS - 1) == sorted(kinds)


def test_workers_with_engines_of_their_own_lose_nothing(engine, database_url):
    """As several processes have: they wait for each other in the database."""
    profile = new_profile(engine)
    barrier = Barrier(WRITERS)
    failures = []

    def work(number):
        own = open_engine(database_url, busy_timeout=30)
        barrier.wait()
        try:
            for n in range(ROUNDS):
                teach(own, profile, taught((number, n), "ham", {"a": 1}))
        except DatabaseUnavailable as error:
            failures.append(error)
        own.dispose()

    run_all([Thread(target=work, args=(number,)) for number in range(WRITERS)])
    with reading(engine) as connection:
        found = audit(connection, profile)

    assert [] == failures
    assert found.sound
    assert WRITERS * ROUNDS == found.ledger_rows == found.revision


def test_many_writers_and_folds_never_deadlock(engine, database_url):
    """Thirty-two connections learn, move, forget, remember and fold the same things."""
    profiles = [new_profile(engine) for _ in range(2)]
    barrier = Barrier(MANY)
    failures = []

    def work(number):
        own = open_engine(database_url, busy_timeout=60, pool_size=1)
        rng = random.Random(number)  # noqa: S311  (no secret)
        barrier.wait()
        try:
            for _ in range(4):
                profile = rng.choice(profiles)
                words = {word: 1 for word in "abcdefgh" if rng.random() < 0.5}
                batch = [
                    taught(rng.randrange(12), rng.choice(["ham", "spam", None]), words)
                    for _ in range(3)
                ]
                teach(own, profile, *batch)
                rows = [each.evidence for each in batch]
                with writing(own) as connection:
                    put_many(connection, profile.id, rows)
                with reading(own) as connection:
                    step = prepare(connection, profile, limit=3)
                if step is not None:
                    with writing(own) as connection:
                        write(connection, profile, step)
        except DatabaseUnavailable as error:
            failures.append(error)
        own.dispose()

    run_all([Thread(target=work, args=(number,)) for number in range(MANY)])
    with reading(engine) as connection:
        audits = [audit(connection, profile) for profile in profiles]

    assert [] == failures
    assert [True, True] == [found.sound for found in audits]
    assert all(found.folded_revision > 0 for found in audits)
