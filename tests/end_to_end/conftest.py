"""A real `postbayes serve`, in a process of its own, over loopback."""

from __future__ import annotations

import pytest

from tests.support import mail_site
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import Service


@pytest.fixture
def service(database_url, tmp_path):
    """A service that is not started yet; whatever runs at the end is killed."""
    service = Service(database_url, tmp_path)
    yield service
    service.client.close()
    if service.process is not None and service.process.poll() is None:
        service.kill()


@pytest.fixture
def spamd_site(tmp_path):
    """A service that has learned forty messages, and the port of its spamd door."""
    service = Service(sqlite_url(tmp_path), tmp_path)
    port = service.open_door("spamd")
    try:
        service.start()
        for n in range(10, 30):
            service.teach(ham(n), "ham")
            service.teach(spam(n), "spam")
        yield service, port
    finally:
        service.client.close()
        service.kill()


@pytest.fixture(scope="module")
def marking():
    """A service with its milter open, that has learned 48 messages."""
    with mail_site.open_folder() as folder:
        service = Service(sqlite_url(folder), folder)
        service.milter = service.open_door("milter")
        service.start()
        for n in range(24):
            service.teach(ham(n), "ham")
            service.teach(spam(n), "spam")
        yield service
        service.client.close()
        if service.process.poll() is None:
            service.kill()
