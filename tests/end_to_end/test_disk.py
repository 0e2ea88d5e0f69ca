"""A disk that is full, read-only or broken: nothing is lost, and scoring goes on."""

from __future__ import annotations

import os
import resource
import sqlite3
import time
from multiprocessing import get_context

import pytest
from sqlalchemy import text

from app.errors import DatabaseUnavailable, UnwritableFile
from app.storage.database.engine import backup, open_engine, reading, writing
from tests.support.disk import mounted
from tests.support.messages import ham, spam
from tests.support.service import Service

pytestmark = pytest.mark.disk

ATTEMPTS = 500


@pytest.fixture
def disk(tmp_path):
    """A file system of a few megabytes, for the database alone."""
    with mounted(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def started():
    """Services that were started; whatever runs at the end is killed."""
    services = []
    yield services
    for service in services:
        service.client.close()
        if service.process.poll() is None:
            service.kill()


def serving(folder, home, started):
    """Start a service whose database is in a folder of its own."""
    service = Service(f"sqlite:///{folder}/postbayes.db", home)
    service.start()
    started.append(service)
    return service


def post(service, number):
    """Ask a service to learn a message, and return its answer as it comes."""
    return service.client.post(
        "/feedback",
        params={"label": "spam" if number % 2 else "ham"},
        content=spam(number) if number % 2 else ham(number),
        headers={"content-type": "message/rfc822"},
    )


def teach_until_refused(service, first):
    """Teach until it fails; return the numbers that were learned, and the refusal."""
    learned = []
    for number in range(first, first + ATTEMPTS):
        answer = post(service, number)
        if not answer.is_success:
            return learned, answer
        learned.append(number)
    pytest.fail(f"{ATTEMPTS} messages were learned without an error")


def teach_until_learned(service, number):
    """Teach a message until it is learned, and return the answer."""
    for _ in range(ATTEMPTS):
        answer = post(service, number)
        if answer.is_success:
            return answer
        # A connection of house-keeping, which found the disk as it was, is given
        # back within milliseconds.
        time.sleep(0.01)
    pytest.fail(f"not learned after {ATTEMPTS} attempts: {answer.text}")


def until_ready(service):
    """Wait until a service is ready, without a feedback."""
    for _ in range(ATTEMPTS):
        if service.client.get("/readyz").is_success:
            return
        time.sleep(0.1)
    pytest.fail(service.client.get("/readyz").text)


def outcomes(service, numbers):
    """Return what teaching the same messages again does."""
    return {post(service, number).json()["outcome"] for number in numbers}


def test_a_full_disk_loses_nothing_and_is_forgotten_when_there_is_room(
    disk, tmp_path, started
):
    """503 and when to try again; mail is scored; with room the next one is learned."""
    service = serving(disk.path, tmp_path, started)
    learned = [n for n in range(20) if post(service, n).is_success]
    disk.fill()
    more, refusal = teach_until_refused(service, 100)
    scored = service.classify(spam(3))["decision"]
    again = post(service, 900)
    unready = service.client.get("/readyz")
    told = service.client.get("/metrics").text
    disk.make_room()
    until_ready(service)
    after = post(service, 901)
    learned += [*more, 901]
    kept = outcomes(service, learned)
    service.stop()
    code, audit = service.audit()

    assert (503, "5") == (refusal.status_code, refusal.headers["retry-after"])
    detail = refusal.json()["detail"]
    assert (
        f"of {disk.path}/postbayes.db is full; free some space there. Nothing" in detail
    )
    assert ("spam", 503) == (scored, again.status_code)
    assert 503 == unready.status_code
    assert "the last write failed" in unready.json()["detail"]
    assert "postbayes_writable 0.0" in told.splitlines()
    assert (200, "learned") == (after.status_code, after.json()["outcome"])
    assert {"unchanged"} == kept
    assert (0, 0) == (code, audit["difference"])
    assert len(learned) == audit["profiles"]["default"]["ledger_rows"]


def test_a_service_starts_on_a_full_disk_and_scores(disk, tmp_path, started):
    """A restart in the middle of it: it answers from what it had learned."""
    service = serving(disk.path, tmp_path, started)
    learned = [n for n in range(20) if post(service, n).is_success]
    disk.fill()
    service.kill()
    service.start(until="/healthz")
    scored = service.classify(spam(3))
    _, refusal = teach_until_refused(service, 100)
    disk.make_room()

    assert 20 == len(learned)
    assert ("spam", 20) == (scored["decision"], scored["revision"])
    assert 503 == refusal.status_code
    assert {"unchanged"} == outcomes(service, learned)


def test_a_disk_that_fails_while_it_is_written_loses_nothing(tmp_path, started):
    """Not full but broken: every write fails from some byte of a file on."""
    folder = tmp_path / "database"
    service = serving(folder, tmp_path, started)
    learned = [n for n in range(10) if post(service, n).is_success]
    size = (folder / "postbayes.db-wal").stat().st_size
    # The kernel refuses to let any file of the process grow beyond this.
    before = resource.prlimit(
        service.process.pid,
        resource.RLIMIT_FSIZE,
        (size + 20_000, resource.RLIM_INFINITY),
    )
    more, refusal = teach_until_refused(service, 100)
    scored = service.classify(spam(3))["decision"]
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, before)
    after = post(service, 901)
    kept = outcomes(service, [*learned, *more, 901])
    service.kill()
    code, audit = service.audit()

    assert (503, "5") == (refusal.status_code, refusal.headers["retry-after"])
    assert "disk I/O error" in refusal.json()["detail"]
    assert "spam" == scored
    assert (200, {"unchanged"}) == (after.status_code, kept)
    assert (0, 0) == (code, audit["difference"])


