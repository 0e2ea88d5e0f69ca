"""A database that is damaged while a service runs: no data are lost to its threads."""

from __future__ import annotations

import time

import pytest
from fastapi.testclient import TestClient

from app.adapters.http.app import create_app
from app.bootstrap import Application
from app.services import keeper
from app.settings import Settings
from tests.messages import HAM, SPAM, spam
from tests.storage.builders import damage

RAW = {"content-type": "message/rfc822"}
PATIENCE = 30


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A client of a service that has learned six messages, and then this befell it."""
    monkeypatch.setattr(keeper, "INTERVAL", 0.01)
    path = tmp_path / "postbayes.db"
    settings = Settings(_env_file=None, database_url=f"sqlite:///{path}")
    application = Application(settings)
    with TestClient(create_app(application)) as client:
        for label, messages in (("ham", HAM), ("spam", SPAM)):
            for raw in messages:
                client.post(f"/feedback?label={label}", content=raw, headers=RAW)
        damage(application.engine, path, "profile", "ledger", "fold")
        yield client


def wait_for(said, caplog):
    """Wait until something is logged."""
    until = time.monotonic() + PATIENCE
    while said not in caplog.text and time.monotonic() < until:
        time.sleep(0.01)
    assert said in caplog.text


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
        assert problem["detail"].endswith("a backup, as docs/operating.md says.")
    assert "postbayes_database_up 0.0" in up


def test_the_log_tells_it_once_and_again_at_the_end(damaged, caplog):
    """The threads go on, and what was scored last is not kept."""
    damaged.post("/classify", content=spam(7), headers=RAW)
    application = damaged.app.state.application
    wait_for("upkeep waits for the database", caplog)
    for _ in range(20):
        damaged.get("/readyz")
    alive = application.keeper.alive, application.writer.alive
    application.stop()

    assert (True, True) == alive
    assert 1 == caplog.text.count("upkeep waits for the database")
    assert 1 == caplog.text.count("the last scored messages are not kept")
    assert "Traceback" not in caplog.text
