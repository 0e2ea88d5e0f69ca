"""Databases that older code filled: they reach the tables of today, sound.

Rows and tables are what the code of each migration left behind
(`tests.support.eras`), not what the code of today would write.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
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


@pytest.fixture
def bare(empty_database_url):
    """Engine of a database without tables."""
    engine = open_engine(empty_database_url)
    yield engine
    engine.dispose()


def upgrade(engine, revision):
    """Bring the tables to a migration."""
    config = alembic_config()
    with migrating(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


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
def test_a_database_filled_by_older_code_is_as_if_today_had_learned_it(bare, era):
    """Audit zero; counts and log-odds are those of a retelling, to the bit."""
    upgrade(bare, era)
    fill(bare, era)
    migrate(bare)
    counts, odds, found = ended(bare, site(bare))
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
def test_the_tables_after_a_migration_take_the_rows_of_the_code_before_it(bare, era):
    """While one service is new and another old, the old one writes and reads on."""
    written = eras.left_behind(era)
    upgrade(bare, (NUMBERS + NUMBERS[-1:])[NUMBERS.index(era) + 1])
    fill(bare, era)
    with reading(bare) as connection:
        read = eras.read(connection, written)
    migrate(bare)
    counts, odds, found = ended(bare, site(bare))

    assert written == read
    assert (True, 0) == (found.sound, found.difference)
    assert retold(era)[:2] == (counts, odds)


@on_sqlite
def test_a_profile_of_before_takes_its_key_with_it(bare):
    """SQLite would give it to the next one until migration 0017."""
    upgrade(bare, "0016")
    fill(bare, "0016")
    migrate(bare)
    old = site(bare)
    list(delete_profile(bare, "site"))

    assert old.id < new_profile(bare).id


def test_every_migration_has_a_database_of_its_code():
    """Whoever adds a migration tells the story on, and keeps what came of it."""
    kept = sorted(file.stem for file in eras.GOLDEN.glob("*.json"))

    assert NUMBERS == kept
    assert NUMBERS == list(eras.CHAPTERS)


def test_each_migration_can_be_taken_back_and_made_again(bare):
    """On a filled database, as far as the migration before has room for its rows."""
    upgrade(bare, NUMBERS[0])
    fill(bare, NUMBERS[0])
    config = alembic_config()
    for before, era in pairwise(NUMBERS):
        upgrade(bare, era)
        with migrating(bare) as connection:
            config.attributes["connection"] = connection
            command.downgrade(config, "-1")
        assert before == revision_of(bare)
        upgrade(bare, era)

    assert retold(NUMBERS[0])[:2] == ended(bare, site(bare))[:2]
