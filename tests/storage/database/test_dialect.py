"""The seam between the databases: one place knows a dialect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import app
from app.storage import feature_names
from app.storage.database.dialect import PER_QUERY, Dialect, chunks, dialect_of
from app.storage.database.engine import reading, with_short_timeout, writing
from tests.support.builders import new_profile

FOLDER = Path(app.__file__).parent
# What only a module that knows a database needs.
DIALECT = re.compile(
    r"dialect\.name|get_backend_name|sqlalchemy\.dialects|exec_driver_sql"
    r"|^\s*(?:import|from) (?:sqlite3|psycopg)\b",
    re.MULTILINE,
)
LARGEST = 2**63 - 1


def test_one_folder_knows_a_dialect():
    """No module outside of it asks which database there is."""
    found = [
        str(path.relative_to(FOLDER))
        for path in FOLDER.rglob("*.py")
        if DIALECT.search(path.read_text())
    ]

    assert found
    assert {"storage/database"} == {str(Path(path).parent) for path in found}


def test_an_engine_and_its_connections_have_one_dialect(engine):
    """Whatever options are added to them."""
    with reading(with_short_timeout(engine)) as connection:
        dialect = dialect_of(connection)

    assert isinstance(dialect, Dialect)
    assert dialect is dialect_of(engine)


def test_names_arrive_as_they_are(engine):
    """Whatever characters they have; a name that is there stays."""
    profile = new_profile(engine)
    texts = ["plain", 'it\'s "quoted"', "{a,b}", ":name %s ?", "ä\\n"]
    given = dict(zip([1, 2, 3, -4, LARGEST], texts, strict=True))
    with writing(engine) as connection:
        feature_names.add(connection, profile.id, "words", {1: "first"})
        feature_names.add(connection, profile.id, "words", given)
    with reading(engine) as connection:
        found = feature_names.of_view(connection, profile.id, "words")

    assert given | {1: "first"} == found


@pytest.mark.parametrize("asked", [[], [7], [-1, 1, 2, LARGEST]])
def test_those_of_many_values_are_found_that_have_a_row(engine, asked):
    """Of the key that is asked for, and of no other."""
    profile = new_profile(engine)
    names = {-1: "a", 2: "b", LARGEST: "c"}
    with writing(engine) as connection:
        feature_names.add(connection, profile.id, "words", names)
        feature_names.add(connection, profile.id, "pairs", {1: "a", 7: "b"})
    with reading(engine) as connection:
        found = feature_names.find(connection, profile.id, "words", asked)

    assert {each: names[each] for each in asked if each in names} == found


@pytest.mark.parametrize("number", [0, 1, PER_QUERY, PER_QUERY + 1])
def test_chunks_are_all_of_it_in_its_order(number):
    """None of them is empty, nor longer than fits into one query."""
    found = list(chunks(iter(range(number))))

    assert list(range(number)) == [each for chunk in found for each in chunk]
    assert all(0 < len(chunk) <= PER_QUERY for chunk in found)
