"""Workers on PostgreSQL hear of what others learn; nobody has to look."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace

import pytest

from app.errors import DatabaseUnavailable
from app.services import notifier
from app.services import scheduler as maintenance
from app.services.notifier import Notifier
from app.storage.database.engine import listening, reading, writing
from tests.support.application import running
from tests.support.command import PATIENCE
from tests.support.databases import on_postgresql
from tests.support.messages import ham, spam


@pytest.fixture
def deaf(monkeypatch):
    """House-keeping does not look at what others have learned."""
    monkeypatch.setattr(maintenance, "FOLLOW_SECONDS", 3600)
    monkeypatch.setattr(notifier, "RETRY", 0.05)


def wait_until(true):
    """Wait until something is true, and tell whether it is."""
    deadline = time.monotonic() + PATIENCE
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


def hears(listener):
    """Wait until another process has notified, and tell whether it has."""
    deadline = time.monotonic() + PATIENCE
    while not (heard := listener.heard()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return heard


def learned(app):
    """Return the revision that an application answers from."""
    return app.live.get("default").snapshot.revision


def wait_for(app, revision):
    """Wait until an application answers from a revision."""
    wait_until(lambda: learned(app) >= revision)
    return learned(app)


def listeners(app):
    """Return the backends that listen."""
    with reading(app.engine) as connection:
        return set(
            connection.exec_driver_sql(
                "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN %%'"
                " OR query LIKE '%%NOTIFY postbayes%%' AND pid <> pg_backend_pid()"
            ).scalars()
        )


@on_postgresql
def test_what_one_learns_the_others_are_told(database_url, deaf):
    """Three processes follow one another, though none of them looks."""
    with ExitStack() as stack:
        apps = [stack.enter_context(running(database_url=database_url)) for _ in "abc"]
        seen = []
        for n, app in enumerate(apps):
            app.feedback.teach("default", spam(n), label="spam", source="test")
            seen += [wait_for(other, n + 1) for other in apps]

    assert [1, 1, 1, 2, 2, 2, 3, 3, 3] == seen


@on_postgresql
def test_it_ends_however_late_it_is_told(engine, monkeypatch):
    """Told while it looks whether somebody rang, it does not wait for the next."""
    followed, pulled = threading.Event(), threading.Event()
    read, write = socket.socketpair()

    def late(size):
        if followed.is_set() and stopping.ident is None:
            stopping.start()
            pulled.wait(PATIENCE)
        return read.recv(size)

    def pull(data):
        written = write.send(data)
        pulled.set()
        return written

    ends = [
        SimpleNamespace(
            recv=late,
            send=pull,
            close=end.close,
            fileno=end.fileno,
            setblocking=end.setblocking,
        )
        for end in (read, write)
    ]
    rope = SimpleNamespace(socketpair=lambda: ends)
    monkeypatch.setattr(notifier, "socket", rope)
    it = Notifier(engine, follow=followed.set)
    stopping = threading.Thread(target=it.stop)
    monkeypatch.setattr(notifier, "RETRY", 0.05)
    it.start()
    wait_until(lambda: stopping.ident is not None)
    stopping.join(PATIENCE)

    assert not stopping.is_alive()


@on_postgresql
def test_who_notifies_after_the_end_disturbs_nobody(engine, tmp_path):
    """A file that was opened since has the descriptor, and is not written to."""
    it = Notifier(engine, follow=lambda: None)
    it.start()
    it.stop()
    with ExitStack() as stack:
        files = [stack.enter_context((tmp_path / str(n)).open("wb")) for n in range(9)]
        it.notify()

    assert [0] * 9 == [(tmp_path / str(n)).stat().st_size for n, _ in enumerate(files)]


@on_postgresql
def test_a_lost_connection_is_replaced_and_nothing_is_missed(database_url, deaf):
    """What was taught while nobody listened is looked for when somebody does."""
    with (
        running(database_url=database_url) as here,
        running(database_url=database_url) as there,
    ):
        here.feedback.teach("default", ham(1), label="ham", source="test")
        heard = wait_for(there, 1)
        wait_until(lambda: len(listeners(here)) == 2)
        before = listeners(here)
        with writing(here.engine) as connection:
            for backend in before:
                connection.exec_driver_sql(f"SELECT pg_terminate_backend({backend})")
        here.feedback.teach("default", ham(2), label="ham", source="test")
        heard_again = wait_for(there, 2)
        replaced = wait_until(lambda: len(listeners(here) - before) == 2)

    assert (1, 2) == (heard, heard_again)
    assert replaced


@on_postgresql
def test_a_process_that_notifies_does_not_follow_itself(engine):
    """Its own commits are in memory already."""
    followed = threading.Semaphore(0)
    ours = Notifier(engine, followed.release)
    theirs = Notifier(engine, lambda: None)
    ours.start()
    begun = followed.acquire(timeout=PATIENCE)
    theirs.start()
    for _ in range(100):
        ours.notify()
    with listening(engine) as listener:
        ours.notify()
        heard = hears(listener)
    of_itself = followed.acquire(blocking=False)
    theirs.notify()
    of_theirs = followed.acquire(timeout=PATIENCE)
    ours.stop()
    theirs.stop()
    theirs.stop()

    assert (True, True) == (heard, begun)
    assert (False, True) == (of_itself, of_theirs)


class StubListener:
    """A listener whose connection stays, and which hears nothing."""

    def __init__(self):
        self.socket, self.other = socket.socketpair()
        self.fileno = self.socket.fileno
        self.connected = 0

    def __call__(self, _):
        """Give it, as for a connection to an engine."""
        self.connected += 1
        return nullcontext(self)

    def heard(self):
        """Report no commit."""
        return False

    def close(self):
        """Close the sockets."""
        self.socket.close()
        self.other.close()


def test_a_failure_to_follow_leaves_the_connection_and_is_logged_once(
    monkeypatch, caplog
):
    """It is tried again on the same one."""
    listener = StubListener()
    monkeypatch.setattr(notifier, "listening", listener)
    monkeypatch.setattr(notifier, "RETRY", 0.0)
    errors = iter([ZeroDivisionError(), ZeroDivisionError(), DatabaseUnavailable()])
    followed = threading.Event()

    def follow():
        for error in errors:
            raise error
        followed.set()

    it = Notifier(None, follow)
    it.start()
    succeeded = followed.wait(PATIENCE)
    it.stop()
    listener.close()

    assert (True, 1) == (succeeded, listener.connected)
    assert [True] == ["changes of other workers" in text for text in caplog.messages]


@on_postgresql
def test_many_commits_are_followed_a_few_times(engine, monkeypatch):
    """Feedback that never pauses does not have the others look after each commit."""
    monkeypatch.setattr(notifier, "PAUSE", 3600)
    followed = threading.Semaphore(0)
    ours = Notifier(engine, followed.release)
    ours.start()
    begun = followed.acquire(timeout=PATIENCE)
    with listening(engine) as listener:
        for _ in range(50):
            listener.notify()
        ours.notify()
        answered = hears(listener)
    again = followed.acquire(blocking=False)
    ours.stop()

    assert (True, True, False) == (begun, answered, again)
