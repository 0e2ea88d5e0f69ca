"""Prepared databases: every table of this version, and no row.

A migration of an empty database takes 0.19 s on SQLite and 0.09 s on PostgreSQL;
a copy of a prepared one 0.001 s and 0.02 s.  One is prepared for each process
of the tests, and copied for each test.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine, event

from app.storage.database.engine import migrate, open_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]

# What one of the two databases does alone, or does as the other.
on_sqlite = pytest.mark.parametrize("database", BOTH[:1], indirect=True)
on_postgresql = pytest.mark.parametrize("database", BOTH[1:], indirect=True)

_TEMPLATE = "postbayes_template"


def on_one_database(law):
    """Try a law with a third of the examples, all on the database of the test.

    Each costs 0.1 s of CPU time or more, and has profiles of its own.
    """
    few = settings(
        max_examples=settings.default.max_examples // 3,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.function_scoped_fixture,
        ],
    )
    return few(law)


class _Statements(dict):
    """Compiled statements for all engines of one kind, and not for each anew.

    The first of a key is the dialect of an engine.  A service has one engine, but each
    test has its own, and would spend 40 ms of CPU time on what the last one compiled.
    """

    def get(self, key, default=None):
        """Return the statement that an engine of this kind has compiled."""
        return super().get((type(key[0]), *key[1:]), default)

    def __setitem__(self, key, compiled):
        """Keep a statement."""
        super().__setitem__((type(key[0]), *key[1:]), compiled)


_statements = _Statements()


@event.listens_for(Engine, "set_engine_execution_options")
def _share_statements(_engine, options):
    """Have each engine of the service look there."""
    options.setdefault("compiled_cache", _statements)


def sqlite_url(folder: Path, name: str = "postbayes.db") -> str:
    """Return the URL of a prepared file in a folder that has none yet."""
    file = Path(folder, name)
    with file.open("xb") as copy:
        copy.write(_prepared_file())
    return f"sqlite:///{file}"


@contextmanager
def postgres_database(server: str, name: str, *, prepared: bool) -> Iterator[str]:
    """Give the URL of a database on a server, which is dropped after it."""
    template = f'TEMPLATE "{_prepared_database(server)}"' if prepared else ""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" {template}')
        try:
            yield _renamed(server, name)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@cache
def _prepared_file() -> bytes:
    """Return the bytes of a prepared SQLite database."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "template.db")
        _prepare(f"sqlite:///{file}")
        # The last connection that closes moves the log into the file.
        assert [file] == list(file.parent.iterdir())
        return file.read_bytes()


@cache
def _prepared_database(server: str) -> str:
    """Return the name of a prepared database on a server."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{_TEMPLATE}"')
    _prepare(_renamed(server, _TEMPLATE))
    return _TEMPLATE


def _prepare(url: str) -> None:
    engine = open_engine(url)
    migrate(engine)
    engine.dispose()


def _renamed(server: str, name: str) -> str:
    return server.replace("/postgres?", f"/{name}?")


@contextmanager
def counting(engine: Engine) -> Iterator[SimpleNamespace]:
    """Count the rows that SQLite returns, and the instructions that it needs for them.

    Not the time: they are the same in each run.
    """
    found = SimpleNamespace(rows=0, instructions=0)

    def step():
        found.instructions += 1

    def returned(_, row):
        found.rows += 1
        return row

    def watched(connection, *_):
        connection.set_progress_handler(step, 1)
        connection.row_factory = returned

    def left(connection, *_):
        connection.set_progress_handler(None, 1)
        connection.row_factory = None

    event.listen(engine, "checkout", watched)
    event.listen(engine, "checkin", left)
    try:
        yield found
    finally:
        event.remove(engine, "checkout", watched)
        event.remove(engine, "checkin", left)
