"""The tables can be distributed by profile: no statement of a request crosses profiles.

`docs/scaling.md` works this out for Citus, which sends a statement to one machine where
it names the key that the rows are distributed by.  Its statements run here with
functions that check the rules of Citus and distribute nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from app.doors.http.app import create_app
from app.services.application import Application
from app.settings import Settings
from app.storage import tables
from tests.support.application import PageClient, add_profiles
from tests.support.databases import on_postgresql
from tests.support.messages import ham, spam

RAW = {"content-type": "message/rfc822"}
PROFILES = ("default", "other")
# What looks for work in each process, as the beginnings of the statements.  Twice a
# second: what has changed, and the undos that are not carried out.  After a new
# connection: whether the ledgers are those in memory.  Each minute: what is too old,
# and what was forgotten.
EXCEPTIONS = (
    "SELECT count(*) AS count_1, max(profile.created_at) AS ",
    "SELECT profile.id, profile.name, profile.revision, profile.lists, fold.",
    "SELECT DISTINCT undo_work.profile_id FROM undo_work",
    "SELECT ledger.profile_id, ledger.revision, ledger.digest, ledger.label_before, ",
    "SELECT profile.id FROM profile WHERE profile.id > ",
    "SELECT ledger.profile_id, ledger.revision, ledger.digest, ledger.time FROM ",
)
NAMED = re.compile(
    r"INSERT INTO (\w+) \(profile_id, |\b(\w+)\.profile_id = %\(profile_id\w*\)s"
)
MENTIONED = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE) (\w+)\b")
SITE = {table.name for table in (tables.profile, *tables.OF_THE_SITE)}
DISTRIBUTED = {table.name for table in tables.metadata.sorted_tables} - SITE
# Citus: no unique index without the key, and foreign keys to tables on every machine.
RULES = """
CREATE TABLE stand_in (name text, key text);
CREATE FUNCTION create_reference_table(name text) RETURNS void AS $$
    INSERT INTO stand_in VALUES (name, NULL);
$$ LANGUAGE sql;
CREATE FUNCTION create_distributed_table(name text, key text, colocate_with text)
RETURNS void AS $$
BEGIN
    ASSERT colocate_with = 'none' OR colocate_with IN
        (SELECT s.name FROM stand_in s WHERE s.key IS NOT NULL), 'not with ' || name;
    ASSERT NOT EXISTS (
        SELECT FROM pg_index WHERE indrelid = name::regclass AND indisunique AND (
            SELECT attnum FROM pg_attribute
            WHERE attrelid = name::regclass AND attname = key) <> ALL (indkey)
    ), 'a unique index without the key of ' || name;
    ASSERT NOT EXISTS (
        SELECT FROM pg_constraint WHERE conrelid = name::regclass AND contype = 'f'
            AND confrelid NOT IN (
                SELECT s.name::regclass FROM stand_in s WHERE s.key IS NULL)
    ), 'a foreign key of ' || name;
    INSERT INTO stand_in VALUES (name, key);
