"""State after a signal has ended a command, with real processes and signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest

from app.services.startup import open_database
from app.settings import Settings
from tests.support import command
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import free_port

ROOT = Path(__file__).parent.parent.parent
# What a command is at work with when the signal comes, and comes once more.
HALFWAY = """
import time
from pathlib import Path

unlink = Path.unlink

def again(*given, **more):
    os.kill(os.getpid(), number)
    unlink(*given, **more)

def halfway(*_, **__):
    path, = Path().glob("*.part")
    path.write_bytes(b"half of it")
    if number != signal.SIGINT:
        Path.unlink = again
    os.kill(os.getpid(), number)
    time.sleep(5)
"""
BACKUP = """
from app.services import upkeep as command
command.copy = halfway
"""
EXPORT = """
from app.services.transfer import Transfer
Transfer.export = halfway
"""
RUN = """
from app.doors.cli.main import main
main(sys.argv[1:])
"""
# Whatever started the tests ignores: `nohup`, or a shell with `&`.
HEED = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run lines of Python, forked, in an empty folder that has a database of its own."""
    url = sqlite_url(tmp_path, "site.db")
    open_database(Settings(database_url=url), make=True).dispose()
    monkeypatch.setenv("POSTBAYES_DATABASE_URL", "sqlite:///site.db")

    def run(lines, *arguments):
        main = partial(exec, HEED + lines, {})
        return command.run_program(main, arguments, folder=tmp_path)

    return run


