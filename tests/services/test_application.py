"""The end of an application, and a start that fails: all is stored and closed."""

from __future__ import annotations

import pytest
from sqlalchemy import event, func, select
from sqlalchemy.exc import IntegrityError

from app.services import application as module
from app.services.application import Application
from app.services.cache import LiveProfiles
from app.services.metrics import Tally
from app.settings import Settings
from app.storage import tables
from app.storage.database.engine import open_engine, reading, writing
from tests.support.messages import spam

SERVER = "mx.example.org"
REFUSED = """
    CREATE TRIGGER refused BEFORE INSERT ON correspondent
    BEGIN SELECT RAISE(ABORT, 'not here'); END
"""


@pytest.fixture
def database():
    """No rule here is about a database."""
    return "sqlite"


@pytest.fixture
def settings(database_url):
    """Settings of a site that counts correspondents."""
    return Settings(database_url=database_url, authserv_id=(SERVER,))


@pytest.fixture
def closed(monkeypatch):
    """What was closed, in order."""
    found = []
    opened = module.open_database

    def open_database(*given, **named):
        engine = opened(*given, **named)
        event.listen(engine, "engine_disposed", lambda _: found.append("engine"))
        return engine

    monkeypatch.setattr(module, "open_database", open_database)
    for name, closable in (("tally", Tally), ("profiles", LiveProfiles)):

        def close(self, name=name, close=closable.close):
            found.append(name)
            close(self)

        monkeypatch.setattr(closable, "close", close)
    return found


def with_waiting(settings):
    """Return an application with a scored message and a sent one in memory."""
    app = Application(settings)
    app.start()
    app.scheduler.stop()
    app.classify("default", spam(1), strongest=0)
    app.correspondents.sent("ann@example.org", ("carl@friends.example",))
    return app


def stored(settings):
    """Return the number of scored messages in the database."""
    engine = open_engine(settings.database_url)
    with reading(engine) as connection:
        found = connection.execute(select(func.count()).select_from(tables.scored))
        number = found.scalar_one()
    engine.dispose()
    return number


def test_the_end_stores_each_kind_of_data_whatever_becomes_of_the_others(
    settings, closed, caplog
):
    """A failure is logged with what is lost."""
    app = with_waiting(settings)
    with writing(app.engine) as connection:
        connection.exec_driver_sql("DROP TABLE correspondent")
    app.stop()

    assert 1 == stored(settings)
    assert ["profiles", "engine", "tally"] == closed
    (line,) = caplog.messages
    assert line.startswith("the latest sent messages could not be stored: ")


def test_the_end_closes_all_after_an_error_that_nobody_expects(settings, closed):
    """The error is raised after that."""
    app = with_waiting(settings)
    with writing(app.engine) as connection:
        connection.exec_driver_sql(REFUSED)
    with pytest.raises(IntegrityError, match="not here"):
        app.stop()

    assert 1 == stored(settings)
    assert ["profiles", "engine", "tally"] == closed


def test_a_thread_that_could_not_be_started_is_not_stopped(
    settings, closed, monkeypatch
):
    """The others are."""
    app = Application(settings)

    def start():
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(app.writer, "start", start)
    with pytest.raises(RuntimeError, match="can't start"):
        app.start()
    app.stop()

    assert ["profiles", "engine", "tally"] == closed
    assert (True, False) == (app.scheduler.ident is not None, app.scheduler.is_alive())


@pytest.mark.parametrize("failing", ["Recipients", "Writer"])
def test_an_application_that_cannot_be_composed_leaves_nothing_open(
    settings, closed, monkeypatch, failing
):
    """Whatever the error is."""

    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(module, failing, fail)
    with pytest.raises(ZeroDivisionError):
        Application(settings)

    assert ["profiles", "engine", "tally"] == closed
