"""PgBouncer between Postbayes and PostgreSQL, with one session for all clients."""

from __future__ import annotations

from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import text

from app.errors import DatabaseUnavailable
from app.storage import profiles
from app.storage.database.engine import (
    connections_opened,
    disposing,
    listening,
    migrate,
    open_engine,
    reading,
    writing,
)
from tests.support import postgres
from tests.support.builders import new_profile, taught, teach

pytestmark = pytest.mark.clients
# The driver prepares a statement that it sends for the sixth time.
OFTEN = 10
_FOUND = (
    "SELECT current_setting('lock_timeout'), current_setting('synchronous_commit'), "
    "current_setting('DateStyle')"
)


@pytest.fixture
def pooled(site):
    """URL of a database where each transaction gets the one session."""
    site.administer("ALTER DATABASE {database} SET synchronous_commit = off")
    with postgres.pooler(site.url, mode="transaction", sessions=1) as url:
        yield url


@contextmanager
def opened(url):
    """Give the engine of a database, migrated."""
    with disposing(open_engine(url)) as engine:
        migrate(engine)
        yield engine


@contextmanager
def another_program(url):
    """Give a connection of another program, each of whose statements is alone."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        yield connection


def opened_after_a_transaction(engine):
    """Return how many connections there were, of which the pool keeps one."""
    with reading(engine) as connection:
        connection.exec_driver_sql("SELECT 1")
    return connections_opened(engine)


def test_processes_share_a_session(pooled):
    """None executes what another has prepared under the same name."""
    with opened(pooled) as one, opened(pooled) as other:
        profile = new_profile(one)
        for number in range(OFTEN):
            teach(one, profile, taught(number, "ham", {"a": 1}))
        for number in range(OFTEN):
            with reading(other) as connection:
                (found,) = profiles.list_all(connection)
            teach(other, profile, taught(OFTEN + number, "spam", {"b": 1}))

    assert OFTEN * 2 - 1 == found.revision


def test_a_transaction_makes_its_settings_itself(site, pooled):
    """Whatever another program has set or reset, and it finds none of ours."""
    site.administer("ALTER DATABASE {database} SET DateStyle = 'German'")
    with opened(pooled) as engine, another_program(pooled) as other:
        found = []
        for begun in (reading, writing):
            other.execute("DISCARD ALL")
            with begun(engine) as connection:
                found += connection.exec_driver_sql(_FOUND).all()
            found += other.execute(_FOUND).fetchall()

    assert [("5s", "on", "ISO, DMY"), ("0", "off", "German, DMY")] * 2 == found


def test_a_session_of_others_is_not_notified(site, pooled):
    """PgBouncer would log each notification; those of ours are heard elsewhere."""
    with (
        opened(site.url) as direct,
        opened(pooled) as engine,
        listening(direct) as hearer,
        listening(engine) as listener,
    ):
        listener.notify()
        with another_program(pooled) as other:
            channels = other.execute("SELECT pg_listening_channels()").fetchall()
        # Its answer comes after the notification.
        hearer.notify()
        heard = hearer.heard()

    assert ([], True) == (channels, heard)


def test_a_session_that_ends_in_a_pipeline_is_told_in_one_sentence(pooled, caplog):
    """The pool logs no traceback of a connection that could not be rolled back."""
    last = "SELECT CASE :n WHEN 0 THEN pg_terminate_backend(pg_backend_pid()) END, :x"
    rows = [{"n": n, "x": "x" * 1_000} for n in range(1_000)]
    with opened(pooled) as engine:
        caplog.clear()
        with (
            pytest.raises(DatabaseUnavailable, match="Nothing was stored"),
            writing(engine) as connection,
        ):
            connection.execute(text(last), rows)
        with reading(engine) as connection:
            profiles.list_all(connection)

    assert [] == caplog.messages


def test_another_server_behind_a_pooler_counts_as_a_connection(postgres_binaries):
    """Whatever follows a ledger then checks whether it is still the same one."""
    with (
        postgres.cluster(postgres_binaries) as cluster,
        postgres.pooler(cluster.url, mode="transaction", sessions=1) as url,
        disposing(open_engine(url)) as engine,
    ):
        found = [opened_after_a_transaction(engine) for _ in range(2)]
        cluster.stop()
        cluster.start()
        found += [opened_after_a_transaction(engine) for _ in range(2)]

    before, same, after, again = found
    assert (before, after) == (same, again)
    assert before < after


def test_a_pooler_without_transactions_is_refused(site):
    """In its own words; none of our transactions would be whole."""
    with (
        postgres.pooler(site.url, mode="statement", sessions=1) as url,
        pytest.raises(DatabaseUnavailable, match="transaction blocks not allowed"),
        opened(url),
    ):
        pytest.fail("a pooler that splits transactions")
