"""A service under a manager such as systemd, played by a real datagram socket."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from tests.support.databases import on_sqlite
from tests.support.service import PATIENCE

pytestmark = on_sqlite


@pytest.fixture
def told(service, tmp_path):
    """The states that a service has sent since the last look, without heartbeats."""
    name = str(tmp_path / "notify")
    service.environment["NOTIFY_SOCKET"] = name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name)
        listening.settimeout(PATIENCE)

        def receive():
            while (state := listening.recv(4096).decode()) == "WATCHDOG=1":
                receive.beats += 1
            return state.splitlines()[0]

        receive.beats = 0
        yield receive


@pytest.mark.parametrize("workers", [1, 2])
def test_a_manager_is_told_of_start_reload_and_end(service, told, workers):
    """By the process that it started; when it is ready, requests are answered."""
    service.environment |= {
        "POSTBAYES_WORKERS": str(workers),
        "WATCHDOG_USEC": "200000",
    }
    service.start(until="/healthz")

    assert "READY=1" == told()
    os.kill(service.process.pid, signal.SIGHUP)
    assert ["RELOADING=1", "READY=1"] == [told(), told()]
    service.stop()
    assert "STOPPING=1" == told()
    assert told.beats > 0
