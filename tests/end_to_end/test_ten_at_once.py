"""Ten containers that start at once on an empty database: one makes the tables."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, suppress

import httpx2
import pytest

from tests.support.command import PATIENCE, Command
from tests.support.messages import ham
from tests.support.service import client_of, free_port

MANY = 10
RAW = {"content-type": "message/rfc822"}


def wait_until_ready(client):
    """Wait until a service answers that it is ready."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress(httpx2.TransportError):
            if client.get("/readyz").is_success:
                return
        time.sleep(0.05)
    pytest.fail(f"{client.base_url} did not become ready")


def revision(client):
    """Return the revision that a service answers from."""
    return client.get("/profiles/default").json()["revision"]


@pytest.fixture
def ports(empty_database_url, tmp_path):
    """Ports of ten services that were started at once."""
    ports = [free_port() for _ in range(MANY)]
    environment = {k: v for k, v in os.environ.items() if "POSTBAYES" not in k}
    environment["POSTBAYES_DATABASE_URL"] = empty_database_url
    log = tmp_path / "log"
    # Forked from a process that has loaded all of the code, the last of them starts
    # before the first has made the tables.
    services = [
        Command(
            ["serve", "--port", str(port)],
            environment=environment,
            folder=tmp_path,
            out=log,
            err=log,
        )
        for port in ports
    ]
    yield ports
    for service in services:
        service.kill()
        service.wait()


def test_ten_services_that_start_at_once_all_serve(ports, tmp_path):
    """The migrations ran once, and each learns what the others are taught."""
    with ExitStack() as stack:
        clients = [stack.enter_context(client_of(port)) for port in ports]
        for client in clients:
            wait_until_ready(client)
        answers = [
            client.post("/feedback?label=ham", content=ham(n), headers=RAW)
            for n, client in enumerate(clients)
        ]
        while any(revision(client) < MANY for client in clients):
            time.sleep(0.05)
    log = (tmp_path / "log").read_text()

    assert [200] * MANY == [answer.status_code for answer in answers]
    assert set(range(1, MANY + 1)) == {a.json()["revision"] for a in answers}
    assert 1 == log.count("the database was migrated to")
    assert "Traceback" not in log
