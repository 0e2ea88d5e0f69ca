"""Transactions: how they begin, and what becomes of those that fail."""

from __future__ import annotations

import re
import sqlite3
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event, Thread, Timer
from types import SimpleNamespace

import numpy as np
import psycopg
import pytest
from sqlalchemy import select, text
from sqlalchemy.event import listens_for
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.bayes.sparse import SparseCounts
from app.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    DatabaseUnprepared,
    InconsistentCounts,
    InvalidSetting,
)
from app.features.observation import Observation
from app.ledger.entry import ScoredRow
from app.storage import tables
from app.storage.database import sqlite
from app.storage.database.engine import (
    checkpoint,
    migrate,
    migrating,
    open_engine,
    probe,
    reading,
    translated,
    with_short_timeout,
    writing,
)
from app.storage.database.postgresql import LONG_RESPONSE_TIME
from app.storage.ledger import append
from tests.support.builders import (
    MARCH,
    damage,
    digest,
    new_profile,
    rows_of,
    taught,
    teach,
)
from tests.support.databases import on_postgresql, on_sqlite


def revision(connection, profile):
    """Return the revision that a connection sees."""
    return connection.execute(
        select(tables.profile.c.revision).where(tables.profile.c.id == profile.id)
    ).scalar_one()


def long_one():
    """Return what is taught by a message whose row alone makes the log long."""
    ids = np.random.default_rng(1).integers(2**62, size=1_000_000)
    views = {"words": SparseCounts(*np.unique(ids, return_counts=True))}
    seen = Observation(digest=digest(1), feature_set=1, views=views, names={})
    return replace(taught(1, "ham"), evidence=ScoredRow.of(seen, time=MARCH))


def test_a_reader_sees_one_snapshot(engine):
    """What is committed meanwhile is not in it, nor does it hold anybody up."""
    profile = new_profile(engine)
    with reading(engine) as connection:
        before = revision(connection, profile)
        teach(engine, profile, taught(1, "ham", {"a": 1}))
        after = revision(connection, profile)
    with reading(engine) as connection:
        now = revision(connection, profile)

    assert (0, 0, 1) == (before, after, now)


@on_postgresql
def test_a_reader_cannot_write(engine):
    """The transaction is read-only."""

    def write():
        with reading(engine) as connection:
            connection.execute(tables.profile.delete())

    with pytest.raises(DatabaseUnavailable, match="read-only transaction"):
        write()


@on_sqlite
def test_a_commit_on_sqlite_is_durable(engine):
    """Write-ahead log, full synchronisation, foreign keys, patience."""
    with reading(engine) as connection:
        values = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        ]

    assert ["wal", 2, 1, 5000] == values


def test_a_row_without_its_profile_is_refused(engine):
    """Foreign keys are checked; such an error is a defect and stays as it is."""
    with (
        pytest.raises(IntegrityError),
        writing(engine) as connection,
    ):
        connection.execute(
            tables.fold.insert().values(profile_id=999, folded_revision=0)
        )


def test_a_negative_count_is_inconsistent(engine):
    """The database's own check is the last guard."""
    profile = new_profile(engine)
    row = {"profile_id": profile.id, "epoch": 202603, "view": "words", "label": "ham"}

    with (
        pytest.raises(InconsistentCounts, match="A count would be negative"),
        writing(engine) as connection,
    ):
        connection.execute(tables.class_count.insert().values(**row, messages=-1))


@on_postgresql
def test_a_negative_count_is_found_in_any_language(engine):
    """PostgreSQL translates its messages (`lc_messages`), but not its codes."""
    said = "la ligne viole la contrainte de vérification « ck_class_count_messages »"

    with pytest.raises(InconsistentCounts, match="negative: la ligne"), writing(engine):
        raise psycopg.errors.CheckViolation(said)


@pytest.mark.parametrize(
    "statement", ["SELECT kind FROM class_count", "INSERT INTO fold (kind) VALUES (1)"]
)
def test_a_missing_column_is_one_of_another_version(engine, statement):
    """As beside a newer version that has dropped it; nobody need wait for it."""
    with (
        pytest.raises(
            DatabaseUnprepared, match=r"tables are not those.*kind"
        ) as caught,
        writing(engine) as connection,
    ):
        connection.exec_driver_sql(statement)

    assert str(caught.value).endswith("Nothing was stored.")


