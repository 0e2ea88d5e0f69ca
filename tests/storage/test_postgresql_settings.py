"""What an administrator of PostgreSQL has set: kept to, or told in one sentence."""

from __future__ import annotations

import gc
import warnings
from contextlib import contextmanager

import pytest
from sqlalchemy.exc import DataError

from app.errors import DatabaseUnavailable, DatabaseUnprepared, InvalidSetting
from app.storage import profiles, tables
from app.storage.database.engine import (
    disposing,
    migrate,
    open_engine,
    reading,
    writing,
)
from tests.support.builders import new_profile, taught, teach


@contextmanager
def opened(url, **options):
    """Give the engine of a database, migrated."""
    engine = open_engine(url, **options)
    try:
        migrate(engine)
        yield engine
    finally:
        engine.dispose()


def encoded(name):
    """Return how a database is made whose text has that encoding."""
    options = f"ENCODING '{name}' LC_CTYPE 'C' TEMPLATE template0"
    return pytest.param(options, id=name)


@pytest.mark.parametrize(
    "site", [encoded("LATIN1"), encoded("WIN1251"), encoded("EUC_JP")], indirect=True
)
def test_an_encoding_that_lacks_letters_is_refused(site):
    """Before there is a table, and with the command that makes another database."""
    with (
        pytest.raises(InvalidSetting, match=r"has the encoding .* createdb -E UTF8"),
        opened(site.url),
    ):
        pytest.fail("a database that cannot keep all mail")


@pytest.mark.parametrize("site", [encoded("UTF8"), encoded("SQL_ASCII")], indirect=True)
def test_any_word_is_kept_where_bytes_are(site):
    """In UTF-8, and where PostgreSQL does not look at what they mean."""
    with opened(site.url) as engine:
        profile = new_profile(engine)
        (learned,) = teach(
            engine, profile, taught(1, "ham", {"Ελένη": 1, "猫": 1}, source="Э")
        )

    assert "Э" == learned.row.source


