"""The seam between the databases: one place knows a dialect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlalchemy import select

import app
from app.storage import tables
from app.storage.database.dialect import Dialect, dialect_of
from app.storage.database.engine import reading, with_short_timeout, writing
from app.storage.database.statements import PER_QUERY, BulkInsert, BulkLookup, chunks
from tests.support.builders import new_profile

FOLDER = Path(app.__file__).parent
# What only a module that knows a database needs.
DIALECT = re.compile(
    r"dialect\.name|get_backend_name|sqlalchemy\.dialects|exec_driver_sql"
    r"|^\s*(?:import|from) (?:sqlite3|psycopg)\b",
    re.MULTILINE,
)
NAMES = BulkInsert(
    tables.feature_name,
    shared=("profile_id", "view"),
    given=("feature", "name"),
    conflict="ON CONFLICT DO NOTHING",
)
FEATURES = BulkLookup(
    tables.feature_name, shared=("profile_id", "view"), given="feature"
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


def test_many_rows_are_one_statement(engine):
    """Text and numbers arrive as they are, and rows that are there stay."""
    profile = new_profile(engine)
    texts = ["plain", 'it\'s "quoted"', "{a,b}", ":name %s ?", "ä\\n"]
    shared = {"profile_id": profile.id, "view": "words"}
    with writing(engine) as connection:
        NAMES.run(connection, shared, [1], ["first"])
        NAMES.run(connection, shared, [1, 2, 3, -4, LARGEST], texts)
    table = tables.feature_name
    with reading(engine) as connection:
        rows = connection.execute(
            select(table.c.feature, table.c.name).order_by(table.c.feature)
        )
        found = {row.feature: row.name for row in rows}

    kept = dict(zip([2, 3, -4, LARGEST], texts[1:], strict=True))
    assert {1: "first", **kept} == found


@pytest.mark.parametrize("asked", [[], [7], [-1, 1, 2, LARGEST]])
def test_those_of_many_values_are_found_that_have_a_row(engine, asked):
    """Of the key that is asked for, and of no other."""
    profile = new_profile(engine)
    key = {"profile_id": profile.id, "view": "words"}
    with writing(engine) as connection:
        NAMES.run(connection, key, [-1, 2, LARGEST], ["a", "b", "c"])
        NAMES.run(connection, key | {"view": "pairs"}, [1, 7], ["a", "b"])
    with reading(engine) as connection:
        found = FEATURES.run(connection, key, asked)

    assert {-1, 2, LARGEST} & set(asked) == found


@pytest.mark.parametrize("number", [0, 1, PER_QUERY, PER_QUERY + 1])
def test_chunks_are_all_of_it_in_its_order(number):
    """None of them is empty, nor longer than fits into one query."""
    found = list(chunks(iter(range(number))))

    assert list(range(number)) == [each for chunk in found for each in chunk]
    assert all(0 < len(chunk) <= PER_QUERY for chunk in found)
