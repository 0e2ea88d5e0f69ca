"""The webhook: what is posted, what is tried again, and what nobody waits for."""

from __future__ import annotations

import hashlib
import hmac
import http.server
import json
import logging
import queue
import re
import socket
import threading
import time
from contextlib import suppress
from itertools import count

import pytest

from app.doors.cli.client import application
from app.doors.cli.figures import loaded
from app.errors import InvalidSetting
from app.services import webhook as webhooks
from app.services.clock import Failures
from app.services.log import Event
from app.services.metrics import Tally
from app.services.webhook import EVENTS, SIGNATURE, Webhook, webhook_of
from app.settings import Settings
from tests.support.application import running
from tests.support.command import PATIENCE
from tests.support.messages import ham, spam
from tests.support.service import served

SECRET = b"0123456789abcdef"
FULL = frozenset(EVENTS)


class Receiver(http.server.ThreadingHTTPServer):
    """A receiver that answers what it is told to, and keeps what it takes."""

    def __init__(self):
        self.answers = queue.SimpleQueue()
        self.requests = queue.SimpleQueue()
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    def do_POST(self):
        """Take what is posted."""
        body = self.rfile.read(int(self.headers["content-length"]))
        # Before the answer: the next event may come on another thread.
        self.server.requests.put((dict(self.headers), body))
        status = 200 if self.server.answers.empty() else self.server.answers.get()
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Set-Cookie", "session=1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Write nothing."""


@pytest.fixture
def receiver():
    """A server on this machine."""
    with served(Receiver()) as server:
        yield server


@pytest.fixture
def secret(tmp_path):
    """A file with a secret."""
    file = tmp_path / "secret"
    file.write_bytes(SECRET + b"\n")
    return file


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database."""
    return "sqlite"


def hook(url, *, tally=None, most=1000):
    """Return a webhook whose pauses are over at once."""
    return Webhook(
        url,
        SECRET,
        FULL,
        tally=tally or Tally(),
        failures=Failures(count(0, 1_000).__next__),
        most=most,
    )


def event(number):
    """Return an event."""
    return Event("verdict", lambda: {"id": str(number), "ms": 1.0})


def counts(tally):
    """Return how many events had each outcome."""
    return tally.counts("postbayes_webhook_events", "outcome")


def taken(receiver):
    """Return the next request that the receiver got."""
    return receiver.requests.get(timeout=PATIENCE)


def test_events_come_signed_and_in_order(receiver):
    """By HMAC-SHA256 of the time and the body, as the documentation says."""
    webhook = hook(receiver.url)
    webhook.start()
    for number in range(3):
        webhook(event(number))
    got = [taken(receiver) for _ in range(3)]
    webhook.stop()

    assert ["0", "1", "2"] == [json.loads(body)["id"] for _, body in got]
    for headers, body in got:
        at, made = re.fullmatch(
            r"t=(\d+),v1=([0-9a-f]{64})", headers[SIGNATURE]
        ).groups()
        signed = at.encode() + b"." + body
        assert hmac.new(SECRET, signed, hashlib.sha256).hexdigest() == made
        assert {"event", "event_id", "time", "id"} == set(json.loads(body))
        assert "Cookie" not in headers


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_what_may_be_taken_later_is_tried_again(receiver, status):
    """The same event, until it is taken; those behind it wait."""
    tally = Tally()
    webhook = hook(receiver.url, tally=tally)
    for answer in (status, status):
        receiver.answers.put(answer)
    webhook.start()
    webhook(event(1))
    webhook(event(2))
    got = [json.loads(taken(receiver)[1])["id"] for _ in range(4)]
    webhook.stop()

    assert ["1", "1", "1", "2"] == got
    assert {"failed": 2, "sent": 2} == counts(tally)


@pytest.mark.parametrize("status", [400, 401, 404, 410, 302])
def test_what_is_refused_for_good_is_dropped(receiver, status):
    """Nor is a redirect followed: the next event is tried."""
    tally = Tally()
    webhook = hook(receiver.url, tally=tally)
    receiver.answers.put(status)
    webhook.start()
    webhook(event(1))
    webhook(event(2))
    got = [json.loads(taken(receiver)[1])["id"] for _ in range(2)]
    webhook.stop()

    assert ["1", "2"] == got
    assert {"failed": 1, "dropped": 1, "sent": 1} == counts(tally)


