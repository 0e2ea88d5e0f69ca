"""A whole application in this process, and a client of its HTTP door."""

from __future__ import annotations

from contextlib import contextmanager

from fastapi.testclient import TestClient

from app.doors.http.app import create_app
from app.services.application import Application
from app.settings import Settings
from tests.support.databases import sqlite_url


@contextmanager
def running(**settings):
    """Run an application with some settings, whatever the environment says."""
    app = Application(Settings(_env_file=None, **settings))
    app.start()
    try:
        yield app
    finally:
        app.stop()


def served(tmp_path, **settings):
    """Return a client of an application over an empty SQLite database."""
    url = sqlite_url(tmp_path)
    application = Application(Settings(_env_file=None, database_url=url, **settings))
    return TestClient(create_app(application), client=("127.0.0.1", 50000))


def teach(app, raw, label, profile="default"):
    """Teach one message by its bytes."""
    return app.feedback.teach(profile, raw, label=label, source="test")
