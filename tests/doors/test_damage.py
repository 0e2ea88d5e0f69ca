"""A database that is damaged or replaced while a service runs: no data are lost."""

from __future__ import annotations

import shutil
from itertools import groupby

import pytest

from app.services import scheduler
from tests.support.application import taught_client, wait_for
from tests.support.builders import damage
from tests.support.messages import spam

RAW = {"content-type": "message/rfc822"}


@pytest.fixture
def path(tmp_path):
    """Where the database is."""
    return tmp_path / "postbayes.db"


@pytest.fixture
def sound(path, monkeypatch):
    """A client of a service that has learned six messages."""
    monkeypatch.setattr(scheduler, "INTERVAL", 0.01)
    with taught_client(f"sqlite:///{path}") as client:
        yield client


@pytest.fixture
def damaged(sound, path):
    """The same, and then this befell it."""
    engine = sound.app.state.application.engine
    damage(engine, path, "profile", "ledger", "fold")
    return sound


def lines_of_database(caplog):
    """Return the lines that maintenance logged of the database."""
    lines = [record.getMessage() for record in caplog.records]
    return [
        line for line in lines if "maintenance is waiting" in line or "is back" in line
    ]


def test_scoring_goes_on_and_feedback_is_told_the_way_out(damaged, tmp_path):
    """With 500, which nobody tries again, and without a traceback."""
    scored = damaged.post("/classify", content=spam(7), headers=RAW)
    answers = [
        damaged.post("/feedback?label=spam", content=spam(7), headers=RAW),
        damaged.delete(f"/feedback/{'0' * 32}"),
        damaged.get("/profiles/default/figures"),
        damaged.get("/readyz"),
    ]
    up = [line for line in damaged.get("/metrics").text.splitlines() if "_up " in line]

    assert (200, "spam") == (scored.status_code, scored.json()["label"])
    for answer in answers:
        problem = answer.json()
        assert (500, None) == (answer.status_code, answer.headers.get("retry-after"))
        assert "urn:postbayes:problem:database-damaged" == problem["type"]
        assert problem["detail"].startswith(f"{tmp_path}/postbayes.db is damaged, or")
        assert problem["detail"].endswith("a backup as docs/operating.md describes.")
    assert "postbayes_database_up 0.0" in up


def test_the_log_tells_it_once_and_again_at_the_end(damaged, caplog):
    """The threads go on, and what was scored last is not kept."""
    damaged.post("/classify", content=spam(7), headers=RAW)
    application = damaged.app.state.application
    wait_for("maintenance is waiting for the database", caplog)
    for _ in range(20):
        damaged.get("/readyz")
    alive = application.scheduler.is_alive(), application.writer.is_alive()
    application.stop()

    assert (True, True) == alive
    assert 1 == caplog.text.count("maintenance is waiting for the database")
    assert 1 == caplog.text.count("the latest scored messages could not be stored")
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_nothing_is_acknowledged_that_no_file_has(sound, path, caplog, how):
    """A missing file is not created, and another one is not written."""
    other = path.with_name("copy.db")
    shutil.copy(path, other)
    content = other.read_bytes()
    if how == "deleted":
        for each in path.parent.glob("postbayes.db*"):
            each.unlink()
    else:
        other.rename(path)

    scored = sound.post("/classify", content=spam(7), headers=RAW)
    answers = [
        sound.post("/feedback?label=spam", content=spam(7), headers=RAW),
        sound.delete(f"/feedback/{'0' * 32}"),
        sound.get("/profiles/default/figures"),
        sound.get("/readyz"),
    ]
    up = [line for line in sound.get("/metrics").text.splitlines() if "_up " in line]
    wait_for("maintenance is waiting for the database", caplog)
    sound.app.state.application.stop()

    assert (200, "spam") == (scored.status_code, scored.json()["label"])
    for answer in answers:
        problem = answer.json()
        assert (503, "5") == (answer.status_code, answer.headers["retry-after"])
        assert "urn:postbayes:problem:database-unavailable" == problem["type"]
        assert problem["detail"].startswith(f"The file {path} is not the one that was")
    assert "postbayes_database_up 0.0" in up
    # The first step may meet the file half replaced, and log another error.
    logged = lines_of_database(caplog)
    assert [line for line, _ in groupby(logged)] == logged
    if how == "deleted":
        assert [] == list(path.parent.glob("postbayes.db*"))
    else:
        assert content == path.read_bytes()


def test_feedback_is_taken_again_once_the_file_is_back(sound, path):
    """Without a restart: it is the file that is open."""
    path.rename(path.with_name("away.db"))
    away = sound.post("/feedback?label=spam", content=spam(7), headers=RAW)
    path.with_name("away.db").rename(path)
    back = sound.post("/feedback?label=spam", content=spam(7), headers=RAW)

    assert (503, 200) == (away.status_code, back.status_code)
    assert 200 == sound.get("/readyz").status_code
