"""Backups: made beside a service that learns, and answering as it does."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
from contextlib import closing

import numpy as np
import pytest

from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.errors import DatabaseDamaged, InvalidInput, UnwritableFile
from app.ledger.entry import ScoredRow
from app.ledger.teaching import Teaching
from app.storage import profiles
from app.storage.database.engine import backup, open_engine, reading, writing
from app.storage.fold import audit, load
from app.storage.ledger import append
from tests.support import postgres
from tests.support.builders import (
    MARCH,
    damage,
    fold_all,
    new_profile,
    seen,
    taught,
    teach,
)
from tests.support.databases import on_postgresql, on_sqlite, postgres_database
from tests.support.messages import ham, spam

SPECIFICATION = Specification()


def learned(engine):
    """Return the name of a profile that has learned twenty real messages."""
    profile = new_profile(engine)
    teachings = [
        Teaching(
            digest=seen(raw).digest,
            label=label,
            evidence=ScoredRow.of(seen(raw), time=MARCH),
            source="anna",
            time=MARCH,
        )
        for n in range(10)
        for label, raw in (("ham", ham(n)), ("spam", spam(n)))
    ]
    with writing(engine) as connection:
        append(connection, profile, teachings)
    fold_all(engine, profile, limit=7)
    # Some rows are never folded when a backup is made.
    teach(engine, profile, taught("late", "ham", {"late": 1}))
    return profile.name


def answers(engine, name):
    """Return the log-odds of some messages, and what the audit says."""
    with reading(engine) as connection:
        profile = profiles.find(connection, name)
        stored = load(connection, profile)
        assert audit(connection, profile).sound
    snapshot = Snapshot.of(SPECIFICATION, stored.tables, revision=stored.revision)
    asked = [make(n) for n in range(20, 30) for make in (ham, spam)]
    return np.array([score(snapshot, seen(raw).views).log_odds for raw in asked])


@on_sqlite
def test_a_restored_copy_answers_bit_for_bit_the_same(engine, tmp_path):
    """The log-odds of all messages are equal, not close."""
    name = learned(engine)
    backup(engine, tmp_path / "copy.db")
    restored = open_engine(f"sqlite:///{tmp_path}/copy.db")

    assert answers(engine, name).tobytes() == answers(restored, name).tobytes()
    restored.dispose()


@on_sqlite
def test_a_backup_beside_a_service_that_learns_is_of_one_moment(engine, tmp_path):
    """It ends although somebody writes all the time, and it is sound."""
    profile = new_profile(engine)
    padding = {f"word{n}": 1 for n in range(3000)}
    teach(engine, profile, *(taught(n, "ham", padding) for n in range(200)))
    stop, number = threading.Event(), 0
    steps = []

    def learn():
        nonlocal number
        while not stop.is_set():
            number += 1
            teach(engine, profile, taught(f"new{number}", "spam", {"prize": number}))

    writer = threading.Thread(target=learn)
    writer.start()
    try:
        backup(engine, tmp_path / "copy.db", progress=lambda *at: steps.append(at))
    finally:
        stop.set()
        writer.join()
    restored = open_engine(f"sqlite:///{tmp_path}/copy.db")
    with reading(restored) as connection:
        copied = profiles.find(connection, profile.name)
        found = audit(connection, copied)
    restored.dispose()

    assert found.sound
    assert 200 <= found.revision <= 200 + number
    assert len(steps) > 1
    assert steps[-1][0] == steps[-1][1]
    # Nobody wrote a page that had been copied: then it would begin anew.
    assert steps == sorted(steps)


@on_sqlite
def test_a_copy_is_a_file_of_its_own(engine, tmp_path):
    """It can be copied on by itself: there is no log beside it."""
    learned(engine)
    backup(engine, tmp_path / "copy.db")

    assert [p.name for p in tmp_path.glob("copy*")] == ["copy.db"]
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy, copy:
        assert copy.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@on_sqlite
def test_a_backup_that_cannot_be_written_says_so(engine, tmp_path):
    """The database is as it was."""
    with pytest.raises(UnwritableFile, match="cannot be written"):
        backup(engine, tmp_path / "none" / "copy.db")


@on_sqlite
@pytest.mark.parametrize("table", ["feature_name", "ledger"])
def test_a_copy_that_is_not_sound_is_refused(engine, tmp_path, table):
    """A backup that nobody can restore is worse than none, and not its place is why."""
    name = learned(engine)
    assert answers(engine, name).size
    damage(engine, tmp_path / "postbayes.db", table)

    with pytest.raises(DatabaseDamaged, match="the database or the disk is"):
        backup(engine, tmp_path / "copy.db")


@on_postgresql
def test_postgresql_has_its_own(engine, tmp_path):
    """The sentence names what to use instead."""
    with pytest.raises(InvalidInput, match="pg_dump"):
        backup(engine, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


@on_postgresql
def test_a_database_restored_from_pg_dump_answers_the_same(
    engine, database_url, postgres_url, tmp_path
):
    """The recipe of docs/operating.md, to another database of the same server."""
    name = learned(engine)
    folder = postgres.binaries()
    dump = tmp_path / "postbayes.dump"
    plain_c = os.environ | {"LC_ALL": "C"}
    subprocess.run(
        [folder / "pg_dump", "--format=custom", f"--file={dump}", database_url],
        check=True,
        env=plain_c,
    )
    with postgres_database(postgres_url, "restored", prepared=False) as url:
        subprocess.run(
            [folder / "pg_restore", "--no-owner", f"--dbname={url}", dump],
            check=True,
            env=plain_c,
        )
        restored = open_engine(url)
        found = answers(restored, name)
        restored.dispose()

    assert answers(engine, name).tobytes() == found.tobytes()