def test_a_statement_that_no_database_can_read_is_a_defect(engine):
    """It stays as it is: to try again later would not help."""
    with pytest.raises(DBAPIError, match="syntax"), writing(engine) as connection:
        connection.exec_driver_sql("HELLO")


def test_no_error_brings_mail_into_the_log(engine):
    """Neither what was to be written nor what the database quotes of it."""
    profile = new_profile(engine)
    row = {"profile_id": profile.id, "epoch": 202603, "view": "words", "label": "mango"}
    texts = []
    for count in (-1, None):
        with (
            pytest.raises((InconsistentCounts, IntegrityError)) as caught,
            writing(engine) as connection,
        ):
            connection.execute(
                tables.class_count.insert().values(**row, messages=count)
            )
        texts.append("".join(traceback.format_exception(caught.value)))

    for text_of_error in texts:
        assert "constraint" in text_of_error
        assert "INSERT INTO class_count" in text_of_error
        assert "mango" not in text_of_error


@on_postgresql
def test_the_line_that_could_not_be_copied_is_not_quoted(engine):
    """By the driver itself neither."""

    def copy():
        with (
            writing(engine) as connection,
            connection.connection.cursor() as cursor,
            cursor.copy("COPY class_count FROM STDIN") as rows,
        ):
            rows.write("mango\tbanana\n")

    with pytest.raises(Exception, match="invalid input syntax") as caught:
        copy()
    assert "COPY" not in str(caught.value)
    assert "banana" not in str(caught.value)


def test_a_writer_that_waits_too_long_gives_up(database_url):
    """It says so, stores nothing, and succeeds later."""
    engine = open_engine(database_url, busy_timeout=0.1)
    migrate(engine)
    profile = new_profile(engine)
    holds, leave = Event(), Event()

    def hold():
        with writing(engine) as connection:
            connection.execute(
                tables.profile.update()
                .where(tables.profile.c.id == profile.id)
                .values(feature_set=2)
            )
            holds.set()
            leave.wait(30)

    thread = Thread(target=hold)
    thread.start()
    holds.wait(30)
    try:
        with pytest.raises(DatabaseUnavailable, match="Nothing was stored"):
            teach(engine, profile, taught(1, "ham", {"a": 1}))
    finally:
        leave.set()
        thread.join()

    assert ["learned"] == [
        outcome.kind for outcome in teach(engine, profile, taught(1, "ham", {"a": 1}))
    ]
    engine.dispose()


