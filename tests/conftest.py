"""Fixtures that several floors share: databases, on SQLite and PostgreSQL."""

from __future__ import annotations

import os
from itertools import count

import pytest
from hypothesis import settings

from app.storage.database.engine import open_engine
from app.storage.database.migrate import migrate
from tests import postgres

# A busy machine is not a broken law.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

_numbers = count(1)


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
    """URL of a PostgreSQL that is there for this session only."""
    with postgres.cluster(postgres_binaries) as cluster:
        yield cluster.url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """URL of an empty database; the test runs once per kind of database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/postbayes.db"
        return
    url = request.getfixturevalue("postgres_url")
    with postgres.schema(url, f"test_{next(_numbers)}") as schema_url:
        yield schema_url


@pytest.fixture
def site(request, postgres_url):
    """A database of PostgreSQL and a role; the parameter is how it is made."""
    options = getattr(request, "param", "")
    with postgres.site(postgres_url, f"site_{next(_numbers)}", options) as site:
        yield site


@pytest.fixture
def engine(database_url):
    """Engine of a database with all tables and no rows."""
    engine = open_engine(database_url)
    migrate(engine)
    yield engine
    engine.dispose()
