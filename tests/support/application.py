"""A whole application in this process, and a client of its HTTP door."""

from __future__ import annotations

import time
from contextlib import contextmanager

from fastapi.testclient import TestClient

from app.corpora.mailbox import CorpusMessage
from app.doors.http.app import create_app
from app.services.application import Application
from app.services.clock import now
from app.services.learn import Learn
from app.services.profiles import create_profile
from app.settings import Settings
from tests.support.command import PATIENCE
from tests.support.databases import sqlite_url
from tests.support.messages import HAM, SPAM


@contextmanager
def running(*, clock=now, **settings):
    """Run an application with some settings, whatever the environment says."""
    app = Application(Settings(**settings), clock=clock)
    app.start()
    try:
        yield app
    finally:
        app.stop()


class PageClient(TestClient):
    """A client whose forms have what a page of the service puts into them."""

    def post(self, url, **given):
        """Post; a form of a page has the field `csrf` and the cookie to it."""
        form = {**(given.get("data") or {}), **(given.get("files") or {})}
        if str(url).startswith("/ui/") and form and "csrf" not in form:
            if "postbayes_browser" not in self.cookies:
                self.cookies.set("postbayes_browser", "0" * 32)
            browser = self.cookies["postbayes_browser"]
            sessions = self.app.state.application.sessions
            token = sessions.token(f"http {browser}")
            if "data" in given or "files" not in given:
                given["data"] = {"csrf": token, **(given.get("data") or {})}
            else:
                given["files"] = {"csrf": (None, token), **given["files"]}
        return super().post(url, **given)


def client_of(database_url, **settings):
    """Return a client of an application over a database, on this machine."""
    application = Application(Settings(database_url=database_url, **settings))
    return PageClient(create_app(application), client=("127.0.0.1", 50000))


def served(tmp_path, **settings):
    """Return a client of an application over an empty SQLite database."""
    return client_of(sqlite_url(tmp_path), **settings)


@contextmanager
def taught_client(database_url, **settings):
    """Give a client of one that has learned three messages of either side."""
    with client_of(database_url, **settings) as client:
        for label, some in (("ham", HAM), ("spam", SPAM)):
            for raw in some:
                client.post(
                    "/feedback",
                    params={"label": label},
                    content=raw,
                    headers={"content-type": "message/rfc822"},
                ).raise_for_status()
        yield client


def add_profiles(app, *names):
    """Create profiles of ham and spam, which the application follows at once."""
    for name in names:
        create_profile(
            app.engine, name, labels=("ham", "spam"), spam_labels=("spam",), time=now()
        )
    app.live.refresh()


def wait_for(said, caplog):
    """Wait until something is logged."""
    until = time.monotonic() + PATIENCE
    while said not in caplog.text and time.monotonic() < until:
        time.sleep(0.01)
    assert said in caplog.text


def teach(app, raw, label, profile="default"):
    """Teach one message by its bytes."""
    return app.feedback.teach(profile, raw, label=label, source="test")


def learn_batch(app, messages, time, *, profile="default", store_words=True):
    """Learn labelled messages in one transaction, and return their learner."""
    part = [CorpusMessage(label, raw, "here") for label, raw in messages]
    learner = Learn(
        app.engine,
        app.live.get(profile),
        lambda: time,
        source="test",
        store_words=store_words,
    )
    [*learner.batches([part], most=len(part))]
    return learner


def maintain(app):
    """Do all that the maintenance has to do now, and not in half a second.

    Its thread ends, for a step is never begun within another.
    """
    if app.scheduler.is_alive():
        app.scheduler.stop()
    app.maintenance._follow_at = 0.0  # noqa: SLF001
    while app.maintenance():
        pass
