"""Migrations: from nothing to the tables of this version, and back."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from app.errors import DatabaseTooNew, InconsistentCounts, InvalidSetting
from app.storage import tables
from app.storage.database.engine import (
    MIGRATIONS,
    alembic_config,
    migrate,
    migrating,
    open_engine,
    reading,
    writing,
)
from app.storage.fold import audit, load
from app.storage.ledger import rows_after
from tests.support.builders import feature, fold_all, new_profile, taught, teach
from tests.support.databases import on_sqlite


@contextmanager
def opened(url):
    """Give an engine that is closed after it."""
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def table_names(engine):
    """Return the tables that are there, without Alembic's own."""
    with reading(engine) as connection:
        return set(inspect(connection).get_table_names()) - {"alembic_version"}


def downgrade(engine, revision):
    """Take migrations back."""
    config = alembic_config()
    with migrating(engine) as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)


def test_a_database_that_may_not_be_made_is_named(empty_database_url):
    """A command that looks gives a database no tables: its URL may be another one."""
    with opened(empty_database_url) as engine:
        with pytest.raises(
            InvalidSetting, match="no database of Postbayes at"
        ) as error:
            migrate(engine, make=False)

        assert set() == table_names(engine)
        assert str(engine.url.database) in str(error.value)


def test_an_empty_database_is_migrated_there_and_back(empty_database_url):
    """Empty, head, base, head: all tables, none, all again."""
    everything = set(tables.metadata.tables)
    with opened(empty_database_url) as engine:
        migrate(engine)
        there = table_names(engine)
        downgrade(engine, "base")
        back = table_names(engine)
        migrate(engine)

        assert (everything, set()) == (there, back)
        assert everything == table_names(engine)


def test_migrations_make_the_tables_that_the_code_describes(engine):
    """Alembic, asked what is still to do, finds nothing."""
    with reading(engine) as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        difference = compare_metadata(context, tables.metadata)

    assert [] == difference


@on_sqlite
def test_migrations_make_the_very_statements_of_the_code(engine, tmp_path):
    """Checks and clustering too, which Alembic does not compare."""

    def statements(engine):
        with reading(engine) as connection:
            rows = connection.execute(
                text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
            )
            return {
                # At commas too: SQLite appends an added column to a line, and quotes
                # the name of a table that was renamed.
                name: sorted(re.findall(r"[^,\s][^,\n]*", sql.replace('"', "")))
                for name, sql in rows
                if name != "alembic_version"
            }

    with opened(f"sqlite:///{tmp_path}/described.db") as described:
        with writing(described) as connection:
            tables.metadata.create_all(connection)

        assert statements(described) == statements(engine)
    assert "feature_name" in statements(engine)


def test_a_database_with_contents_keeps_them(engine):
    """Migrating what is up to date changes nothing."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}), taught(2, "spam", {"b": 1}))
    fold_all(engine, profile)
    migrate(engine)
    with reading(engine) as connection:
        found = audit(connection, profile)

    assert (0, 2) == (found.difference, found.ledger_rows)


def test_a_database_of_one_view_learns_another_after_its_migration(engine):
    """What the first version wrote is there, sound, and goes on from there."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}), taught(2, "spam", {"b": 2}))
    fold_all(engine, profile)
    teach(engine, profile, taught(3, "spam", {"b": 1}))
    downgrade(engine, "0001")
    tables_of_then = table_names(engine)
    migrate(engine)
    with reading(engine) as connection:
        found = audit(connection, profile)
        before = load(connection, profile)
    teach(engine, profile, taught(4, "ham", {"a": 1}, {"size": 5}))
    fold_all(engine, profile)
    with reading(engine) as connection:
        later = audit(connection, profile)
        after = load(connection, profile)

    assert "sealed" not in tables_of_then
    assert (True, 3, 2) == (found.sound, found.ledger_rows, found.folded_revision)
    assert [1, 2] == before.tables["words"].messages.tolist()
    assert (True, 4, 4) == (later.sound, later.ledger_rows, later.folded_revision)
    assert [2, 2] == after.tables["words"].messages.tolist()
    assert [1, 0] == after.tables["pairs"].messages.tolist()