@on_sqlite
def test_another_process_that_writes_is_waited_for(engine, tmp_path):
    """And given up on when it takes too long."""
    profile = new_profile(engine)
    impatient = open_engine(str(engine.url), busy_timeout=0.05)
    other = sqlite3.connect(tmp_path / "postbayes.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(DatabaseUnavailable, match="busy: database is locked"):
        teach(impatient, profile, taught(1, "ham", {"a": 1}))
    other.execute("ROLLBACK")
    assert 1 == len(teach(impatient, profile, taught(1, "ham", {"a": 1})))
    other.close()
    impatient.dispose()


@pytest.fixture
def naps(monkeypatch):
    """Let time pass only while somebody sleeps, a second each; tell how often."""
    taken = []
    clock = SimpleNamespace(monotonic=lambda: float(len(taken)), sleep=taken.append)
    monkeypatch.setattr(sqlite, "time", clock)
    return taken


def released_after(other, naps, count):
    """Let another connection give up its lock in the nap of that number."""

    def nap(seconds):
        naps.append(seconds)
        if len(naps) == count:
            other.execute("ROLLBACK")

    return nap


@on_sqlite
def test_another_process_that_writes_is_asked_again_and_again(
    engine, tmp_path, naps, monkeypatch
):
    """Not in sleeps that grow: who waited longest would get the lock last."""
    profile = new_profile(engine)
    other = sqlite3.connect(tmp_path / "postbayes.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(sqlite.time, "sleep", released_after(other, naps, 4))

    with writing(engine) as connection:
        last = revision(connection, profile)

    assert 0 == last
    assert [0.001] * 4 == naps
    other.close()


@on_sqlite
def test_readers_wait_for_a_log_that_is_set_up(database_url):
    """By SQLite's busy handler, also on a connection that has just written."""
    engine = open_engine(database_url, pool_size=1)
    migrate(engine)
    profile = new_profile(engine)

    handlers = []
    for use in (reading, writing, reading):
        with use(engine) as connection:
            assert 0 == revision(connection, profile)
            handlers.append(connection.exec_driver_sql("PRAGMA busy_timeout").scalar())

    assert [5000, 0, 5000] == handlers
    engine.dispose()


@on_sqlite
def test_who_migrates_is_patient(engine, tmp_path, naps, monkeypatch):
    """Another that migrates may take minutes; a writer has given up by then."""
    other = sqlite3.connect(tmp_path / "postbayes.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    def write(begun):
        with begun(engine) as connection:
            return connection.exec_driver_sql("SELECT 1").scalar_one()

    with pytest.raises(DatabaseUnavailable, match="busy: database is locked"):
        write(writing)
    assert 5 == len(naps)
    naps.clear()
    monkeypatch.setattr(sqlite.time, "sleep", released_after(other, naps, 290))
    assert 1 == write(migrating)
    assert 290 == len(naps)
    other.close()


@on_sqlite
@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            sqlite3.SQLITE_BUSY,
            r"is busy: it failed\. Nothing was stored; try again later",
        ),
        (sqlite3.SQLITE_NOMEM, r"unavailable: .* Nothing was stored; try again later"),
        (sqlite3.SQLITE_FULL, r"free some space there\. Nothing was stored"),
        (
            sqlite3.SQLITE_IOERR_FSYNC,
            r"check it, .* and the disk quota .* Nothing was stored",
        ),
        (sqlite3.SQLITE_READONLY, r"check its disk, and .* Nothing was stored"),
        (sqlite3.SQLITE_CANTOPEN, r"check the path, .*`df -i`.* Nothing was stored"),
        (
            sqlite3.SQLITE_CORRUPT_INDEX,
            r"Restore a backup as docs/operating.md describes",
        ),
    ],
)
def test_an_error_says_what_to_do_or_to_try_again(engine, code, says):
    """Waiting frees no disk and changes no permission."""
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code

    with (
        pytest.raises((DatabaseUnavailable, DatabaseDamaged), match=rf"{says}\.$"),
        translated(engine),
    ):
        raise error


@on_sqlite
@pytest.mark.parametrize(
    ("code", "says"),
    [
        (sqlite3.SQLITE_BUSY, "is busy: it failed. Try again later."),
        (sqlite3.SQLITE_IOERR_SHMSIZE, "is full; free some space there."),
    ],
)
def test_an_error_of_a_read_does_not_speak_of_storing(engine, code, says):
    """Nothing was to be stored."""
    error = sqlite3.OperationalError("it failed")
    error.sqlite_errorcode = code

    with pytest.raises(DatabaseUnavailable) as caught, reading(engine):
        raise error
    assert str(caught.value).endswith(says)


@on_sqlite
def test_a_file_that_cannot_be_written_is_not_waited_for(engine, naps):
    """Whatever is wrong with it, nobody else is at it."""
    with reading(engine) as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")

    with (
        pytest.raises(
            DatabaseUnavailable,
            match=r"/postbayes.db is read-only \(attempt to .* user \d+ may write",
        ),
        writing(engine) as connection,
    ):
        connection.execute(tables.profile.delete())
    assert [] == naps


@on_sqlite
def test_a_full_disk_stores_nothing(engine):
    """The sentence says where room is to be made."""
    profile = new_profile(engine)
    with reading(engine) as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 30")
    huge = {f"word{n}": 1 for n in range(30_000)}

    with pytest.raises(
        DatabaseUnavailable,
        match=r"disk of /.*\.db is full; free some space there\. Nothing",
    ):
        teach(engine, profile, taught(1, "ham", huge))
    assert 1 == len(teach(engine, profile, taught(1, "ham", {"a": 1})))
    with reading(engine) as connection:
        assert 1 == revision(connection, profile)