END $$ LANGUAGE plpgsql;
"""


class Log:
    """The statements of each transaction, with the profiles that their values name."""

    def __init__(self, monkeypatch):
        self.statements = set()
        self.transactions = []
        self._open = {}
        cursor, connection = psycopg.Cursor, psycopg.Connection
        plain = {name: getattr(cursor, name) for name in ("execute", "executemany")}
        ends = {name: getattr(connection, name) for name in ("commit", "rollback")}

        def execute(self_, query, params=None, **options):
            self._note(self_.connection, query, params)
            return plain["execute"](self_, query, params, **options)

        def executemany(self_, query, several, **options):
            for params in several:
                self._note(self_.connection, query, params)
            return plain["executemany"](self_, query, several, **options)

        def ending(name):
            def end(self_):
                self.transactions.append(self._open.pop(self_, set()))
                return ends[name](self_)

            return end

        monkeypatch.setattr(cursor, "execute", execute)
        monkeypatch.setattr(cursor, "executemany", executemany)
        for name in ends:
            monkeypatch.setattr(connection, name, ending(name))

    def _note(self, connection, query, params):
        statement = " ".join(str(query).split())
        self.statements.add(statement)
        if DISTRIBUTED & set(MENTIONED.findall(statement)) and params:
            self._open.setdefault(connection, set()).update(
                value
                for name, value in params.items()
                if re.fullmatch(r"profile_id(_\d+)?", name)
            )


def tables_left(statement):
    """Return the distributed tables in a statement whose key it does not name."""
    named = {name for found in NAMED.findall(statement) for name in found}
    return DISTRIBUTED & set(MENTIONED.findall(statement)) - named


@pytest.fixture
def log(database_url, monkeypatch):
    """The statements of requests to two profiles, and of the work behind them."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(RULES)
        for block in sql_of_the_page():
            connection.execute(block)
    application = Application(Settings(database_url=database_url))
    with PageClient(create_app(application), client=("127.0.0.1", 50000)) as client:
        application.scheduler.stop()
        add_profiles(application, PROFILES[1])
        application.live.get(PROFILES[1])
        log = Log(monkeypatch)
        for number in range(3):
            for profile in PROFILES:
                requests(client, profile, number)
        application.engine.dispose()
        application.live.refresh()
        # A new one, which begins with all that is done from time to time.
        maintenance = replace(application.maintenance)
        while maintenance():
            pass
        monkeypatch.undo()
    return log


def sql_of_the_page():
    """Return the blocks of SQL in the page about scaling."""
    page = Path(__file__).parents[2].joinpath("docs", "scaling.md").read_text("utf-8")
    return re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def requests(client, profile, number):
    """Score, teach, teach by id, move and forget a message of a profile."""
    of = {"params": {"profile": profile}}

    def post(path, raw, **params):
        answer = client.post(
            path, content=raw, headers=RAW, params={"profile": profile, **params}
        )
        answer.raise_for_status()
        return answer.json()["id"]

    known = post("/classify", ham(number))
    taught = {"id": known, "label": "ham"}
    client.post("/feedback", json=taught, **of).raise_for_status()
    moved = post("/feedback", spam(number), label="ham")
    post("/feedback", spam(number), label="spam")
    client.delete(f"/feedback/{moved}", **of).raise_for_status()
    post("/classify", spam(number + 100))


@on_postgresql
def test_every_statement_names_the_profile(log):
    """For each of its tables; or it is one of a few that look for work."""
    left = {
        statement: tables_left(statement)
        for statement in log.statements
        if not statement.startswith(EXCEPTIONS)
    }

    assert {} == {statement: names for statement, names in left.items() if names}
    for table in ("ledger", "scored", "history", "class_count", "run", "fold"):
        assert any(
            f"INTO {table} " in statement or f"UPDATE {table} " in statement
            for statement in log.statements
        ), table


@on_postgresql
def test_every_exception_is_one(log):
    """A statement that names the profile by now is taken off the list."""
    assert all(
        any(
            statement.startswith(each) and tables_left(statement)
            for statement in log.statements
        )
        for each in EXCEPTIONS
    )


@on_postgresql
def test_no_transaction_is_of_two_profiles(log):
    """So none needs two machines."""
    touched = [profiles for profiles in log.transactions if profiles]

    assert 2 == len(set().union(*touched))
    assert {1} == {len(profiles) for profiles in touched}


@on_postgresql
def test_every_table_is_named_by_the_page(log, database_url):
    """Each has its place: on every machine, or with the rows of its profile."""
    with psycopg.connect(database_url) as connection:
        found = dict(connection.execute("SELECT name, key FROM stand_in").fetchall())

    assert {**dict.fromkeys(SITE), **dict.fromkeys(DISTRIBUTED, "profile_id")} == found
