"""Connections that send no request do not take the places of those that do."""

from __future__ import annotations

import socket
import threading
import time

import httpx2
import pytest
import uvicorn

from app.doors.serving import http1
from app.doors.serving import http1 as patience


async def hello(scope, receive, send):
    """Answer every request; with a header that tells whether it had arrived."""
    assert "http" == scope["type"]
    arrived = b"yes" if http1.ARRIVED in scope else b"no"
    headers = [(b"arrived", arrived)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def port(monkeypatch):
    """Port of a server that waits half a second for headers."""
    monkeypatch.setattr(patience, "HEADER_SECONDS", 0.5)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            hello, http=http1.ImpatientProtocol, lifespan="off", log_level="error"
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost:"])
def test_a_client_that_stops_before_its_headers_end_is_shut_out(port, sent):
    """Whether it says nothing or half of something, the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(sent)
        heard = client.recv(1)

    assert b"" == heard


def test_a_client_with_a_request_is_served_on_one_connection(port):
    """Requests one after the other are answered; the timer ends with the headers."""
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        answers = [client.get("/").text for _ in range(3)]

    assert ["hello"] * 3 == answers


WHOLE = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def test_the_second_head_of_a_connection_has_to_end_as_well(port):
    """One that was whole is forgotten."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(WHOLE + WHOLE[:9])
        heard = b"".join(iter(lambda: client.recv(65536), b""))

    assert heard.endswith(b"hello\r\n0\r\n\r\n")


def drip(client):
    """Send a head that does not end, a line at a time."""
    client.sendall(WHOLE[:-2])
    while True:
        time.sleep(0.05)
        client.sendall(b"X: y\r\n")


def test_a_head_in_drops_has_no_more_time_than_another(port):
    """It counts from the first byte, not from the last."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as client,
        pytest.raises(ConnectionError),
    ):
        drip(client)


def test_a_head_in_two_pieces_is_a_head(port):
    """Its time is over with its end: the connection may be silent then."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        # At once, so that no busy machine is late: two packets all the same.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (WHOLE[:9], WHOLE[9:]):
            client.sendall(piece)
        client.recv(65536)
        time.sleep(0.7)
        client.sendall(WHOLE)

        assert client.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")


HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"


def flood(client, sent):
    """Send some bytes, and headers after them for ever."""
    while True:
        client.sendall(sent)
        sent = b"X: y\r\n" * 10_000


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"X: " + b"x" * 1_000_000,
        HEAD + b"X: y\r\n" * 200_000,
        HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
        + b"X: y\r\n" * 500_000,
    ],
    ids=["one header", "many headers", "trailers"],
)
def test_headers_without_end_are_shut_out(port, sent):
    """A request's head, or its tail, does not fill the memory."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as client,
        pytest.raises(ConnectionError),
    ):
        flood(client, sent)

    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert "hello" == client.get("/").text


def test_a_large_body_in_chunks_is_no_head(port):
    """What is body has limits of its own; sizes of chunks are few bytes."""
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        answers = [
            client.post("/", content=(b"x" * 4096 for _ in range(1000))).text
            for _ in range(2)
        ]

    assert ["hello"] * 2 == answers


@pytest.mark.parametrize(
    ("sent", "arrived"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"yes"),
        (HEAD + b"Content-Length: 4\r\n\r\nbody", b"yes"),
        (HEAD + b"Content-Length: 4\r\n\r\nbod", b"no"),
        (HEAD + b"Content-Length: 4\r\n\r\n", b"no"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", b"yes"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n", b"no"),
    ],
)
def test_a_request_that_has_arrived_is_known_to(port, sent, arrived):
    """To its last byte: whoever reads it need not wait."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(sent)

        assert b"\r\narrived: " + arrived + b"\r\n" in client.recv(65536)
