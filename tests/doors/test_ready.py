"""Readiness: a service that cannot store what it is taught says so, until it can."""

from __future__ import annotations

import pytest

from app.errors import DatabaseUnavailable, InvalidInput
from app.services import clock, writer
from tests.support.application import served
from tests.support.messages import spam

RAW = {"content-type": "message/rfc822"}


def post(client, number):
    """Teach a message, and return the status; a defect is a 500 as well."""
    try:
        answer = client.post("/feedback?label=spam", content=spam(number), headers=RAW)
    except MemoryError:
        return 500
    return answer.status_code


@pytest.fixture
def client(tmp_path):
    """A client of a service."""
    with served(tmp_path) as client:
        yield client


def failing(monkeypatch, error):
    """Have each write of the writer fail."""

    def append(*_):
        raise error

    monkeypatch.setattr(writer, "append", append)


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (DatabaseUnavailable("the disk is full"), 503, "failed: the disk is full"),
        (MemoryError(), 500, "not enough memory is left for learning"),
    ],
)
def test_a_write_that_failed_is_told_until_one_succeeds(
    client, monkeypatch, error, status, says
):
    """By `/readyz` and a metric, whatever kept it from the disk."""
    ready = [client.get("/readyz").status_code]
    with monkeypatch.context() as broken:
        failing(broken, error)
        refused = post(client, 1)
        detail = client.get("/readyz").json()["detail"]
        told = client.get("/metrics").text
        ready.append(client.get("/readyz").status_code)
        scored = client.post("/classify", content=spam(1), headers=RAW).status_code
        alive = client.get("/healthz").status_code
    taken = post(client, 2)
    ready.append(client.get("/readyz").status_code)

    assert [200, 503, 200] == ready
    assert (status, 200, 200, 200) == (refused, scored, alive, taken)
    assert says in detail
    assert "postbayes_writable 0.0" in told.splitlines()
    assert "postbayes_writable 1.0" in client.get("/metrics").text.splitlines()


def test_it_recovers_without_feedback(client, monkeypatch):
    """A service that is not ready is sent none."""
    app = client.app.state.application
    # A step is never begun within another, and its thread would recover first.
    app.scheduler.stop()
    with monkeypatch.context() as broken:
        failing(broken, DatabaseUnavailable("the disk is full"))
        post(client, 1)
    assert app.write_failure
    monkeypatch.setattr(clock, "PROBE", 0.0)
    app._health.failed(DatabaseUnavailable("the disk is full"))  # noqa: SLF001
    app._maintain()  # noqa: SLF001

    assert app.write_failure is None
    assert 0 == app.live.get("default").revision


def test_a_request_that_cannot_be_used_is_no_fault_of_the_service(client, monkeypatch):
    """A client that sends nonsense does not take the service out of use."""
    failing(monkeypatch, InvalidInput("nonsense"))
    post(client, 1)

    assert 200 == client.get("/readyz").status_code
