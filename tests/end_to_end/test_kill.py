"""The harness that kills services under load, a few times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.application import running
from tests.support.messages import ham

ROOT = Path(__file__).parents[2]


def run(database_url, *arguments):
    """Run the script, and return what became of it."""
    return subprocess.run(
        [
            *(sys.executable, ROOT / "scripts" / "kill"),
            *(*arguments, "--database-url", database_url),
        ],
        check=False,
        capture_output=True,
        text=True,
    )


def kill(database_url, *arguments):
    """Run the script, and return its exit code and what it counted."""
    done = run(database_url, *arguments)
    return done.returncode, json.loads(done.stdout)


NOTHING = {
    "acknowledged_lost": 0,
    "learned_twice": 0,
    "half_stored": 0,
    "done_by_halves": 0,
    "audit_difference": 0,
}


def test_kills_under_load_lose_nothing_that_was_acknowledged(database_url):
    """Nothing lost, nothing by halves, nothing twice, and the audit is zero."""
    code, counted = kill(database_url, "--kills", "5")

    assert 0 == code
    assert {"kills": 5, **NOTHING}.items() <= counted.items()
    assert 0 < counted["acknowledged"] <= counted["ledger_rows"]


@pytest.mark.slow
@pytest.mark.parametrize("work", ["undo", "prune", "import"])
def test_what_is_killed_at_its_work_is_done_whole_or_not_at_all(database_url, work):
    """The command and the service at once; the next ones find all in order."""
    code, counted = kill(
        database_url, "--kills", "3", "--during", work, "--messages", "200"
    )

    assert 0 == code
    assert {"kills": 3, **NOTHING}.items() <= counted.items()
    assert 200 <= counted["ledger_rows"]


def test_a_database_that_was_taught_before_is_refused(database_url):
    """What is in it would be counted too, and found to be halves."""
    with running(database_url=database_url) as app:
        app.feedback.teach("default", ham(1), label="ham", source="ann")
    done = run(database_url, "--kills", "1")

    assert 2 == done.returncode
    assert "give an empty one" in done.stderr
