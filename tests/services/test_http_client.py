"""Answers of other servers, which may be too long or never end."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from app.services.client import Answer, NoAnswer, ask


@contextmanager
def server(*pieces, pause=0.0):
    """Serve one client some pieces, and rest after each."""

    def answer():
        # The client may have given up before it connected, or since.
        with suppress(OSError):
            client, _ = listener.accept()
            with client:
                client.recv(65_536)
                for piece in pieces:
                    client.sendall(piece)
                    time.sleep(pause)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join()


def asked(url, *, within=60.0):
    """Ask for ten bytes at most."""
    return ask("GET", url, headers={}, most_bytes=10, silent=60.0, within=within)


def test_an_answer_is_returned_as_it_was_sent():
    """Nothing is decompressed, so nothing can grow."""
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n"
    with server(head, b"0123", b"456789") as url:
        answer = asked(url)

    assert Answer(200, answer.headers, b"0123456789") == answer


def test_a_longer_answer_is_none():
    """The length is checked while the answer arrives."""
    with (
        server(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 11) as url,
        pytest.raises(NoAnswer) as no,
    ):
        asked(url)

    assert "the answer has more than 10 bytes" == str(no.value)


def test_a_header_without_an_end_is_not_waited_for():
    """Each of its bytes comes in time, and all of them do not."""
    head = [b"HTTP/1.1 200 OK\r\nX-A: ", *[b"a"] * 50, b"\r\nContent-Length: 0\r\n\r\n"]
    with server(*head, pause=0.02) as url, pytest.raises(NoAnswer) as no:
        asked(url, within=0.1)

    assert "the answer took longer than 0.1 s" == str(no.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSL_CERT_FILE", "/nonexistent.pem"),
        ("HTTPS_PROXY", "gopher://127.0.0.1:1"),
        ("HTTPS_PROXY", "socks5://127.0.0.1:1"),
    ],
)
def test_an_environment_that_cannot_be_used_is_named(monkeypatch, name, value):
    """Whoever asks goes on, and tries again later."""
    monkeypatch.setenv(name, value)
    with pytest.raises(NoAnswer, match="of the environment cannot be used: "):
        asked("https://127.0.0.1:1/")