def test_a_connection_whose_settings_are_refused_is_closed(site):
    """Not first when it is collected; here a time-out is too long for PostgreSQL."""
    with (
        disposing(open_engine(site.url, busy_timeout=1e7)) as engine,
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        with (
            pytest.raises(DataError, match="lock_timeout"),
            reading(engine),
        ):
            pytest.fail("a connection without its settings")
        gc.collect()

    assert [] == [str(each.message) for each in warned]


def ledger_of(url):
    """Return how many rows a ledger has."""
    with opened(url) as engine, reading(engine) as connection:
        return len(connection.execute(tables.ledger.select()).all())


@pytest.mark.parametrize(
    ("befell", "sentence"),
    [
        (
            "REVOKE SELECT ON ledger FROM {guest}",
            "^PostgreSQL refuses the user '{guest}': permission denied for table "
            r"ledger\. Make it the owner .* GRANT it all rights to them",
        ),
        (
            "DROP TABLE ledger CASCADE",
            '^Something is missing in the database: relation "ledger" does not exist. '
            "Correct the search_path of the user '{guest}', or restore a backup",
        ),
    ],
)
def test_what_an_administrator_can_mend_is_told(site, befell, sentence):
    """A right that was taken away and a table that is gone are no defects of ours."""
    with opened(site.url):
        site.administer("GRANT ALL ON ALL TABLES IN SCHEMA public TO {guest}")
    assert 0 == ledger_of(site.guest_url)
    site.administer(befell)

    with pytest.raises(DatabaseUnprepared, match=sentence.format(guest=site.guest)):
        ledger_of(site.guest_url)


def test_a_restore_that_has_not_ended_is_reported(site):
    """`pg_restore` makes the keys last, and a service may start before."""
    with opened(site.url) as engine:
        site.administer("ALTER TABLE profile DROP CONSTRAINT uq_profile_name")
        with pytest.raises(DatabaseUnprepared, match=r"a restore has not ended, or"):
            new_profile(engine)


def test_without_a_name_the_user_is_that_of_the_url(site):
    """The driver may have it from the environment."""
    site.administer("ALTER DATABASE {database} SET search_path = nowhere")
    nameless = site.url.replace("postbayes@", "") + "&user=postbayes"

    with pytest.raises(InvalidSetting, match=r"no schema .* user of the database URL"):
        ledger_of(nameless)


def test_a_database_of_somebody_else_is_a_wrong_setting(site):
    """Where not even tables can be made; nothing is said of trying again."""
    with pytest.raises(
        InvalidSetting,
        match=r"^The tables cannot be created in this database\. PostgreSQL refuses the "
        rf"user '{site.guest}': permission denied for schema public\. .* schema\.$",
    ):
        ledger_of(site.guest_url)


def test_what_is_read_only_stays_so(site):
    """Whoever read before on the connection; and set back, it needs no restart."""
    with opened(site.url) as engine:
        profile = new_profile(engine)
    site.administer("ALTER DATABASE {database} SET default_transaction_read_only = on")
    with opened(site.url) as engine:
        for _ in range(3):
            with reading(engine) as connection:
                assert [profile] == list(profiles.list_all(connection))
            with pytest.raises(
                DatabaseUnavailable,
                match=r"^The database is read-only: .* URL, .* Nothing was stored\.$",
            ):
                teach(engine, profile, taught(1, "ham", {"a": 1}))
        assert 0 == ledger_of(site.url)
        site.administer("ALTER DATABASE {database} RESET default_transaction_read_only")
        teach(engine, profile, taught(1, "ham", {"a": 1}))

    assert 1 == ledger_of(site.url)


def test_a_writer_after_a_reader_may_write(site):
    """On the one connection that there is."""
    with opened(site.url) as engine:
        profile = new_profile(engine)
        for number in range(3):
            with reading(engine) as connection:
                profiles.list_all(connection)
            teach(engine, profile, taught(number, "ham", {"a": 1}))

    assert 3 == ledger_of(site.url)


@pytest.mark.parametrize(
    ("chosen", "kept"),
    [
        ("off", "on"),
        ("on", "on"),
        ("local", "local"),
        ("remote_write", "remote_write"),
        ("remote_apply", "remote_apply"),
    ],
)
def test_a_commit_on_postgresql_is_durable(site, chosen, kept):
    """Whatever is set for the role or in the URL; what waits for the disk stays."""
    site.administer(f"ALTER ROLE {{guest}} SET synchronous_commit = {chosen}")
    found = []
    for url in (site.guest_url, f"{site.url}&options=-csynchronous_commit={chosen}"):
        engine = open_engine(url)
        for begun in (reading, writing):
            with begun(engine) as connection:
                shown = connection.exec_driver_sql("SHOW synchronous_commit")
                found.append(shown.scalar_one())
        engine.dispose()

    assert [kept] * 4 == found


def test_times_are_read_however_an_administrator_writes_them(site):
    """The driver knows one style only."""
    site.administer("ALTER DATABASE {database} SET DateStyle = 'German'")
    with opened(site.url) as engine:
        profile = new_profile(engine)
        with reading(engine) as connection:
            (found,) = profiles.list_all(connection)

    assert profile.created_at == found.created_at


def test_an_administrator_sees_whose_connection_it_is(site):
    """In the table of connections, unless the URL has another name."""
    found = []
    for url in (site.url, f"{site.url}&application_name=mx1"):
        with opened(url) as engine, reading(engine) as connection:
            shown = connection.exec_driver_sql("SHOW application_name")
            found.append(shown.scalar_one())

    assert ["postbayes", "mx1"] == found


def test_a_lock_that_is_not_given_is_no_outage(site):
    """After the patience of whoever waits the database is busy, not away."""
    with opened(site.url, busy_timeout=0.05) as engine:
        profile = new_profile(engine)
        with writing(engine) as holder:
            holder.exec_driver_sql("LOCK TABLE profile")
            with pytest.raises(DatabaseUnavailable, match=r"is busy: .* lock timeout"):
                teach(engine, profile, taught(1, "ham", {"a": 1}))


def test_a_statement_that_takes_too_long_is_stopped(site):
    """By a time-out that somebody has set; the sentence is PostgreSQL's."""
    site.administer("ALTER DATABASE {database} SET statement_timeout = 50")
    engine = open_engine(site.url)

    with (
        pytest.raises(
            DatabaseUnavailable,
            match=r"^The database has stopped it: .* statement timeout\. ",
        ),
        reading(engine) as connection,
    ):
        connection.exec_driver_sql("SELECT pg_sleep(60)")
    engine.dispose()
