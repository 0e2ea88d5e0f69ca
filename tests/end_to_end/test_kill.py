"""The scripts that load services, and kill them a few times."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from runpy import run_path

import pytest

from tests.support.application import running
from tests.support.command import run_program
from tests.support.messages import ham

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def run(database_url):
    """Run the script on a database, and return what became of it."""

    def run(*arguments):
        given = [*arguments, "--database-url", database_url]
        return run_program(
            partial(run_path, str(SCRIPTS / "kill"), run_name="__main__"), given
        )

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
    done = run("--kills", "3")
    counted = json.loads(done.stdout)

    assert 0 == done.returncode, done.stderr
    assert {"kills": 3, **NOTHING}.items() <= counted.items()
    assert 0 < counted["acknowledged"] <= counted["ledger_rows"]


@pytest.mark.slow
@pytest.mark.parametrize("work", ["undo", "prune", "import", "join"])
def test_what_is_killed_at_its_work_is_done_whole_or_not_at_all(run, work):
    """The command and the service at once; the next ones find all in order."""
    done = run("--kills", "2", "--during", work, "--messages", "200")
    counted = json.loads(done.stdout)

    assert 0 == done.returncode, done.stderr
    assert {"kills": 2, **NOTHING}.items() <= counted.items()
    assert 200 <= counted["ledger_rows"]


def test_a_database_that_was_taught_before_is_refused(database_url, run):
    """What is in it would be counted too, and found to be halves."""
    with running(database_url=database_url) as app:
        app.feedback.teach("default", ham(1), label="ham", source="ann")
    done = run("--kills", "1")

    assert 2 == done.returncode
    assert "give an empty one" in done.stderr


@pytest.mark.parametrize("name", ["kill", "soak", "demo-mail", "reference"])
def test_a_script_without_its_libraries_names_the_python_that_has_them(name):
    """In a sentence instead of a traceback."""
    script = str(SCRIPTS / name)
    # Without the folder of the libraries.
    done = subprocess.run(
        [sys.executable, "-I", "-S", script],
        capture_output=True,
        text=True,
        check=False,
    )

    assert 1 == done.returncode
    assert done.stderr.endswith(f": run .venv/bin/python {script}\n")
    assert 1 == done.stderr.count("\n")


@pytest.mark.parametrize(("seconds", "upkeeps"), [(30.0, 1), (120.0, 3), (300.0, 9)])
def test_the_work_beside_a_short_run_does_not_outlast_it(seconds, upkeeps):
    """In the shortest it is done once, in five minutes at each tenth."""
    events = run_path(str(SCRIPTS / "soak"))["events"](None, "", 2, seconds)
    names = Counter(work.__name__ for _, work in events)

    assert {"restart": 2, "undo": 1, "upkeep": upkeeps} == names


@pytest.mark.parametrize(
    ("seconds", "found"), [(60.0, set()), (300.0, {"memory_mb", "files", "log_mb"})]
)
def test_growth_is_judged_in_long_runs_alone(seconds, found, capsys):
    """In a short one the service still warms up, and the script says so."""
    samples = [(float(n), 100.0 + n, 20.0, 1.0) for n in range(8)]
    grown = run_path(str(SCRIPTS / "soak"))["slopes"](samples, seconds)

    assert found == grown.keys()
    assert bool(capsys.readouterr().err) is not bool(found)
