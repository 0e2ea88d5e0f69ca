"""Databases that older code filled: they reach the tables of today, sound.

Rows and tables are what the code of each migration left behind
(`tests.support.eras`), not what the code of today would write.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from alembic import command
from alembic.script import ScriptDirectory

from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.services.profiles import delete_profile
from app.storage import profiles
from app.storage.database.engine import (
    alembic_config,
    migrate,
    migrating,
    open_engine,
    reading,
    revision_of,
    writing,
)
from app.storage.fold import audit, load
from tests.support import eras
from tests.support.builders import fold_all, new_profile, sparse
from tests.support.databases import on_sqlite, sqlite_url
from tests.support.ledger import counted

SPECIFICATION = Specification()
NUMBERS = sorted(
    script.revision
    for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()
)

by_era = pytest.mark.parametrize("era", NUMBERS)


def upgrade(engine, revision):
    """Bring the tables to a migration."""
    config = alembic_config()
    with migrating(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


@pytest.fixture
def at(database, empty_database_url):
    """A function that gives the engine of an empty database at a migration."""
    opened = []

    def at(revision):
        if database == "sqlite":
            file = Path(empty_database_url.removeprefix("sqlite:///"))
            file.write_bytes(prepared(revision))
        opened.append(open_engine(empty_database_url))
        if database != "sqlite":
            upgrade(opened[0], revision)
        return opened[0]

    yield at
    for engine in opened:
        engine.dispose()


@cache
def prepared(revision):
    """Return the bytes of a file at a migration, made of that of the one before."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "at.db")
        if revision != NUMBERS[0]:
            file.write_bytes(prepared(NUMBERS[NUMBERS.index(revision) - 1]))
        engine = open_engine(f"sqlite:///{file}")
        upgrade(engine, revision)
        engine.dispose()
        return file.read_bytes()


def fill(engine, era):
    """Insert what the code of a migration left behind."""
    with writing(engine) as connection:
        eras.insert(connection, eras.left_behind(era))


def ended(engine, profile):
    """Finish what was begun, fold, and return counts, log-odds and the audit."""
    eras.finish(engine, profile)
    with reading(engine) as connection:
        early = load(connection, profile)
    fold_all(engine, profile)
    with reading(engine) as connection:
        late = load(connection, profile)
        found = audit(connection, profile)
    odds = [
        score(
            Snapshot.of(SPECIFICATION, stored.tables, revision=stored.revision),
            {"words": sparse({"pills": 1, "minutes": 1, "café": 1, "unseen": 1})},
        ).log_odds
        for stored in (early, late)
    ]
    # The names of words that were pruned are gone where older code had counted them.
    return counted(engine, profile)[:2], odds, found


@cache
def retold(era):
    """Return how the story ends when the code of today lives through it."""
    with TemporaryDirectory() as folder:
        engine = open_engine(sqlite_url(folder))
        try:
            profile = new_profile(engine)
            eras.tell(engine, profile, era)
            return ended(engine, profile)
        finally:
            engine.dispose()


def site(engine):
    """Return the profile that the older code had made."""
    with reading(engine) as connection:
        return profiles.find(connection, "site")


@by_era
def test_a_database_filled_by_older_code_is_as_if_today_had_learned_it(at, era):
    """Audit zero; counts and log-odds are those of a retelling, to the bit."""
    engine = at(era)
    fill(engine, era)
    migrate(engine)
    counts, odds, found = ended(engine, site(engine))
    expected_counts, expected_odds, expected = retold(era)

    assert (True, 0) == (found.sound, found.difference)
    assert expected.ledger_rows == found.ledger_rows
    assert found.revision == found.folded_revision
    assert expected_counts == counts
    assert expected_odds == odds
    assert odds[0] == odds[1]


# Of 0012 they do not, which has the counts in other tables, nor of 0016, which has one
# column less.
@pytest.mark.parametrize("era", sorted({*NUMBERS} - {"0011", "0015"}))
def test_the_tables_after_a_migration_take_the_rows_of_the_code_before_it(at, era):
    """While one service is new and another old, the old one writes and reads on."""
    written = eras.left_behind(era)
    engine = at((NUMBERS + NUMBERS[-1:])[NUMBERS.index(era) + 1])
    fill(engine, era)
    with reading(engine) as connection:
        read = eras.read(connection, written)
    migrate(engine)
    counts, odds, found = ended(engine, site(engine))

    assert written == read
    assert (True, 0) == (found.sound, found.difference)
    assert retold(era)[:2] == (counts, odds)


@on_sqlite
def test_a_profile_of_before_takes_its_key_with_it(at):
    """SQLite would give it to the next one until migration 0017."""
    engine = at("0016")
    fill(engine, "0016")
    migrate(engine)
    old = site(engine)
    list(delete_profile(engine, "site"))

    assert old.id < new_profile(engine).id


def test_every_migration_has_a_database_of_its_code():
    """Whoever adds a migration tells the story on, and keeps what came of it."""
    kept = sorted(file.stem for file in eras.GOLDEN.glob("*.json"))

    assert NUMBERS == kept
    assert NUMBERS == list(eras.CHAPTERS)


def test_each_migration_can_be_taken_back_and_made_again(at):
    """On a filled database, as far as the migration before has room for its rows."""
    engine = at(NUMBERS[0])
    fill(engine, NUMBERS[0])
    config = alembic_config()
    for before, era in pairwise(NUMBERS):
        upgrade(engine, era)
        with migrating(engine) as connection:
            config.attributes["connection"] = connection
            command.downgrade(config, "-1")
        assert before == revision_of(engine)
        upgrade(engine, era)

    assert retold(NUMBERS[0])[:2] == ended(engine, site(engine))[:2]
