"""Answers over HTTP/1: whole, in order, and each to its end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from functools import partial

import pytest
import uvicorn

from app.doors.serving.http1 import Http1Protocol

START = {"type": "http.response.start", "status": 200, "headers": []}
LENGTH = [(b"content-length", b"5")]
SMALL = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
BARE = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
LOOKS_LIKE_A_HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
LARGE = bytes(64 * 1024)


class Service:
    """A server whose application does what the path of a request says."""

    def __init__(self, loop):
        self.go = threading.Event()
        self.given = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
                http=Http1Protocol,
                loop=loop,
                lifespan="off",
                log_config=None,
                server_header=False,
                date_header=False,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._listener]}
        )
        self._thread.start()

    def connect(self):
        """Return a connection to it."""
        where = self._listener.getsockname()
        return socket.create_connection(where, timeout=60)

    def ask(self, request):
        """Return all that is answered to bytes, after which nothing is sent."""
        with self.connect() as client:
            client.sendall(request)
            return everything(client)

    def end(self):
        """Have the service end in order."""
        self._server.should_exit = True

    def close(self):
        """Wait until it has ended."""
        self.go.set()
        self.end()
        self._thread.join()
        self._listener.close()

    async def _answer(self, scope, receive, send):
        await getattr(self, f"_{scope['path'][1:]}")(receive, send)

    async def _told(self):
        await asyncio.to_thread(self.go.wait)

    async def _small(self, _, send):
        await send({**START, "headers": LENGTH})
        await send({"type": "http.response.body", "body": b"hello"})

    async def _empty(self, _, send):
        await send({**START, "status": 204})
        await send({"type": "http.response.body"})

    async def _unchanged(self, _, send):
        await send({**START, "status": 304})
        await send({"type": "http.response.body"})

    async def _read(self, receive, send):
        assert b"body" == (await receive())["body"]
        await self._small(receive, send)

    async def _broken(self, _, send):
        await send({**START, "headers": LENGTH})
        msg = "between head and body"
        raise RuntimeError(msg)

    async def _forgotten(self, _, send):
        await send({**START, "headers": LENGTH})

    async def _late(self, _, send):
        await send({**START, "headers": LENGTH})
        await self._told()
        await send({"type": "http.response.body", "body": b"hello"})

    async def _pieces(self, _, send):
        await send(START)
        for piece in (b"hello", LOOKS_LIKE_A_HEAD):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._told()
        await send({"type": "http.response.body", "body": LOOKS_LIKE_A_HEAD})

    async def _same(self, _, send):
        length = b"%d" % (2 * len(LOOKS_LIKE_A_HEAD))
        await send({**START, "headers": [(b"content-length", length)]})
        for more in (True, False):
            await send(
                {
                    "type": "http.response.body",
                    "body": LOOKS_LIKE_A_HEAD,
                    "more_body": more,
                }
            )

    async def _large(self, _, send):
        await send(START)
        for _ in range(1000):
            await send({"type": "http.response.body", "body": LARGE, "more_body": True})
            self.given += 1
        await send({"type": "http.response.body"})


@pytest.fixture(params=["uvloop", "asyncio"])
def service(request):
    """A service on each of the event loops."""
    served = Service(request.param)
    yield served
    served.close()


def request(path, method="GET", headers=b""):
    """Return a request."""
    return b"%s /%s HTTP/1.1\r\nHost: a\r\n%s\r\n" % (method.encode(), path, headers)


LAST = b"Connection: close\r\n"


def everything(client):
    """Return all that comes until the other side closes."""
    return b"".join(iter(partial(client.recv, 65536), b""))


def until(client, end):
    """Return what comes, up to an end."""
    got = b""
    while not got.endswith(end):
        piece = client.recv(65536)
        assert piece
        got += piece
    return got


def test_requests_sent_at_once_are_answered_one_by_one(service):
    """In the order of the requests."""
    got = service.ask(request(b"small") * 2 + request(b"small", headers=LAST))

    last = SMALL.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    assert SMALL * 2 + last == got


@pytest.mark.parametrize(
    ("path", "method", "head"),
    [
        (b"small", "HEAD", BARE),
        (b"empty", "GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"unchanged", "GET", b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    ],
)
def test_an_answer_without_a_body_is_sent(service, path, method, head):
    """Nothing is written behind its head, and the next request is answered."""
    with service.connect() as client:
        client.sendall(request(path, method))
        first = until(client, b"\r\n\r\n")
        client.sendall(request(b"small"))

        assert (head, SMALL) == (first, until(client, b"hello"))


def test_a_head_without_a_body_is_the_last_of_a_connection(service):
    """It leaves before the connection is closed."""
    got = service.ask(request(b"small", "HEAD", LAST))

    assert BARE[:-2] + b"connection: close\r\n\r\n" == got


@pytest.mark.parametrize("path", [b"broken", b"forgotten"])
def test_an_application_that_fails_after_the_head_is_seen_to_fail(service, path):
    """The head is sent, as it was given, and the connection is closed."""
    assert BARE == service.ask(request(path))


def test_a_head_does_not_wait_for_a_late_body(service):
    """It is there before the application has a body."""
    with service.connect() as client:
        client.sendall(request(b"late"))
        head = until(client, b"\r\n\r\n")
        service.go.set()

        assert (BARE, b"hello") == (head, until(client, b"hello"))


def test_a_stream_is_sent_as_it_comes(service):
    """Piece by piece, whatever a piece looks like."""
    with service.connect() as client:
        client.sendall(request(b"pieces"))
        piece = b"13\r\n" + LOOKS_LIKE_A_HEAD + b"\r\n"
        begun = until(client, piece)
        service.go.set()

        assert CHUNKED + b"5\r\nhello\r\n" + piece == begun
        assert piece + b"0\r\n\r\n" == until(client, b"0\r\n\r\n")


def test_a_body_that_looks_like_a_head_is_sent(service):
    """Whole, in its place."""
    with service.connect() as client:
        client.sendall(request(b"same"))
        head = b"HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n"
        expected = head + 2 * LOOKS_LIKE_A_HEAD

        assert expected == until(client, expected[len(head) :])

        client.sendall(request(b"small"))

        assert SMALL == until(client, b"hello")


def test_a_client_that_waits_to_be_told_is_told_to_send(service):
    """An interim answer has no body: the client sends one after it."""
    headers = b"Content-Length: 4\r\nExpect: 100-continue\r\n"
    with service.connect() as client:
        client.sendall(request(b"read", "POST", headers))

        assert b"HTTP/1.1 100 Continue\r\n\r\n" == until(client, b"\r\n\r\n")

        client.sendall(b"body")

        assert SMALL == until(client, b"hello")


def test_what_is_no_request_is_refused(service):
    """The server writes the refusal itself, head and sentence, and closes."""
    got = service.ask(b"what?\r\n\r\n")

    assert got.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert got.endswith(b"\r\n\r\nInvalid HTTP request received.")


def test_a_client_that_reads_nothing_holds_up_the_application(service):
    """It does not fill the memory: the application waits until the client reads."""
    with service.connect() as client:
        client.sendall(request(b"large", headers=LAST))
        before = -1
        while before < service.given or not before:
            before = service.given
            service.go.wait(0.2)

        assert before < 1000
        assert 1000 * len(LARGE) < len(everything(client))


def test_a_client_that_hangs_up_after_the_head_does_no_harm(service, caplog):
    """Nothing is logged, and others are served."""
    with service.connect() as client:
        client.sendall(request(b"late"))
        until(client, b"\r\n\r\n")
    service.go.set()

    assert service.ask(request(b"small", headers=LAST)).endswith(b"hello")
    assert [] == [each for each in caplog.records if each.levelname == "ERROR"]


def test_an_answer_that_was_begun_is_finished_when_the_service_ends(service):
    """The head is out, the body follows, and the connection is closed."""
    with service.connect() as client, contextlib.ExitStack() as idle:
        other = idle.enter_context(service.connect())
        other.sendall(request(b"small"))
        until(other, b"hello")
        client.sendall(request(b"late"))
        until(client, b"\r\n\r\n")
        service.end()

        assert b"" == everything(other)

        service.go.set()

        assert b"hello" == everything(client)
