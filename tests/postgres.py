"""A throw-away PostgreSQL for the tests, from the binaries that are installed.

PostgreSQL refuses to run as root, so then the cluster belongs to the first of
the users `postgres` and `nobody` that exists.  It listens on a Unix socket only
and does not wait for the disk: it is deleted after the tests.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg

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


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Start a cluster with the binaries in `folder`, and give its URL."""
    # Not pytest's temporary folder: other users may not enter it, and the path
    # of a Unix socket has at most 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="postbayes-pg-"))
    account = _account()
    if account:
        os.chown(home, account["user"], account["group"])
    data = home / "data"

    def run(program: str, *arguments: str) -> None:
        # Standard output is not kept: the server would hold the pipe open.
        with (home / "log").open("a") as log:
            subprocess.run(
                [folder / program, *arguments],
                check=True,
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
                **account,
            )

    try:
        run(
            "initdb",
            *("--pgdata", str(data), "--username", "postbayes", "--auth", "trust"),
            *("--encoding", "UTF8", "--no-locale", "--no-sync"),
        )
        settings = (
            "-c listen_addresses= -c fsync=off -c full_page_writes=off "
            f"-c unix_socket_directories={home} -c max_connections=200 "
            "-c timezone=Asia/Kolkata"
        )
        run("pg_ctl", "start", "--wait", "--pgdata", str(data), "--options", settings)
        try:
            yield f"postgresql://postbayes@/postgres?host={quote(str(home))}"
        finally:
            run("pg_ctl", "stop", "--mode", "immediate", "--pgdata", str(data))
    finally:
        shutil.rmtree(home)


@contextmanager
def schema(url: str, name: str) -> Iterator[str]:
    """Give the URL of an empty schema of its own, which is dropped after it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
        try:
            yield f"{url}&options={quote(f'-csearch_path={name}')}"
        finally:
            connection.execute(f'DROP SCHEMA "{name}" CASCADE')


def _account() -> dict[str, Any]:
    """Return as whom to run, for `subprocess.run`; empty unless we are root."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = next(known[name] for name in ("postgres", "nobody") if name in known)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
