"""A whole application in this process, and a client of its HTTP door."""

from __future__ import annotations

from contextlib import contextmanager

from fastapi.testclient import TestClient

from app.corpora.mailbox import CorpusMessage
from app.doors.http.app import create_app
from app.services.application import Application
from app.services.learn import Learn
from app.settings import Settings
from tests.support.databases import sqlite_url


@contextmanager
def running(**settings):
    """Run an application with some settings, whatever the environment says."""
    app = Application(Settings(**settings))
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


def served(tmp_path, **settings):
    """Return a client of an application over an empty SQLite database."""
    url = sqlite_url(tmp_path)
    application = Application(Settings(database_url=url, **settings))
    return PageClient(create_app(application), client=("127.0.0.1", 50000))


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