def test_a_dead_receiver_costs_the_oldest_events_and_no_time(caplog):
    """They are counted; the same failure is logged once."""
    caplog.set_level(logging.WARNING, "app.services.webhook")
    tally = Tally()
    # Nobody listens on port 1.
    webhook = hook("http://127.0.0.1:1/secret-path", tally=tally, most=5)
    webhook.start()
    for number in range(50):
        webhook(event(number))
    webhook.stop()

    assert 50 == counts(tally)["dropped"]
    assert "sent" not in counts(tally)
    # Not "reset", which the webhook of another test may still say.
    assert 1 == sum("Connection refused" in each for each in caplog.messages)
    assert "secret-path" not in caplog.text


@pytest.fixture
def endless(monkeypatch):
    """The address of a receiver whose header has no end, though each byte is in time."""
    monkeypatch.setattr(webhooks, "TIMEOUT", 0.2)
    stopped = threading.Event()

    def serve():
        while not stopped.is_set():
            # The client gives up, and comes again.
            with suppress(OSError):
                client, _ = listener.accept()
                with client:
                    client.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
                    while not stopped.wait(0.02):
                        client.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        stopped.set()
        thread.join()


def test_an_answer_without_an_end_is_none(endless, caplog):
    """The attempt counts as failed, the log says why, and the service can stop."""
    tally = Tally()
    webhook = hook(endless, tally=tally)
    webhook.start()
    webhook(event(1))
    deadline = time.monotonic() + PATIENCE
    while "failed" not in counts(tally) and time.monotonic() < deadline:
        time.sleep(0.01)
    webhook.stop()
    # It waits for as long as a receiver may take, and a busy machine takes longer.
    webhook.join(PATIENCE)

    assert not webhook.is_alive()
    assert {"failed", "dropped"} == counts(tally).keys()
    assert "the answer took longer than 0.2 s" in caplog.text
    assert "1 webhook events were lost" in caplog.text


def test_an_environment_that_cannot_be_used_costs_no_event(
    receiver, monkeypatch, caplog
):
    """The thread goes on, and posts the event once it can."""
    tally = Tally()
    webhook = hook(receiver.url, tally=tally)
    real = webhooks.open_client

    # By the thread itself: it must not read an environment that is just changed.
    def opened(*given):
        monkeypatch.setattr(webhooks, "open_client", real)
        with monkeypatch.context() as broken:
            broken.setenv("SSL_CERT_FILE", "/nonexistent.pem")
            return real(*given)

    monkeypatch.setattr(webhooks, "open_client", opened)
    webhook.start()
    webhook(event(1))
    _, body = taken(receiver)
    webhook.stop()

    assert "1" == json.loads(body)["id"]
    assert "SSL_CERT_FILE" in caplog.text
    assert {"failed", "sent"} == counts(tally).keys()


def test_what_refuses_everything_is_logged_once(receiver, caplog):
    """And not once for each verdict."""
    webhook = hook(receiver.url)
    for number in range(5):
        receiver.answers.put(302)
        webhook(event(number))
    webhook.start()
    for _ in range(5):
        taken(receiver)
    webhook.stop()

    assert 1 == caplog.text.count("the webhook refused an event")
    assert "it answered 302, and redirects are not followed" in caplog.text


def test_nothing_is_posted_before_the_thread_starts():
    """And a webhook that never started stops."""
    tally = Tally()
    webhook = hook("http://127.0.0.1:1/", tally=tally)
    webhook(event(1))
    webhook.stop()
    webhook.stop()

    assert {} == counts(tally)