@pytest.mark.parametrize("end", [Service.kill, Service.stop])
def test_a_disk_that_is_read_only_at_the_start_is_taken_up_again(
    disk, tmp_path, started, end
):
    """It is scored from, and learned to as soon as it can be, without a restart."""
    service = serving(disk.path, tmp_path, started)
    learned = [n for n in range(20) if post(service, n).is_success]
    end(service)
    disk.remount("ro")
    service.start(until="/healthz")
    refusal = post(service, 100)
    scored = service.classify(spam(3))
    disk.remount("rw")
    after = teach_until_learned(service, 100)
    kept = outcomes(service, [*learned, 100])
    service.stop()
    code, audit = service.audit()

    assert (503, "5") == (refusal.status_code, refusal.headers["retry-after"])
    assert "Nothing was stored" in refusal.json()["detail"]
    assert ("spam", 20) == (scored["decision"], scored["revision"])
    assert "learned" == after.json()["outcome"]
    assert {"unchanged"} == kept
    assert (0, 0) == (code, audit["difference"])


def test_workers_count_on_while_the_disk_of_their_counters_is_full(
    disk, tmp_path, started
):
    """They are mapped into memory, where a page without room would end a worker."""
    service = Service(f"sqlite:///{tmp_path}/postbayes.db", tmp_path)
    started.append(service)
    service.environment |= {"POSTBAYES_WORKERS": "2", "TMPDIR": str(disk.path)}
    service.start()
    before = {path.name for path in disk.path.glob("postbayes-metrics-*/*.db")}
    disk.fill()
    statuses = {
        service.client.request(method, path, content=spam(1)).status_code
        for method, path in [("GET", "/"), ("PUT", "/"), ("GET", "/healthz")] * 4
    }
    decided = [service.classify(spam(n))["decision"] for n in range(20)]
    counted = service.client.get("/metrics").text.splitlines()
    after = {path.name for path in disk.path.glob("postbayes-metrics-*/*.db")}

    assert 6 == len(before)
    assert before == after
    assert {200, 404, 405} >= statuses >= {200}
    assert ["unsure"] * 20 == decided
    assert 'postbayes_classified_total{decision="unsure"} 20.0' in counted


def test_a_backup_that_finds_no_room_leaves_no_journal(disk, tmp_path):
    """Only the part of the copy, which the command removes."""
    engine = open_engine(f"sqlite:///{tmp_path}/postbayes.db")
    with writing(engine) as writer:
        writer.execute(text("CREATE TABLE t (x)"))
        writer.execute(text("INSERT INTO t VALUES (zeroblob(12000000))"))
    with pytest.raises(UnwritableFile, match="full"):
        backup(engine, disk.path / "copy.db.part")
    engine.dispose()

    assert ["copy.db.part"] == [path.name for path in disk.path.iterdir()]


def left_open(path):
    """Make a database with a log, and leave it as a process does that is killed."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE t (x)")
    os._exit(0)


def test_who_reads_while_a_disk_becomes_writable_keeps_nobody_from_writing(disk):
    """Connections beside it cannot write, and are not kept for those who ask later."""
    path = disk.path / "postbayes.db"
    process = get_context("spawn").Process(target=left_open, args=(path,))
    process.start()
    process.join()
    disk.remount("ro")
    engine = open_engine(f"sqlite:///{path}")
    with reading(engine) as reader:
        reader.execute(text("SELECT x FROM t"))
        disk.remount("rw")
        with pytest.raises(DatabaseUnavailable, match="read-only"), writing(engine):
            pass
    with writing(engine) as writer:
        writer.execute(text("INSERT INTO t VALUES (1)"))
    with reading(engine) as reader:
        assert [(1,)] == reader.execute(text("SELECT x FROM t")).all()
    engine.dispose()
