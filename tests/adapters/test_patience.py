"""Connections that send no request do not take the places of those that do."""

from __future__ import annotations

import socket
import threading

import httpx2
import pytest
import uvicorn

from app.adapters import patience


async def hello(scope, receive, send):
    """Answer every request."""
    assert "http" == scope["type"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def port(monkeypatch):
    """Port of a server that waits half a second for headers."""
    monkeypatch.setattr(patience, "HEADER_SECONDS", 0.5)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            hello, http=patience.ImpatientProtocol, lifespan="off", log_level="error"
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