def test_rows_of_before_are_of_one_message_each(engine):
    """And a version before 0003 reads what was written after it was put back."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    downgrade(engine, "0002")
    with reading(engine) as connection:
        columns = {c["name"] for c in inspect(connection).get_columns("ledger")}
    migrate(engine)
    teach(engine, profile, taught(1, "spam"))
    with reading(engine) as connection:
        found = audit(connection, profile)
        rows = rows_after(connection, profile.id, revision=0, limit=10)

    assert "kind" not in columns
    assert (True, 2) == (found.sound, found.ledger_rows)
    assert ["message", "message"] == [row.kind for row in rows]


def test_a_newer_database_is_refused(engine):
    """The sentence says what it is, what is known and what to do."""
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(
        DatabaseTooNew, match=r"at migration 9999.* only knows migrations up to 0017"
    ):
        migrate(engine)


# Four children that wait until the pipe is closed, and then start together.
FOUR_PROCESSES = """
import os, sys
from app.storage.database.engine import open_engine
from app.storage.database.engine import migrate

wait, start = os.pipe()
children = []
for _ in range(4):
    child = os.fork()
    if not child:
        os.close(start)
        os.read(wait, 1)
        migrate(open_engine(sys.argv[1]))
        os._exit(0)
    children.append(child)
os.close(start)
print([os.waitpid(child, 0)[1] for child in children])
"""


def test_processes_that_start_at_once_migrate_once(empty_database_url):
    """They all find the tables, and none fails."""
    ran = subprocess.run(
        [sys.executable, "-c", FOUR_PROCESSES, empty_database_url],
        capture_output=True,
        check=False,
        text=True,
    )

    assert (f"{[0] * 4}\n", "") == (ran.stdout, ran.stderr)
    with opened(empty_database_url) as engine:
        assert set(tables.metadata.tables) == table_names(engine)


def test_a_migration_that_fails_leaves_nothing(empty_database_url):
    """The database is empty as before."""

    def fail(engine):
        with migrating(engine) as connection:
            connection.execute(text("CREATE TABLE half (a INTEGER)"))
            connection.execute(text("SELECT * FROM no_such_table"))

    with opened(empty_database_url) as engine:
        with pytest.raises(Exception, match="no_such_table"):
            fail(engine)

        assert set() == table_names(engine)


@on_sqlite
def test_a_migration_that_leaves_orphans_is_refused(engine):
    """Foreign keys are off while tables are copied, so they are checked at the end."""
    profile = new_profile(engine)

    def orphan():
        with migrating(engine) as connection:
            connection.execute(
                tables.profile.delete().where(tables.profile.c.id == profile.id)
            )

    with pytest.raises(InconsistentCounts, match="broken references"):
        orphan()
    with reading(engine) as connection:
        assert 1 == len(connection.execute(tables.profile.select()).all())


def test_migrations_are_numbered_and_lead_to_one_head():
    """File 0007_what_it_does.py is revision 0007 and follows 0006."""
    scripts = ScriptDirectory.from_config(alembic_config())
    found = sorted(scripts.walk_revisions(), key=lambda script: script.revision)
    files = sorted((MIGRATIONS / "versions").glob("*.py"))

    assert [f"{n:04}" for n in range(1, len(files) + 1)] == [s.revision for s in found]
    assert [s.revision for s in found] == [file.name[:4] for file in files]
    assert [None, *(s.revision for s in found)][:-1] == [s.down_revision for s in found]


def test_nobody_goes_back_with_a_fold_written_in_part(engine):
    """The version before would not add what is left of it."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1, "b": 1}))
    fold_all(engine, profile)
    downgrade(engine, "0011")
    # As the code of then left it: one feature of the two is in the counts.
    last = {"id": profile.id, "last": max(feature("a"), feature("b"))}
    with writing(engine) as connection:
        connection.execute(
            text("DELETE FROM feature_count WHERE feature = :last"), last
        )
        connection.execute(
            text("INSERT INTO fold_rest VALUES (:id, 0, 1, :last)"), last
        )
    with pytest.raises(RuntimeError, match="postbayes fold"):
        downgrade(engine, "0006")
    migrate(engine)
    with reading(engine) as connection:
        found = audit(connection, profile)
    downgrade(engine, "0006")

    assert (True, 0) == (found.sound, found.folded_revision)
    assert "fold_rest" not in table_names(engine)