def test_verdicts_and_feedback_are_posted(receiver, secret, database_url):
    """With what their log lines say, and no word of the mail where words are not kept."""
    with running(
        database_url=database_url,
        webhook=receiver.url,
        webhook_secret_file=secret,
        webhook_events=("feedback", "unsure"),
    ) as app:
        app.feedback.teach("default", spam(1), label="spam", source="ann")
        asked = app.delivery.address(["bob@example.org"])
        app.delivery.answer(asked, ham(1), strongest=0, door="http")
    posted = [json.loads(taken(receiver)[1]) for _ in range(2)]
    # The writer tells of a feedback, and the caller may be answered before.
    taught, verdict = sorted(posted, key=lambda each: each["event"])

    assert ("feedback", "spam", "ann", "learned") == tuple(
        taught[key] for key in ("event", "label", "source", "outcome")
    )
    assert ("verdict", "unsure", "http", "bob@example.org", "default") == tuple(
        verdict[key] for key in ("event", "decision", "door", "recipients", "profile")
    )


def test_only_the_events_that_are_wanted_are_posted(receiver, secret, database_url):
    """Neither a verdict of another kind nor feedback that changed nothing."""
    with running(
        database_url=database_url,
        webhook=receiver.url,
        webhook_secret_file=secret,
        webhook_events=("feedback", "ham"),
    ) as app:
        for _ in range(2):
            app.feedback.teach("default", spam(1), label="spam", source="ann")
        asked = app.delivery.address([])
        app.delivery.answer(asked, ham(1), strongest=0, door="http")
        app.feedback.teach("default", spam(2), label="spam", source="ann")
    events = [json.loads(taken(receiver)[1]) for _ in range(2)]

    assert receiver.requests.empty()
    assert ["feedback", "feedback"] == [each["event"] for each in events]


def test_a_receiver_that_hangs_holds_no_verdict(secret, database_url, monkeypatch):
    """It is asked by another thread; a verdict comes all the same."""
    # No machine is too busy for three verdicts in that time.
    monkeypatch.setattr(webhooks, "TIMEOUT", 300.0)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), None)
    with running(
        database_url=database_url,
        webhook=f"http://127.0.0.1:{server.server_port}/",
        webhook_secret_file=secret,
        webhook_events=EVENTS,
    ) as app:
        asked = app.delivery.address([])
        for number in range(3):
            app.delivery.answer(asked, ham(number), strongest=0, door="http")
        # A verdict that waits for the receiver comes after an attempt has failed.
        assert {} == counts(app.tally)
        server.server_close()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"webhook": "hooks.example"}, "is not a web address"),
        ({"webhook": "ftp://hooks.example/"}, "is not a web address"),
        ({"webhook": "https://[hooks.example/"}, "is not a web address"),
        ({"webhook_secret_file": None}, "openssl rand"),
        ({"webhook_secret_file": "/missing"}, "cannot be read"),
        ({"webhook_secret_file": "short"}, "5 bytes"),
        ({"webhook_events": ("feedback", "eggs")}, "eggs"),
        ({"webhook_events": ()}, "got none"),
    ],
)
def test_a_webhook_that_cannot_work_is_refused(tmp_path, secret, given, says):
    """Before anything is served, with what to do."""
    (tmp_path / "short").write_text("short")
    if given.get("webhook_secret_file") == "short":
        given = {"webhook_secret_file": tmp_path / "short"}
    good = {"webhook": "https://hooks.example/x", "webhook_secret_file": secret}
    settings = Settings(**good | given)

    with pytest.raises(InvalidSetting, match=says):
        webhook_of(settings, Tally())


def test_without_a_setting_there_is_no_webhook():
    """And no thread."""
    assert webhook_of(Settings(), Tally()) is None


def test_commands_post_nothing_and_need_no_secret(database_url, monkeypatch, tmp_path):
    """The service alone posts; whoever looks something up may not read its secret."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTBAYES_DATABASE_URL", database_url)
    with running(database_url=database_url):
        pass
    monkeypatch.setenv("POSTBAYES_WEBHOOK", "https://hooks.example/x")
    monkeypatch.setenv("POSTBAYES_WEBHOOK_SECRET_FILE", "/missing")

    with application() as app:
        assert app.webhook is None
    with loaded() as app:
        assert app.webhook is None
