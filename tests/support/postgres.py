"""A throw-away PostgreSQL for the tests, from the binaries that are installed.

PostgreSQL refuses to run as root, so then the cluster belongs to the first of
the users `postgres` and `nobody` that exists.  It listens on a Unix socket only
and does not wait for the disk: it is deleted after the tests.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import psycopg

from tests.support import clients
from tests.support.command import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIRE = "POSTBAYES_REQUIRE_POSTGRES"


def binaries() -> Path | None:
    """Return the folder of the newest PostgreSQL that is installed, or None."""
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: (len(path.parts[4]), path.parts[4]),
    )
    if installed:
        return installed[-1].parent
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


class Cluster:
    """A PostgreSQL of its own, which can be stopped, started and frozen.

    Parameters
    ----------
    folder : Path
        Where the binaries are.
    home : Path
        Where its data and its socket are.
    """

    def __init__(self, folder, home):
        self.url = f"postgresql://postbayes@/postgres?host={quote(str(home))}"
        self._folder = folder
        self._home = home
        self._data = home / "data"
        self._account = _account()
        if self._account:
            os.chown(home, self._account["user"], self._account["group"])

    def initialise(self):
        """Make an empty cluster."""
        self._run(
            "initdb",
            *("--pgdata", str(self._data), "--username", "postbayes"),
            *("--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync"),
            # The case of letters beyond ASCII, as in most databases.
            *("--lc-ctype", "C.UTF-8"),
        )

    def start(self):
        """Start the server, and wait until it answers."""
        settings = (
            "-c listen_addresses= -c fsync=off -c full_page_writes=off "
            f"-c unix_socket_directories={self._home} -c max_connections=200 "
            "-c timezone=Asia/Kolkata"
        )
        self._run(
            *("pg_ctl", "start", "--wait", "--pgdata", str(self._data)),
            *("--options", settings),
        )

    def stop(self):
        """End the server at once, as a crash of it would."""
        self._run("pg_ctl", "stop", "--mode", "immediate", "--pgdata", str(self._data))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop every process of the server, which keeps its connections."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        os.kill(first, signal.SIGSTOP)
        # Read after it was stopped: it forks no further one.
        processes = [first, *_children(first)]
        try:
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in processes:
                # One that was ending is gone as soon as the first goes on.
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    @contextmanager
    def copied(self) -> Iterator[Cluster]:
        """Start another server from a copy of the files as they are now."""
        with _home() as home:
            subprocess.run(["cp", "--archive", self._data, home], check=True)
            (home / "data" / "postmaster.pid").unlink()
            with Cluster(self._folder, home).started() as copy:
                yield copy

    @contextmanager
    def started(self) -> Iterator[Self]:
        """Start the server, and stop it at the end."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def _run(self, program: str, *arguments: str) -> None:
        # Standard output is not kept: the server would hold the pipe open.
        with (self._home / "log").open("a") as log:
            subprocess.run(
                [self._folder / program, *arguments],
                check=True,
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
                **self._account,
            )


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start a cluster with the binaries in `folder`, and remove it at the end."""
    with _home() as home:
        made = Cluster(folder, home)
        made.initialise()
        with made.started():
            yield made


class Site:
    """A database of its own, with its owner and a role that owns nothing.

    Parameters
    ----------
    url : str
        Where its owner finds it.
    guest_url : str
        Where the other finds it, whose name is `guest`.
    guest : str
        The role that owns nothing.
    """

    def __init__(self, url, guest_url, guest):
        self.url = url
        self.guest_url = guest_url
        self.guest = guest

    def administer(self, statement):
        """Run a statement as an administrator, with its {guest} and {database}."""
        writes = "-cdefault_transaction_read_only=off"
        with psycopg.connect(self.url, autocommit=True, options=writes) as connection:
            named = statement.format(guest=self.guest, database=connection.info.dbname)
            connection.execute(named)


@contextmanager
def site(url: str, name: str, options: str = "") -> Iterator[Site]:
    """Give an empty database, which is dropped after it with its guest."""
    guest = f"{name}_guest"
    own = url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE ROLE "{guest}" LOGIN')
        connection.execute(f'CREATE DATABASE "{name}" {options}')
        try:
            yield Site(own, own.replace("postbayes@", f"{guest}@"), guest)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
            connection.execute(f'DROP ROLE "{guest}"')


_POOLER = """
[databases]
* = {server}
[pgbouncer]
unix_socket_dir = {home}
listen_port = 5432
auth_type = any
pool_mode = {mode}
default_pool_size = {sessions}
logfile = {home}/pooler.log
"""


@contextmanager
def pooler(url: str, *, mode: str, sessions: int) -> Iterator[str]:
    """Give the URL of a database behind a PgBouncer with so many sessions."""
    program = clients.find("pgbouncer")
    server = psycopg.conninfo.conninfo_to_dict(url)
    with _home() as home:
        file, account = home / "pooler.ini", _account()
        if account:
            os.chown(home, account["user"], account["group"])
        there = f"host={server['host']} user={server['user']}"
        file.write_text(
            _POOLER.format(server=there, home=home, mode=mode, sessions=sessions)
        )
        running = subprocess.Popen([program, "-q", file], cwd=home, **account)
        try:
            deadline = time.monotonic() + PATIENCE
            while not (home / ".s.PGSQL.5432").exists():
                assert time.monotonic() < deadline, (home / "pooler.log").read_text()
                time.sleep(0.01)
            yield f"postgresql://postbayes@/{server['dbname']}?host={quote(str(home))}"
        finally:
            running.terminate()
            running.wait()


@contextmanager
def _home() -> Iterator[Path]:
    """Give a folder for a cluster, which is removed."""
    # Not pytest's temporary folder: other users may not enter it, and the path
    # of a Unix socket has at most 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="postbayes-pg-"))
    try:
        yield home
    finally:
        shutil.rmtree(home)


def _children(process: int) -> list[int]:
    """Return the processes that one has started and that still run."""
    lines = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in lines.split()]


def _account() -> dict[str, Any]:
    """Return as whom to run, for `subprocess.run`; empty unless we are root."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = next(known[name] for name in ("postgres", "nobody") if name in known)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