@pytest.mark.parametrize(
    ("arguments", "patch", "told"),
    [
        (["backup", "today.db"], BACKUP, "nothing was backed up"),
        (["export", "today.pbx"], EXPORT, "nothing was exported"),
    ],
    ids=["backup", "export"],
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_copy_that_is_stopped_leaves_nothing(
    run, tmp_path, arguments, patch, told, number
):
    """However it is stopped, and twice, as `timeout` does it.

    A cron job has another name each day, so nobody else would remove it.
    """
    sent = f"number = {int(number)}"
    done = run(sent + HALFWAY + patch + RUN, *arguments)

    code = 130 if number == signal.SIGINT else -number
    assert (code, f"postbayes: interrupted; {told}\n") == (done.returncode, done.stderr)
    assert [] == sorted(each.name for each in tmp_path.glob("today*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_compiles_at_its_start_ends_at_once(
    run, tmp_path, monkeypatch, number
):
    """Nothing is under way that a signal would have to wait for."""
    monkeypatch.setenv("POSTBAYES_PORT", str(free_port()))
    slow = dedent(f"""
        import time
        from pathlib import Path
        from app.services.application import Application
        def warm_up(_):
            os.kill(os.getpid(), {int(number)})
            time.sleep(5)
            Path("compiled").touch()
        Application.warm_up = warm_up
        """)
    done = run(slow + RUN, "serve")

    assert -number == done.returncode
    assert not (tmp_path / "compiled").exists()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_archive_that_is_killed_in_a_part_goes_on_with_it(run, tmp_path, processes):
    """The parts before it are not counted twice, and half of it not once."""
    (tmp_path / "index").write_text(
        "".join(f"{'spam' if n % 2 else 'ham'} {n}\n" for n in range(20))
    )
    for n in range(20):
        (tmp_path / str(n)).write_bytes(spam(n) if n % 2 else ham(n))
    arguments = ["learn", "--sums", "--index", "index", "--json"]
    arguments += ["--processes", processes]
    killed = dedent("""
        from app.services import learn as command
        real, stored = command.append, []
        def append(*given):
            stored.append(given)
            if len(stored) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given)
        command.append = append
        """)
    first = run(killed + RUN, *arguments, "--batch", "4")
    again = run(RUN, *arguments)
    audit = run(RUN, "audit")
    profiles = run(RUN, "profiles")

    assert -signal.SIGKILL == first.returncode
    assert {"learned": 12, "unchanged": 8}.items() <= json.loads(again.stdout).items()
    assert "default: difference 0\n" == audit.stdout
    assert "learned 10 ham, 10 spam" in profiles.stdout


def test_a_signal_that_is_ignored_stays_so(run, tmp_path):
    """As under `nohup`: the terminal that is closed does not end a backup."""
    ignored = "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    sent = dedent("""
        from app.services import upkeep as command
        real = command.copy
        def copy(*given, **more):
            os.kill(os.getpid(), signal.SIGHUP)
            return real(*given, **more)
        command.copy = copy
        """)
    done = run(ignored + HALFWAY + sent + RUN, "backup", "today.db")

    assert (0, "") == (done.returncode, done.stderr)
    assert (tmp_path / "today.db").exists()


def test_the_check_of_a_copy_can_be_interrupted(run):
    """It is one statement, and Python hears of no signal while it runs."""
    code = dedent("""
        import sqlite3
        from contextlib import closing
        from functools import partial
        from pathlib import Path
        from threading import Timer
        from app.storage.database.engine import backup, open_engine

        with closing(sqlite3.connect("large.db")) as database, database:
            database.execute("CREATE TABLE t (x INTEGER PRIMARY KEY, y TEXT)")
            database.execute("CREATE INDEX i ON t (y)")
            database.execute(
                "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n"
                " WHERE x < 300000) INSERT INTO t SELECT x, hex(x) FROM n"
            )
        class Copy(sqlite3.Connection):
            def execute(self, sql):
                if "integrity" in sql:
                    Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
                return super().execute(sql)

        sqlite3.connect = partial(sqlite3.connect, factory=Copy)
        try:
            backup(open_engine("sqlite:///large.db"), Path("copy.db"))
        except KeyboardInterrupt as error:
            sys.exit(type(error.__cause__).__name__)
        """)
    done = run(code)

    assert "OperationalError\n" == done.stderr


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("typer", ["profiles"]), ("sqlalchemy", ["profiles"])],
    ids=["of the command line", "of a command"],
)
def test_ctrl_c_while_modules_are_imported_says_nothing(tmp_path, module, arguments):
    """A person who was too quick is not shown Python's own affairs."""
    (tmp_path / "stubs").mkdir()
    (tmp_path / "stubs" / f"{module}.py").write_text(
        "import os, signal, time\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "time.sleep(5)\n"
        "raise SystemExit('not heard')\n"
    )
    path = f"{tmp_path}/stubs{os.pathsep}{ROOT}"
    done = subprocess.run(
        [sys.executable, "-m", "app.doors.cli", *arguments],
        check=False,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": path},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        text=True,
        timeout=command.PATIENCE,
    )

    assert (130, "", "") == (done.returncode, done.stdout, done.stderr)


def test_ctrl_c_between_two_steps_says_nothing(run):
    """Neither in what typer does before and after it calls a command."""
    code = dedent("""
        from app.doors.cli import main
        def interrupted(*_, **__):
            raise KeyboardInterrupt
        main.cli = interrupted
        main.main()
        """)
    done = run(code)

    assert (130, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("name", ["profiles", "figures"])
def test_a_reader_that_stops_reading_is_no_error(run, name):
    """`figures | head` says nothing, and ends as what a signal ends."""
    unread = dedent("""
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)
        """)
    done = run(unread + RUN, name)

    assert (141, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams_are_empty_ones(tmp_path, closed):
    """A program that starts others may close them; the database is none of them."""
    url = sqlite_url(tmp_path, "site.db")
    open_database(Settings(database_url=url), make=True).dispose()
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m app.doors.cli classify {closed}', sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "POSTBAYES_DATABASE_URL": url},
        capture_output=True,
        check=False,
    )

    assert 65 == done.returncode
    assert (b"is empty" in done.stderr) == ("2>&-" not in closed)
    assert b"Traceback" not in done.stderr
