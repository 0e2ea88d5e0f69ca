"""The application that is served, as a server makes it."""

from __future__ import annotations

import gc

import pytest
from fastapi.testclient import TestClient

from app.errors import DatabaseUnavailable
from app.main import create
from tests.support.databases import sqlite_url
from tests.support.messages import ham


@pytest.fixture
def client(tmp_path, monkeypatch):
    """A client of the application of an environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTBAYES_DATABASE_URL", sqlite_url(tmp_path, "p.db"))
    with TestClient(create()) as client:
        yield client
    gc.unfreeze()


def test_what_is_there_at_the_start_is_not_walked_again(client):
    """The collector looks at what came since, and that is little."""
    for n in range(9):
        client.post(
            "/feedback?label=ham",
            content=ham(n),
            headers={"content-type": "message/rfc822"},
        )
    gc.collect()

    assert len(gc.get_objects()) < gc.get_freeze_count() / 4


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_cannot_start_says_so_in_a_sentence(
    tmp_path, monkeypatch, caplog, workers
):
    """Where it is one of several: another is started, which would say it again."""
    monkeypatch.setenv("POSTBAYES_DATABASE_URL", f"sqlite:///{tmp_path}")
    monkeypatch.setenv("POSTBAYES_WORKERS", f"{workers}")
    raised = DatabaseUnavailable if workers == 1 else SystemExit
    with pytest.raises(raised) as end:
        create()

    told = [(each.getMessage(), each.exc_info) for each in caplog.records]
    if workers == 1:
        assert [] == told
    else:
        [(sentence, traceback)] = told
        assert sentence.startswith(f"this worker cannot start: {tmp_path} cannot be op")
        assert (1, None) == (end.value.code, traceback)
