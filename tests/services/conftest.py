"""A whole application over either database."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from app.services.application import Application
from app.settings import Settings


@contextmanager
def running(**settings):
    """Run an application with some settings, whatever the environment says."""
    app = Application(Settings(_env_file=None, **settings))
    app.start()
    try:
        yield app
    finally:
        app.stop()


@pytest.fixture
def app(database_url):
    """A running application over an empty database."""
    with running(database_url=database_url) as app:
        yield app
