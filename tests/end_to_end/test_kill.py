"""The harness that kills services under load, a few times."""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path

import pytest

from tests.support.application import running
from tests.support.command import forked
from tests.support.messages import ham

ROOT = Path(__file__).parents[2]


def script(arguments, out, err):
    """Become the script, which then prints to files."""
    for number, path in ((1, out), (2, err)):
        with path.open("w") as file:
            os.dup2(file.fileno(), number)
    sys.argv = ["kill", *arguments]
    runpy.run_path(str(ROOT / "scripts" / "kill"), run_name="__main__")


@pytest.fixture
def run(database_url, tmp_path):
    """Run the script on a database, and return its exit code, output and errors."""

    def run(*arguments):
        files = tmp_path / "out", tmp_path / "err"
        code = forked(script, [*arguments, "--database-url", database_url], *files)
        return code, *(file.read_text() for file in files)

    return run


NOTHING = {
    "acknowledged_lost": 0,
    "learned_twice": 0,
    "half_stored": 0,
    "done_by_halves": 0,
    "audit_difference": 0,
}


def test_kills_under_load_lose_nothing_that_was_acknowledged(run):
    """Nothing lost, nothing by halves, nothing twice, and the audit is zero."""
    code, out, err = run("--kills", "3")
    counted = json.loads(out)

    assert 0 == code, err
    assert {"kills": 3, **NOTHING}.items() <= counted.items()
    assert 0 < counted["acknowledged"] <= counted["ledger_rows"]


@pytest.mark.slow
@pytest.mark.parametrize("work", ["undo", "prune", "import"])
def test_what_is_killed_at_its_work_is_done_whole_or_not_at_all(run, work):
    """The command and the service at once; the next ones find all in order."""
    code, out, err = run("--kills", "2", "--during", work, "--messages", "200")
    counted = json.loads(out)

    assert 0 == code, err
    assert {"kills": 2, **NOTHING}.items() <= counted.items()
    assert 200 <= counted["ledger_rows"]


def test_a_database_that_was_taught_before_is_refused(database_url, run):
    """What is in it would be counted too, and found to be halves."""
    with running(database_url=database_url) as app:
        app.feedback.teach("default", ham(1), label="ham", source="ann")
    code, _, err = run("--kills", "1")

    assert 2 == code
    assert "give an empty one" in err
