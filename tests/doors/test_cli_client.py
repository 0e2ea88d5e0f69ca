"""An error of a running service is the same as that of the command."""

from __future__ import annotations

import io
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from app import errors
from app.doors.cli.client import ask, read_messages
from app.doors.cli.forwarded import forwarded
from app.doors.documents.message import FeedbackOut
from app.mail.limits import MAX_BYTES, MAX_FORWARDED_BYTES


@contextmanager
def answering(status, body, **headers):
    """Run a service that gives one answer, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidInput),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (413, errors.MessageTooLarge),
        (422, errors.InvalidInput),
        (503, errors.DatabaseUnavailable),
    ],
)
def test_an_answer_is_the_error_that_it_stands_for(status, kind):
    """Whoever asks for many messages knows whose fault it was."""
    with (
        answering(status, b'{"detail": "the reason"}') as url,
        pytest.raises(kind, match="the reason") as caught,
    ):
        ask(FeedbackOut, url, "/feedback", b"Subject: x\n\n", {})

    assert kind is caught.type


@pytest.mark.parametrize("key", ["pb_\xe9", "pb_x\nX-Other: 1"])
def test_what_no_key_looks_like_is_not_sent_and_not_quoted(key, monkeypatch):
    """The error goes to logs, and a key with a stray character is still a secret."""
    monkeypatch.setenv("POSTBAYES_API_KEY", key)

    with pytest.raises(errors.InvalidSetting, match="POSTBAYES_API_KEY") as caught:
        ask(FeedbackOut, "http://127.0.0.1:1", "/feedback", b"Subject: x\n\n", {})

    assert "pb_" not in str(caught.value)


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (b'{"type": "about:blank", "detail": "the reason"}', errors.UnreadableMessage),
        (
            b'{"type": "urn:postbayes:problem:database-damaged", "detail": "reason"}',
            errors.Inconsistent,
        ),
        (b"<html>", errors.DatabaseUnavailable),
    ],
)
def test_a_500_is_no_503(document, kind):
    """A defect comes again with the message, a damaged database with every one."""
    with answering(500, document) as url, pytest.raises(kind) as caught:
        ask(FeedbackOut, url, "/feedback", b"Subject: x\n\n", {})

    assert kind is caught.type


def test_an_empty_message_is_told_from_a_request_that_a_proxy_refuses():
    """Only one of them is passed over, for the sake of those that come after it."""
    empty = b'{"type": "urn:postbayes:problem:empty-message", "detail": "the reason"}'
    for document, kind in (
        (empty, errors.EmptyMessage),
        (b"<html>", errors.InvalidInput),
    ):
        with answering(400, document) as url, pytest.raises(kind) as caught:
            ask(FeedbackOut, url, "/feedback", b"Subject: x\n\n", {})

        assert kind is caught.type


def test_what_is_no_postbayes_is_told_by_its_status():
    """A proxy's page has no sentence of ours."""
    with (
        answering(418, b"<html>") as url,
        pytest.raises(errors.InvalidInput, match="answered 418"),
    ):
        ask(FeedbackOut, url, "/feedback", b"Subject: x\n\n", {})


def test_no_command_takes_the_page_of_another_service_for_a_lesson():
    """A proxy may answer with 200 and its own page to sign in."""
    with (
        answering(200, b"<html>") as url,
        pytest.raises(errors.InvalidInput, match="is not Postbayes"),
    ):
        ask(FeedbackOut, url, "/feedback", b"Subject: x\n\n", {})


def test_a_redirect_names_where_the_service_is():
    """It is not followed, because the key is for the address that was given."""
    where = "https://filter.example.org/feedback?label=spam"
    with (
        answering(308, b"", Location=where) as url,
        pytest.raises(errors.InvalidInput, match=r"to https://filter\.example\.org/;"),
    ):
        ask(FeedbackOut, url, "/feedback", b"Subject: x\n\n", {})


def test_an_answer_that_cannot_be_decoded_is_none():
    """A broken proxy is no defect of the command, and a later answer may be whole."""
    with (
        answering(200, b"{}", Content_Encoding="gzip") as url,
        pytest.raises(errors.DatabaseUnavailable, match="does not answer"),
    ):
        ask(FeedbackOut, url, "/feedback", b"Subject: x\n\n", {})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SSL_CERT_FILE", "/nonexistent.pem"),
        ("ALL_PROXY", "gopher://127.0.0.1:1"),
        ("ALL_PROXY", "socks5://127.0.0.1:1"),
    ],
)
def test_an_environment_that_cannot_be_used_is_named(variable, value, monkeypatch):
    """Proxies and certificates are set far away from the command."""
    monkeypatch.setenv(variable, value)

    with pytest.raises(errors.InvalidSetting, match="SSL_CERT_FILE"):
        ask(FeedbackOut, "http://127.0.0.1:1", "/feedback", b"Subject: x\n\n", {})


def test_of_a_large_file_the_beginning_is_read(tmp_path):
    """The parser looks at no more, and notes that there is more."""
    file = tmp_path / "large.eml"
    with file.open("wb") as writing:
        writing.truncate(2**33)
    ((name, raw),) = read_messages([file])

    assert (str(file), MAX_BYTES + 1) == (name, len(raw))


@pytest.fixture
def sizes(monkeypatch):
    """Give 20 MiB on standard input, and return how much of it is read at once."""
    found = []

    class Metered(io.BytesIO):
        def read(self, size=-1):
            found.append(size)
            return super().read(size)

    source = Metered(bytes(20 * 1024 * 1024))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source))
    yield found
    assert not source.read(1)


def test_no_more_of_standard_input_is_kept_than_is_parsed(sizes):
    """The rest is read, so that the program that writes it sees no error."""
    ((_, raw),) = read_messages([])

    assert MAX_BYTES + 1 == len(raw)
    assert {MAX_BYTES + 1} == {*sizes}


def test_no_more_of_a_forwarded_message_is_kept_than_is_read(sizes):
    """Strangers write to such an address as well."""
    forwarded(label="spam", sender="")

    assert {MAX_FORWARDED_BYTES} == {*sizes}
