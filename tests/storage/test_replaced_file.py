"""The file of a database goes away under a process that has it open."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import text
from sqlalchemy.event import listens_for

from app.errors import DatabaseUnavailable
from app.storage.database.engine import (
    checkpoint,
    migrate,
    open_engine,
    reading,
    writing,
)
from tests.support.builders import new_profile, taught, teach


@pytest.fixture
def file(tmp_path):
    """Where the database is."""
    return tmp_path / "site.db"


@pytest.fixture
def opened(file):
    """An engine that has it open."""
    engine = open_engine(f"sqlite:///{file}")
    migrate(engine)
    yield engine
    engine.dispose()


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
@pytest.mark.parametrize("transaction", [reading, writing])
def test_a_file_that_is_another_is_not_used(opened, file, transaction, how):
    """What is written to a file without a name is lost, and was acknowledged."""
    if how == "deleted":
        file.unlink()
    elif how == "moved":
        file.rename(file.with_name("away.db"))
    else:
        shutil.copy(file, file.with_name("copy.db"))
        file.with_name("copy.db").rename(file)

    for _ in range(2):
        with (
            pytest.raises(DatabaseUnavailable, match="deleted, moved or replaced"),
            transaction(opened),
        ):
            pass
    assert (how == "replaced") == file.exists()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
@pytest.mark.parametrize("transaction", [reading, writing])
def test_a_log_that_is_another_is_not_used(opened, file, transaction, how):
    """Nor by a new connection; what was confirmed is in the database at the end."""
    profile = new_profile(opened)
    teach(opened, profile, taught(1, "ham", {"a": 1}))
    log = file.with_name(f"{file.name}-wal")
    log.rename(file.with_name("away"))
    if how == "replaced":
        log.touch()
    with opened.connect() as used:
        for _ in range(2):
            with (
                pytest.raises(DatabaseUnavailable, match="deleted, moved or replaced"),
                transaction(opened),
            ):
                pass
        del used
    opened.dispose()
    log.unlink(missing_ok=True)

    with reading(opened) as connection:
        assert 1 == connection.scalar(text("SELECT count(*) FROM ledger"))


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("transaction", [reading, writing])
def test_a_log_that_another_program_emptied_is_not_used(
    opened, file, transaction, copied
):
    """SQLite would write behind the gap, and the database would be lost with it."""
    profile = new_profile(opened)
    checkpoint(opened, emptied=True)
    teach(opened, profile, taught(1, "ham", {"a": 1}))
    if copied:
        checkpoint(opened, emptied=False)
    os.truncate(file.with_name(f"{file.name}-wal"), 0)

    for _ in range(2):
        with (
            pytest.raises(DatabaseUnavailable, match="emptied by another program"),
            transaction(opened),
        ):
            pass
    opened.dispose()

    with reading(opened) as connection:
        assert copied == connection.scalar(text("SELECT count(*) FROM ledger"))
        assert "ok" == connection.scalar(text("PRAGMA integrity_check"))


def test_a_log_that_sqlite_deleted_and_made_again_is_used(opened, file):
    """The last connection deletes it, and the next one makes another."""
    for _ in range(2):
        with writing(opened):
            pass
        opened.dispose()
        assert not file.with_name(f"{file.name}-wal").exists()
        # Another inode.
        file.with_name("ballast").touch()


def test_a_log_that_another_leaves_is_used_from_the_first(file):
    """SQLite deletes it unless it was opened, and who switches does not open it."""
    engine = open_engine(f"sqlite:///{file}")
    others = []

    @listens_for(engine, "connect", insert=True)
    def connect_another(connection, _):
        connection.set_trace_callback(open_beside)

    def open_beside(statement):
        # The first one behind the switch to the log.
        if "synchronous" in statement:
            others.append(sqlite3.connect(file))
            others[-1].execute("SELECT 1 FROM sqlite_schema")

    with closing(engine.raw_connection()) as connection:
        connection.set_trace_callback(None)
        others.pop().close()

    with reading(engine) as connection:
        assert 0 == connection.scalar(text("SELECT count(*) FROM sqlite_schema"))
    engine.dispose()


def test_no_file_is_made_where_one_was(opened, file):
    """By a new connection: SQLite would make an empty one."""
    file.unlink()
    opened.dispose()

    with pytest.raises(DatabaseUnavailable, match="deleted"), reading(opened):
        pass
    assert not file.exists()


@pytest.mark.parametrize(
    "uri",
    [
        "file:{}?uri=true",
        "file:{}?mode=rwc&uri=true",
        "file://{}?uri=true",
        "file://localhost{}?uri=true",
    ],
)
def test_a_file_may_be_named_by_a_uri(tmp_path, uri):
    """It is found as SQLite finds it, and not made anew either."""
    file = tmp_path / "the site's.db"
    escaped = str(file).replace(" ", "%20")
    engine = open_engine(f"sqlite:///{uri.format(escaped)}")
    with writing(engine):
        pass
    file.unlink()

    for _ in range(2):
        with pytest.raises(DatabaseUnavailable, match="the site's"), writing(engine):
            pass
        engine.dispose()
    assert not file.exists()


def test_a_link_that_leads_elsewhere_is_noticed(tmp_path, file):
    """And one that leads where it did is not."""
    (tmp_path / "one.db").touch()
    (tmp_path / "other.db").touch()
    file.symlink_to("one.db")
    engine = open_engine(f"sqlite:///{file}")
    for _ in range(2):
        with writing(engine):
            pass
        engine.dispose()
    file.unlink()
    file.symlink_to("other.db")

    with pytest.raises(DatabaseUnavailable, match="replaced"), reading(engine):
        pass
    assert 0 == (tmp_path / "other.db").stat().st_size


def test_a_file_that_comes_back_is_used_again(opened, file):
    """It is the same, and nothing has happened to it meanwhile."""
    profile = new_profile(opened)
    file.rename(file.with_name("away.db"))
    with pytest.raises(DatabaseUnavailable):
        teach(opened, profile, taught(1, "ham", {"a": 1}))
    file.with_name("away.db").rename(file)
    (outcome,) = teach(opened, profile, taught(1, "ham", {"a": 1}))

    assert 1 == outcome.row.revision