@on_sqlite
def test_a_read_only_file_can_be_read(engine, tmp_path):
    """Writing to it is refused with a sentence."""
    profile = new_profile(engine)
    read_only = open_engine(f"sqlite:///file:{tmp_path}/postbayes.db?mode=ro&uri=true")
    with reading(read_only) as connection:
        assert 0 == revision(connection, profile)

    with pytest.raises(
        DatabaseUnavailable,
        match=r"/postbayes.db is read-only \(attempt to .* user \d+ may write",
    ):
        teach(read_only, profile, taught(1, "ham", {"a": 1}))
    read_only.dispose()


@on_sqlite
def test_a_file_that_is_no_database_is_an_error(database_url, tmp_path):
    """It is named and left as it is, and nobody is told to try again."""
    path = tmp_path / "postbayes.db"
    path.write_bytes(b"Dear diary, " * 100)
    engine = open_engine(database_url)

    with pytest.raises(DatabaseDamaged, match=f"^{path} is damaged, or not an") as told:
        migrate(engine)
    assert "again" not in str(told.value)
    assert b"Dear diary, " * 100 == path.read_bytes()
    engine.dispose()


@on_sqlite
def test_a_page_that_is_damaged_is_an_error(engine, tmp_path):
    """What is on the others can be read, and what needs it says what is to be done."""
    profile = new_profile(engine)
    damage(engine, tmp_path / "postbayes.db", "ledger")
    with reading(engine) as connection:
        assert 0 == revision(connection, profile)

    with pytest.raises(DatabaseDamaged, match=r"malformed\)\. Restore a backup as"):
        teach(engine, profile, taught(1, "ham", {"a": 1}))


@on_postgresql
@pytest.mark.parametrize(
    ("code", "error", "sentence"),
    [
        ("XX001", DatabaseDamaged, "damaged database: page 7. Restore a"),
        ("XX002", DatabaseDamaged, "damaged database: page 7. Restore a"),
        (
            "53100",
            DatabaseUnavailable,
            "PostgreSQL is full (page 7); free some space there. Nothing",
        ),
    ],
)
def test_what_the_disk_of_postgresql_has_is_told(engine, code, error, sentence):
    """As of SQLite: damaged for good, or full for now."""

    def fail():
        with writing(engine) as connection:
            connection.exec_driver_sql(
                f"DO $$ BEGIN RAISE 'page 7' USING ERRCODE = '{code}'; END $$"
            )

    with pytest.raises(error, match=re.escape(sentence)):
        fail()


@pytest.mark.parametrize("name", ["folder", "x" * 256])
def test_a_file_that_cannot_be_opened_is_named(tmp_path, monkeypatch, name):
    """From the root on, and with what to look at."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    engine = open_engine(f"sqlite:///{name}")

    with pytest.raises(DatabaseUnavailable, match=rf"^{tmp_path}/{name} cannot be op"):
        migrate(engine)


@on_postgresql
def test_connections_that_died_while_idle_are_replaced(engine):
    """A server that was restarted costs nobody a transaction."""
    profile = new_profile(engine)
    with writing(engine) as connection, writing(engine) as other:
        own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        idle = other.execute(text("SELECT pg_backend_pid()")).scalar_one()
    killer = open_engine(engine.url.render_as_string(hide_password=False))
    with writing(killer) as connection:
        for pid in (own, idle):
            connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
    killer.dispose()

    assert 1 == len(teach(engine, profile, taught(1, "ham", {"a": 1})))


def test_a_server_that_is_not_there_is_unavailable(tmp_path):
    """The sentence comes without the URL, which may hold a password."""
    engine = open_engine(f"postgresql://anna:secret@/mail?host={tmp_path}")

    with pytest.raises(
        DatabaseUnavailable,
        match=r"The database is unavailable: .* check the server and the database URL",
    ) as caught:
        migrate(engine)
    assert "secret" not in str(caught.value)


def test_a_pool_without_a_free_connection_is_unavailable(database_url):
    """Readers wait for as long as writers do."""
    engine = open_engine(database_url, busy_timeout=3.0, pool_size=1)

    with (
        reading(engine),
        reading(engine),
        pytest.raises(DatabaseUnavailable, match=r"All connections .* are in use"),
        reading(engine),
    ):
        pytest.fail("a third connection of two")
    engine.dispose()


def test_the_folder_of_the_file_is_made(tmp_path):
    """It alone, as that of the default is."""
    engine = open_engine(f"sqlite:///{tmp_path}/var/postbayes.db")
    migrate(engine)
    engine.dispose()

    assert (tmp_path / "var/postbayes.db").is_file()


def test_a_mistyped_path_makes_no_folders(tmp_path, monkeypatch):
    """The sentence names the folder that is not there, from the root on."""
    monkeypatch.chdir(tmp_path)
    sentence = rf"{tmp_path}/vra/lib .* because {tmp_path}/vra does not exist\. Create"

    with pytest.raises(InvalidSetting, match=sentence):
        open_engine("sqlite:///vra/lib/postbayes.db")
    assert [] == list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path):
    """The sentence names it."""
    (tmp_path / "var").write_text("a file")

    with pytest.raises(
        DatabaseUnavailable, match=r"var for the .* created: File exists"
    ):
        open_engine(f"sqlite:///{tmp_path}/var/postbayes.db")


@pytest.mark.parametrize(
    "url", ["postgres://h/d", "postgresql://h/d", "postgresql+psycopg2://h/d"]
)
def test_postgresql_is_reached_by_its_usual_urls(url):
    """All of them mean the driver that comes with Postbayes."""
    engine = open_engine(url)

    assert "postgresql+psycopg" == engine.url.drivername


def test_without_its_driver_postgresql_is_refused(monkeypatch):
    """The sentence says how to install it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(InvalidSetting, match=r"pip install '\.\[postgres\]'"):
        open_engine("postgresql://localhost/mail")


