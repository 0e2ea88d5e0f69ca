"""What a service writes to its log, with one process or several."""

from __future__ import annotations

import time

import pytest

from tests.support.databases import on_sqlite
from tests.support.messages import spam
from tests.support.service import PATIENCE

pytestmark = on_sqlite


def told(service, line, *, times):
    """Wait until the log has a line that often, and return whether it came to that."""
    log = service.folder / "log"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if log.read_text().splitlines().count(line) == times:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("workers", [1, 2])
def test_each_worker_keeps_a_log_as_a_single_process_does(service, workers):
    """With the level and who says it, and from the level of the settings on."""
    service.environment["POSTBAYES_WORKERS"] = str(workers)
    service.start()
    service.teach(spam(1), "spam")
    for arguments in (
        ["export", "to"],
        ["import", "--replace", "--yes", "to"],
    ):
        assert 0 == service.command(*arguments).returncode

    line = "INFO     app.services.memory.live: the profile 'default' was replaced: loading it"
    assert told(service, line, times=workers)
