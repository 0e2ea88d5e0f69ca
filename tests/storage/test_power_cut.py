"""A power cut in the middle of a write to SQLite's files: what was committed stays.

What was synced before is on the disk.  Of what was being written any sector may be
there and any may not, in no order.
"""

from __future__ import annotations

import random

import pytest

from app.storage.database.engine import checkpoint, open_engine, reading, writing
from app.storage.fold import audit
from app.storage.ledger import rows_after
from tests.support.builders import digest, fold, new_profile, taught, teach
from tests.support.databases import on_sqlite

# Disks write whole sectors; older ones have them of this size.
SECTOR = 512
COMMITTED = 6
GROUP = 3


def words(n):
    """Return the words of a message; some are common, and some its own."""
    return {f"word{i}": 1 for i in range(n % 4, 60)} | {f"own{n}": 1}


def files(folder):
    """Return the database and its log, as they are."""
    return [(folder / f"postbayes.db{suffix}").read_bytes() for suffix in ("", "-wal")]


def torn(old, new, rng):
    """Return a file of which some sectors were written, and some were not."""
    kept = rng.choice([0.05, 0.5, 0.95])
    mixed = bytearray(new)
    for start in range(0, len(new), SECTOR):
        if rng.random() > kept:
            end = min(start + SECTOR, len(new))
            mixed[start:end] = old[start:end].ljust(end - start, b"\0")
    return bytes(mixed)


@pytest.fixture
def found(tmp_path):
    """Returns how many messages a copy has, and whether it is whole."""
    home = tmp_path / "copy"
    home.mkdir()

    def found(profile, database, log):
        for file in home.iterdir():
            file.unlink()
        (home / "postbayes.db").write_bytes(database)
        (home / "postbayes.db-wal").write_bytes(log)
        engine = open_engine(f"sqlite:///{home}/postbayes.db")
        with reading(engine) as connection:
            rows = rows_after(connection, profile.id, revision=0, limit=1000)
            sound = audit(connection, profile).sound
        engine.dispose()
        in_order = [digest(n) for n in range(len(rows))] == [row.digest for row in rows]
        return len(rows), sound and in_order

    return found


@pytest.fixture
def profile(engine):
    """A profile with some messages, half of them folded."""
    profile = new_profile(engine)
    for n in range(COMMITTED):
        teach(engine, profile, taught(n, "spam" if n % 2 else "ham", words(n)))
    with writing(engine) as connection:
        fold(connection, profile, limit=COMMITTED // 2)
    return profile


def commit_one_more_group(engine, profile):
    """Commit a few messages in one transaction, as feedback at once is."""
    group = range(COMMITTED, COMMITTED + GROUP)
    teach(engine, profile, *(taught(n, "spam", words(n)) for n in group))


@on_sqlite
def test_a_commit_that_was_cut_off_is_there_whole_or_not_at_all(
    engine, tmp_path, profile, found
):
    """At every length of its log: those before are there, and never half of it."""
    database, before = files(tmp_path)
    commit_one_more_group(engine, profile)
    same, after = files(tmp_path)

    there = [
        found(profile, database, after[:length])
        for length in [*range(len(before), len(after), SECTOR - 1), len(after)]
    ]

    assert database == same
    assert [(COMMITTED, True)] * (len(there) - 1) == there[:-1]
    assert (COMMITTED + GROUP, True) == there[-1]


@on_sqlite
def test_sectors_of_a_commit_may_be_lost_in_any_order(engine, tmp_path, profile, found):
    """A log with holes counts for nothing from the first of them on."""
    rng = random.Random(20261121)  # noqa: S311  (no secret)
    database, before = files(tmp_path)
    commit_one_more_group(engine, profile)
    _, after = files(tmp_path)

    there = {found(profile, database, torn(before, after, rng)) for _ in range(60)}

    all_of_it = {(COMMITTED, True), (COMMITTED + GROUP, True)}
    assert {(COMMITTED, True)} <= there <= all_of_it


@on_sqlite
def test_a_checkpoint_that_was_cut_off_loses_nothing(engine, tmp_path, profile, found):
    """The log holds all of it until the database does."""
    rng = random.Random(20261122)  # noqa: S311  (no secret)
    commit_one_more_group(engine, profile)
    before, log = files(tmp_path)
    checkpoint(engine)
    after, same = files(tmp_path)

    there = {found(profile, torn(before, after, rng), log) for _ in range(60)}

    assert log == same
    assert before != after
    assert {(COMMITTED + GROUP, True)} == there
