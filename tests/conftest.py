"""Fixtures that several floors share: databases, on SQLite and PostgreSQL."""

from __future__ import annotations

import gc
import os
import tempfile
from itertools import count
from multiprocessing import util
from pathlib import Path
from shutil import disk_usage

import pytest
from argon2 import PasswordHasher
from hypothesis import HealthCheck, settings

from app.storage.database.engine import open_engine
from tests.support import databases, postgres

# A busy machine is not a broken law.  The examples are others in each run.
for name, examples in {"quick": 30, "thorough": 300}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("quick")

_numbers = count(1)

# What starts services and other programs: a test of it takes seconds.
LONG = ("slow", "mail", "clients", "disk", "browser")
LONG_PLACES = {"end_to_end", "test_docs.py", "test_cli_signals.py"}
WORKERS = "PYTEST_XDIST_WORKER_COUNT"

# The longest text that is the name of a test.
LONGEST = 60

MEMORY = Path("/dev/shm")  # noqa: S108  (only its free space and its flags are read)
ROOM = 2**31


def keep_files_in_memory():
    """Have the files of the tests lie in memory, where there is room for them.

    A copy of a database of PostgreSQL takes 0.01 s of CPU time there, and 0.2 s on ext4.
    `TMPDIR` names another place.  In a container it has 64 MB by default, and starts no
    program.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    starts_none = os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    if not starts_none and disk_usage(MEMORY).free >= ROOM:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


keep_files_in_memory()
# Where the socket of the fork server lies (`tests.support.command`).  A test that is the
# first to need it may have a folder of its own for temporary files, which ends with it.
util.get_temp_dir()

# Thousands of tests are collected and stay: the collector would only count them.
gc.disable()


def pytest_xdist_auto_num_workers():
    """Return three processes for two cores, since they wait for a third of the time.

    They wait for threads, disks and other processes: on two cores, `make test` took
    255 s with two of them, and 185 s with three.  The plugin's variable names another
    number.
    """
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    on_linux = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if on_linux else os.cpu_count() or 1
    return (3 * cores + 1) // 2


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for examples in `app` alone, and not in the docstrings of tests."""
    return [each for each in (yield) if type(each) is pytest.Module]


def pytest_make_parametrize_id(val):
    """Name a test by the first characters of a long text.

    Some have megabytes, which each process would send with each of its reports.
    """
    if isinstance(val, str | bytes) and len(val) > LONGEST:
        return ascii(val[:LONGEST])
    return None


def pytest_collection_finish():
    """Have the collector look at what comes from here on, but seldom."""
    gc.freeze()
    gc.enable()
    # After each 700 new objects, its default, it took 10 % of the CPU time of tests/laws
    # and of test_openapi.py, and after 10,000 it took 5 %.
    gc.set_threshold(50_000, 10, 10)


def pytest_collection_modifyitems(items):
    """Mark what needs PostgreSQL, and begin with what takes long in each process."""
    for item in items:
        if "postgres_binaries" in item.fixturenames:
            item.add_marker(pytest.mark.postgresql)
    items[:] = long_ones_first(items, int(os.environ.get(WORKERS, "1")))


def long_ones_first(items, workers):
    """Return the tests so that each of the equal parts begins with long ones.

    A long test that begins last is waited for by all.  Those of one file stay together,
    since they share what they start.
    """
    files = {}
    rest = []
    for item in items:
        if LONG_PLACES & {*item.path.parts} or any(map(item.get_closest_marker, LONG)):
            files.setdefault(item.path, []).append(item)
        else:
            rest.append(item)
    parts = [[] for _ in range(workers)]
    for found in sorted(files.values(), key=len, reverse=True):
        min(parts, key=len).extend(found)
    ordered = []
    for number, part in enumerate(parts, 1):
        end = len(items) * number // workers
        room = max(0, end - len(ordered) - len(part))
        ordered += part + rest[:room]
        del rest[:room]
    return ordered + rest


@pytest.fixture(scope="session")
def postgres_binaries():
    """Folder of the binaries of PostgreSQL; without them the test is skipped."""
    folder = postgres.binaries()
    if folder is None:
        reason = "PostgreSQL is not installed (apt install postgresql): not tested"
        if os.environ.get(postgres.REQUIRE) == "1":
            pytest.fail(f"{reason}, but {postgres.REQUIRE}=1")
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def postgres_url(postgres_binaries):
    """URL of a PostgreSQL that is there for this process of the tests only."""
    # One for each process: it starts in 0.7 s, and nothing is shared.
    with postgres.cluster(postgres_binaries) as cluster:
        yield cluster.url


@pytest.fixture(params=databases.BOTH)
def database(request):
    """Which database it is; the test runs once for each of the two."""
    return request.param


@pytest.fixture
def database_url(request, database, tmp_path):
    """URL of a database with all tables and no rows."""
    if database == "sqlite":
        yield databases.sqlite_url(tmp_path)
        return
    server = request.getfixturevalue("postgres_url")
    name = f"test_{next(_numbers)}"
    with databases.postgres_database(server, name, prepared=True) as url:
        yield url


@pytest.fixture
def empty_database_url(request, database, tmp_path):
    """URL of a database without tables."""
    if database == "sqlite":
        yield f"sqlite:///{tmp_path}/empty.db"
        return
    server = request.getfixturevalue("postgres_url")
    name = f"test_{next(_numbers)}"
    with databases.postgres_database(server, name, prepared=False) as url:
        yield url


@pytest.fixture
def site(request, postgres_url):
    """A database of PostgreSQL and a role; the parameter is how it is made."""
    options = getattr(request, "param", "")
    with postgres.site(postgres_url, f"site_{next(_numbers)}", options) as site:
        yield site


@pytest.fixture
def hashed_at_once(monkeypatch):
    """Passwords take 60 ms and 64 MiB on purpose, and so do those of nobody."""
    fast = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    monkeypatch.setattr("app.services.sessions._HASHER", fast)
    monkeypatch.setattr("app.services.sessions._NOBODYS", fast.hash("of nobody"))


@pytest.fixture
def engine(database_url):
    """Engine of a database with all tables and no rows."""
    engine = open_engine(database_url)
    yield engine
    engine.dispose()
