"""What a service writes to its log, with one process or several."""

from __future__ import annotations

import json
import re
import socket
import time

import pytest

from app import __version__
from tests.support.command import PATIENCE
from tests.support.databases import on_sqlite
from tests.support.messages import spam

pytestmark = on_sqlite
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) +\S+: ")


def told(service, line, *, times):
    """Wait until the log has a line that often, and return whether it came to that."""
    log = service.folder / "log"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        # Each line begins with its time.
        found = [each.partition(" ")[2] for each in log.read_text().splitlines()]
        if found.count(line) == times:
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

    line = "INFO    app.services.cache: the profile 'default' was replaced; loading the new one"
    assert told(service, line, times=workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_start_names_what_was_started_once(service, workers):
    """Version, database, doors and profiles; and every line has the one format."""
    service.environment["POSTBAYES_WORKERS"] = str(workers)
    milter = service.open_door("milter")
    service.start()
    service.stop()
    service.start()
    service.stop()
    lines = (service.folder / "log").read_text().splitlines()
    starts = [each for each in lines if " starts: " in each]

    assert [] == [each for each in lines if not LINE.match(each)]
    assert 2 == len(starts)
    for each in starts:
        assert f"Postbayes {__version__} starts: database sqlite:///" in each
        assert f"http 127.0.0.1:{service.port}, milter 127.0.0.1:{milter}" in each
        assert f"profiles default (0 ham, 0 spam); {workers} worker" in each


@pytest.mark.parametrize("workers", [1, 2])
def test_a_start_names_the_port_of_the_command_line(service, workers):
    """Not that of the environment, which the option stands before."""
    service.environment |= {
        "POSTBAYES_PORT": "1",
        "POSTBAYES_WORKERS": str(3 - workers),
    }
    service.start("--port", str(service.port), "--workers", str(workers))
    service.stop()
    [start] = [
        line
        for line in (service.folder / "log").read_text().splitlines()
        if " starts: " in line
    ]

    assert f"http 127.0.0.1:{service.port};" in start
    assert start.endswith(f"{workers} worker{'s' if workers > 1 else ''}")


@pytest.mark.parametrize("workers", [1, 2])
def test_json_lines_are_all_lines(service, workers):
    """Ours and those of the libraries; a verdict says which message, and who asked."""
    service.environment |= {
        "POSTBAYES_WORKERS": str(workers),
        "POSTBAYES_LOG_FORMAT": "json",
        "POSTBAYES_STORE_WORDS": "false",
    }
    service.start()
    service.classify(b"Message-ID: <1@example.org>\nSubject: hello\n\nsecretword")
    service.teach(b"Message-ID: <1@example.org>\nSubject: hello\n\nsecretword", "ham")
    with socket.create_connection(("127.0.0.1", service.port)) as odd:
        odd.sendall(b"no HTTP\r\n\r\n")
        odd.recv(1024)
    service.stop()
    text = (service.folder / "log").read_text()
    lines = [json.loads(line) for line in text.splitlines()]

    assert all({"time", "level", "logger"} <= line.keys() for line in lines)
    assert all("event" in line or "message" in line for line in lines)
    [said] = [line for line in lines if line.get("event") == "verdict"]
    [taught] = [line for line in lines if line.get("event") == "feedback"]
    assert ("<1@example.org>", "http") == (said["message_id"], said["door"])
    assert (said["id"], "http", "http") == tuple(
        taught[each] for each in ("id", "door", "source")
    )
    assert "secretword" not in text
