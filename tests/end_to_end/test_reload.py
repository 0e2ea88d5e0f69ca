"""SIGHUP has a service read its settings again; it ends no process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import httpx2
import pytest

from tests.support.databases import on_sqlite
from tests.support.messages import ham, spam
from tests.support.service import PATIENCE

pytestmark = on_sqlite
AGAIN = "SIGHUP: the settings, aliases and policies were read again; "


@pytest.fixture(params=[1, 2])
def workers(request, service):
    """How many workers there are; their settings stand in a file."""
    service.environment |= {
        "POSTBAYES_WORKERS": str(request.param),
        "POSTBAYES_SETTINGS_FILE": str(service.folder / "settings.env"),
    }
    return request.param


def write(service, *lines):
    """Write the file of settings."""
    (service.folder / "settings.env").write_text("\n".join(lines) + "\n")


def start(service, workers):
    """Start the service, and wait until no worker has still to read the settings."""
    service.start()
    wait_for(service, "another worker is ready", times=workers - 1)


def wait_for(service, line, *, times):
    """Wait until the log has a line so often."""
    deadline = time.monotonic() + PATIENCE
    while (service.folder / "log").read_text().count(line) < times:
        assert time.monotonic() < deadline, (service.folder / "log").read_text()
        assert service.process.poll() is None
        time.sleep(0.02)


def reload(service, line, *, times):
    """Send the signal, and wait until the log has a line so often."""
    before = (service.folder / "log").read_text().count(line)
    os.kill(service.process.pid, signal.SIGHUP)
    wait_for(service, line, times=before + times)


def processes(service):
    """Return the processes that the service has started."""
    pid = service.process.pid
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def threshold(service):
    """Return from where on mail is spam, as a worker says.  Unit: nats."""
    found = service.client.get("/profiles/default").json()["spam_threshold"]
    return round(found["log_odds"], 3)


def test_thresholds_and_the_log_change_without_a_restart(service, workers):
    """In every worker, which says so; what needs a restart is named."""
    write(service, "POSTBAYES_HAM_COST=9")
    start(service, workers)
    service.teach(spam(1), "spam")
    before = processes(service), threshold(service)
    write(
        service,
        "POSTBAYES_HAM_COST=1000",
        "POSTBAYES_LOG_FORMAT=json",
        "POSTBAYES_SCORED_DAYS=3",
    )
    line = (
        f"{AGAIN}changed: POSTBAYES_HAM_COST, POSTBAYES_LOG_FORMAT; "
        "restart the service for POSTBAYES_SCORED_DAYS"
    )
    reload(service, line, times=workers)
    after = processes(service), threshold(service)
    service.teach(ham(1), "ham")

    assert before[0] == after[0]
    assert (2.197, 6.908) == (before[1], after[1])
    assert '"event": "feedback"' in (service.folder / "log").read_text()


def test_the_networks_that_need_no_key_change(service, workers):
    """Of a client that was let in, the next request is refused."""
    port = service.open_door("rspamd")
    write(service, "POSTBAYES_KEYLESS_FROM=127.0.0.0/8,192.0.2.1")
    start(service, workers)

    def learn(number):
        return httpx2.post(
            f"http://127.0.0.1:{port}/learnspam", content=spam(number), timeout=PATIENCE
        ).status_code

    before = learn(1)
    write(service, "POSTBAYES_KEYLESS_FROM=192.0.2.1")
    reload(service, f"{AGAIN}changed: POSTBAYES_KEYLESS_FROM", times=workers)
    after = {learn(2) for _ in range(8)}

    assert 200 == before
    assert {401} == after


def test_a_setting_that_cannot_be_used_changes_nothing(service, workers):
    """The service goes on as it was, and says why."""
    write(service, "POSTBAYES_HAM_COST=9")
    start(service, workers)
    write(service, "POSTBAYES_HAM_COST=nine", "POSTBAYES_LOG_LEVEL=warning")
    sentence = "SIGHUP: the settings were not changed: POSTBAYES_HAM_COST should be a "
    reload(service, sentence, times=workers)
    write(service, "POSTBAYES_HAM_COST=9", "POSTBAYES_KEYLESS_FROM=nobody")
    sentence = "SIGHUP: the settings were not changed: POSTBAYES_KEYLESS_FROM: 'nobody'"
    reload(service, sentence, times=workers)
    found = threshold(service)
    service.client.close()

    assert 2.197 == found
    assert service.stop() in {0, -signal.SIGTERM, 143}