def test_many_that_meet_an_empty_file_all_open_it(tmp_path):
    """Switching a file to its write-ahead log is waited for."""
    failures = []

    def first_use(url, barrier):
        engine = open_engine(url)
        barrier.wait()
        try:
            with reading(engine) as connection:
                connection.execute(text("SELECT 1"))
        except DatabaseUnavailable as error:
            failures.append(error)
        engine.dispose()

    for file in range(20):
        barrier = Barrier(8)
        url = f"sqlite:///{tmp_path}/{file}.db"
        threads = [Thread(target=first_use, args=(url, barrier)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [] == failures


def held_by_a_writer(path):
    """Return a connection that keeps a file from getting its write-ahead log."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE t (a)")
    other.execute("BEGIN IMMEDIATE")
    return other


@on_sqlite
def test_a_file_that_is_held_for_a_moment_is_waited_for(database_url, tmp_path):
    """Even before it has its write-ahead log."""
    other = held_by_a_writer(tmp_path / "postbayes.db")
    release = Timer(0.1, other.rollback)
    release.start()
    engine = open_engine(database_url)
    migrate(engine)
    with reading(engine) as connection:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()

    assert "wal" == mode
    release.join()
    other.close()
    engine.dispose()


@on_sqlite
def test_a_file_that_stays_held_is_given_up_on(empty_database_url, tmp_path):
    """After the busy time-out."""
    other = held_by_a_writer(tmp_path / "empty.db")
    engine = open_engine(empty_database_url, busy_timeout=0.05)

    with pytest.raises(DatabaseUnavailable, match="busy: database is locked"):
        migrate(engine)
    other.close()
    engine.dispose()


@on_sqlite
def test_a_checkpoint_copies_the_log_beside_readers_and_writers(engine, database_url):
    """What is committed gets into the file, whoever holds a transaction."""
    path = Path(database_url.removeprefix("sqlite:///"))
    profile = new_profile(engine)
    teach(engine, profile, *(taught(n, "ham", {f"w{n}": 1}) for n in range(50)))
    before = path.read_bytes()
    with reading(engine), writing(engine):
        checkpoint(engine)
        copied = path.read_bytes()

    assert before != copied
    assert len(before) <= len(copied)


@on_sqlite
def test_a_long_log_begins_anew_though_somebody_writes(engine, database_url):
    """What is committed while it is copied is copied too, so it grows no further."""
    path = Path(database_url.removeprefix("sqlite:///"))
    log = path.with_name(f"{path.name}-wal")
    profile = new_profile(engine)
    long = long_one()
    teach(engine, profile, long)
    checkpoints = Thread(target=checkpoint, args=(engine,))
    with writing(engine) as connection:
        append(connection, profile, [taught(2, "ham", {"lunch": 1})])
        checkpoints.start()
        while path.stat().st_size < len(long.evidence.vector):
            checkpoints.join(0.01)
    checkpoints.join()
    before = log.stat().st_size
    teach(engine, profile, taught(3, "ham", {"noon": 1}))

    assert before == log.stat().st_size


@on_sqlite
def test_a_checkpoint_gives_back_a_connection_that_can_commit(engine):
    """SQLite refuses to beside a pragma of which not every row was read."""
    profile = new_profile(engine)
    teach(engine, profile, long_one())
    given_back = []

    @listens_for(engine, "checkin")
    def commit(connection, _):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE profile SET revision = revision")
        connection.execute("COMMIT")
        given_back.append(connection)

    checkpoint(engine)

    assert 1 == len(given_back)


def test_a_checkpoint_changes_nothing_that_is_read(engine):
    """On either database it is safe to ask for one."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    before = rows_of(engine, tables.ledger, profile)
    checkpoint(engine)

    assert before == rows_of(engine, tables.ledger, profile)


def sleep(engine):
    """Ask PostgreSQL for something that takes a minute."""
    with reading(engine) as connection:
        connection.exec_driver_sql("SELECT pg_sleep(60)")


@on_postgresql
def test_a_server_that_says_nothing_is_given_up(database_url):
    """A stopped server keeps its connections; the client counts the seconds."""
    engine = open_engine(database_url, busy_timeout=0.1)

    with pytest.raises(DatabaseUnavailable, match=r"not answer for 0\.\d seconds"):
        sleep(with_short_timeout(engine))
    with pytest.raises(DatabaseUnavailable, match=r"The database hangs"):
        sleep(engine)
    with pytest.raises(DatabaseUnavailable, match=r"The database hangs"):
        teach(engine, None)
    probe(engine)
    with reading(engine) as connection:
        assert 1 == connection.exec_driver_sql("SELECT 1").scalar()
    engine.dispose()


@on_postgresql
def test_whoever_waits_for_a_silent_server_gives_up_with_the_first(database_url):
    """However long it would have waited by itself."""
    engine = open_engine(database_url, busy_timeout=0.1)
    said = []

    def wait():
        try:
            sleep(engine)
        except DatabaseUnavailable as error:
            said.append(str(error))

    patient = Thread(target=wait)
    patient.start()
    with pytest.raises(DatabaseUnavailable):
        sleep(with_short_timeout(engine))
    patient.join()
    (silent,) = re.findall(r"not answer for (.*) seconds", said[0])

    assert float(silent) < LONG_RESPONSE_TIME
    engine.dispose()


@on_postgresql
def test_what_is_slow_is_waited_for(database_url):
    """Longer than whoever is in a hurry would."""
    engine = open_engine(database_url, busy_timeout=0.1)
    with reading(engine) as connection:
        slept = connection.exec_driver_sql("SELECT 1 FROM pg_sleep(0.5)").scalar()

    assert 1 == slept
    engine.dispose()


@on_postgresql
def test_a_connection_lost_in_its_commit_leaves_that_open(engine):
    """Whether it is stored nobody can know, so the error does not say."""
    profile = new_profile(engine)
    with writing(engine) as connection:
        connection.exec_driver_sql(
            "CREATE FUNCTION lost() RETURNS trigger LANGUAGE plpgsql AS $$"
            " BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
        )
        connection.exec_driver_sql(
            "CREATE CONSTRAINT TRIGGER lost AFTER INSERT ON ledger"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lost()"
        )

    with pytest.raises(
        DatabaseUnavailable, match=r"may have been stored; .* again is safe"
    ):
        teach(engine, profile, taught(1, "ham", {"a": 1}))


@on_postgresql
def test_a_connection_lost_before_its_commit_stored_nothing(engine):
    """And the error says so."""

    def lose():
        with writing(engine) as connection:
            connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(DatabaseUnavailable, match="Nothing was stored"):
        lose()


def test_a_file_that_can_have_no_write_ahead_log_is_refused(tmp_path):
    """SQLite says no without an error, and the process asked it for ever."""
    url = f"sqlite:///file:{tmp_path}/postbayes.db?vfs=unix-none&uri=true"

    with pytest.raises(InvalidSetting, match="no write-ahead log"):
        migrate(open_engine(url))
