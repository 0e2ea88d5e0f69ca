"""No client holds a place or memory longer than it needs, whatever it sends."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading

import httpx2
import pytest
import uvicorn

from app.doors.serving import http1
from app.doors.serving.http1 import Http1Protocol
from tests.support.memory_transport import Memory, Server, by_hand, passes, settle

WHOLE = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
SHORTEST = b"GET / HTTP/1.1\r\nHost:\r\n\r\n"
HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"
LENGTH = HEAD + b"Content-Length: %d\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


async def answer(send, body=b"hello", status=200, headers=()):
    """Answer a request."""
    length = (b"content-length", b"%d" % len(body))
    start = {"type": "http.response.start", "status": status}
    await send({**start, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def hello(scope, receive, send):
    """Answer every request."""
    assert "http" == scope["type"]
    await answer(send)


async def length(scope, receive, send):
    """Read a body, and answer with its length."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message["more_body"]
    await answer(send, b"%d" % size)


class Held:
    """An application that answers when a test says so."""

    def __init__(self):
        self.go = asyncio.Event()
        self.asked = 0

    async def __call__(self, scope, _receive, send):
        """Count the request, and wait, or refuse it."""
        if http1.CROWDED in scope["state"]:
            await answer(send, status=503)
            return
        self.asked += 1
        await self.go.wait()
        await answer(send)


def answers(transport):
    """Return how many answers were sent."""
    return transport.sent.count(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost:",
        b"\r\n",
        WHOLE + WHOLE[:9],
    ],
    ids=["nothing", "half a head", "a blank line", "a second head"],
)
def test_a_head_has_to_end_in_time(sent):
    """The time counts from its beginning, or from when nothing else was to come."""

    async def gone():
        client = Server(hello).connect()
        if sent:
            client.protocol.data_received(sent)
        await settle()
        early = client.gone
        await passes(http1.HEADER_SECONDS)
        return early, client.gone

    assert (False, True) == by_hand(gone())


@pytest.mark.parametrize("sent", [WHOLE, WHOLE + b"\r\n"], ids=["", "a line after"])
def test_a_proxy_may_keep_an_idle_connection(sent):
    """Google Cloud does for ten minutes; a request that crosses the close is lost."""

    async def kept():
        client = Server(hello).connect()
        for _ in range(2):
            client.protocol.data_received(sent)
            await settle()
            await passes(600)
        early = client.gone
        await passes(http1.IDLE_SECONDS - 600)
        return answers(client), early, client.gone

    assert (2, False, True) == by_hand(kept())


class Starved(Http1Protocol):
    """A connection of a process that has no memory for a body."""

    def on_body(self, *_):
        """Find none."""
        raise MemoryError


def test_a_request_without_memory_for_it_is_cut_off_and_not_refused():
    """A client does not send again what is said to be malformed."""

    async def cut_off():
        server = Server(hello)
        client = Memory(Starved(server.config, server.state, {}))
        client.protocol.data_received(LENGTH % 3 + b"abc")
        await settle()
        return client.sent, client.lost

    assert (b"", True) == by_hand(cut_off())


@pytest.mark.parametrize("drop", [b"X: y\r\n", b"X"], ids=["lines", "bytes"])
def test_a_head_in_drops_has_no_more_time_than_another(drop):
    """It counts from the first byte, not from the last."""

    async def drops():
        client = Server(hello).connect()
        client.protocol.data_received(WHOLE[:-2])
        for n in range(100):
            await passes(http1.HEADER_SECONDS / 10)
            if client.gone:
                return n
            client.protocol.data_received(drop)
        return None

    assert 9 == by_hand(drops())


def test_blank_lines_between_requests_do_not_hold_a_connection():
    """Each of them ends the wait of the server for a next request, and no more."""

    async def drops():
        client = Server(hello).connect()
        client.protocol.data_received(WHOLE)
        for n in range(100):
            await passes(1)
            if client.gone:
                return n
            client.protocol.data_received(b"\r\n")
        return None

    assert by_hand(drops()) <= http1.HEADER_SECONDS + 1


@pytest.mark.parametrize("head", [LENGTH % 9, CHUNKED])
def test_a_body_has_to_end_in_time(head):
    """Also where the application does not look at the time."""

    async def gone():
        client = Server(length).connect()
        client.protocol.data_received(head)
        early = []
        for _ in range(10):
            await passes(http1.BODY_SECONDS / 10)
            early.append(client.gone)
        await passes(http1.BODY_SPARE_SECONDS)
        return any(early), client.gone

    assert (False, True) == by_hand(gone())


@pytest.mark.parametrize("status", [404, 413, 415])
@pytest.mark.parametrize("head", [LENGTH % 9, CHUNKED])
def test_an_answer_before_the_end_of_the_body_is_the_last(status, head):
    """It says so; the rest is discarded for a while; then the place is free."""

    async def refuse(scope, receive, send):
        await answer(send, status=status)

    async def steps():
        server = Server(refuse)
        client = server.connect()
        client.protocol.data_received(head)
        await settle()
        refused = client.sent
        for _ in range(100):
            if not server.state.connections:
                break
            client.protocol.data_received(b"1")
            await passes(1)
        return refused, client, server

    refused, client, server = by_hand(steps())

    assert refused.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nconnection: close\r\n" in refused
    assert refused == client.sent
    assert set() == server.state.connections
    assert set() == server.state.tasks


def test_the_rest_of_a_body_is_discarded_up_to_a_number_of_bytes(monkeypatch):
    """It is not kept; and a client that sends for ever is cut off."""
    monkeypatch.setattr(http1, "LINGER_BYTES", 1000)

    async def sent():
        client = Server(hello).connect()
        client.protocol.data_received(LENGTH % 1_000_000)
        await settle()
        for n in range(100):
            if client.lost:
                return n
            client.protocol.data_received(b"x" * 100)
            await settle()
        return None

    assert 11 == by_hand(sent())


def test_a_client_that_hangs_up_ends_the_wait_for_the_rest_of_its_body():
    """The place is free as soon as the answer was read."""

    async def kept():
        client = Server(hello).connect()
        client.protocol.data_received(LENGTH % 9)
        await settle()
        return client.protocol.eof_received()

    assert not by_hand(kept())


@pytest.mark.parametrize(
    "pieces",
    [
        [LENGTH % 4 + b"body"],
        [LENGTH % 4, b"body"],
        [CHUNKED, b"4\r\nbody\r\n", b"0\r\n\r\n"],
        [HEAD[:9], HEAD[9:] + b"Content-Length: 4\r\n\r\nbo", b"dy"],
        [LENGTH % 4000 + b"x" * 4000],
        [CHUNKED + b"fa0\r\n" + b"x" * 4000 + b"\r\n0\r\n\r\n"],
    ],
)
def test_a_request_whose_body_was_read_is_not_the_last(pieces):
    """However it comes; the next one is answered on the same connection."""

    async def sent():
        client = Server(length).connect()
        for _ in range(3):
            for piece in pieces:
                client.protocol.data_received(piece)
                await settle()
        return client, client.gone

    client, gone = by_hand(sent())

    assert 3 == answers(client)
    assert b"connection: close" not in client.sent
    assert not gone


@pytest.mark.parametrize("request_", [WHOLE, LENGTH % 4000 + b"x" * 4000])
def test_requests_that_are_sent_ahead_are_answered_in_order(request_):
    """All of them, though only a few are queued at a time."""

    async def sent():
        client = Server(length).connect()
        client.protocol.data_received(request_ * 1000)
        for _ in range(100):
            await settle()
        return client

    client = by_hand(sent())

    assert 1000 == answers(client)
    assert not client.paused


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
def test_requests_of_a_client_that_hung_up_end_quietly(caplog, error):
    """The first of them is still worked on, and has nobody to answer."""

    async def ended():
        app = Held()
        server = Server(app)
        client = server.connect()
        client.protocol.data_received(WHOLE * 3)
        await settle()
        client.abort(error)
        await settle()
        app.go.set()
        await settle()
        return client.sent, server.state.tasks

    assert (b"", set()) == by_hand(ended())
    # Not the line of uvicorn on each request, which other tests may have switched on.
    assert [] == [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_few_requests_are_queued():
    """However many are sent; nothing more is read until they are answered."""

    async def queued():
        app = Held()
        client = Server(app).connect()
        client.protocol.data_received(SHORTEST * 14_000)
        await settle()
        queue = len(client.protocol.pipeline)
        paused = client.paused
        app.go.set()
        for _ in range(2000):
            await settle()
        return queue, paused, app.asked, client.paused

    queue, paused, asked, after = by_hand(queued())

    assert queue <= http1.MAX_QUEUED + http1.STEP_BYTES // len(SHORTEST)
    assert paused
    assert 14_000 == asked
    assert not after


def test_no_answers_are_piled_up_for_a_client_that_does_not_read():
    """One beyond what the transport takes; then the next waits, unparsed."""

    async def piled():
        async def large(scope, receive, send):
            await answer(send, b"x" * 10_000)

        client = Server(large).connect(reads=False)
        client.protocol.data_received(SHORTEST * 14_000)
        for _ in range(100):
            await settle()
        return len(client.sent), len(client.protocol.pipeline)

    sent, queue = by_hand(piled())

    assert sent < 100_000
    assert queue <= http1.MAX_QUEUED + http1.STEP_BYTES // len(SHORTEST)


@pytest.mark.parametrize(
    ("size", "waits"),
    [
        (10, [http1.IDLE_SECONDS, http1.ANSWER_SECONDS]),
        (100_000, [http1.ANSWER_SECONDS]),
    ],
    ids=["few bytes", "many bytes"],
)
def test_a_client_that_does_not_read_its_answer_is_cut_off(size, waits):
    """If the answer fits into the buffer of the transport, it may be idle first."""

    async def held():
        async def large(scope, receive, send):
            await answer(send, b"x" * size)

        server = Server(large)
        client = server.connect(reads=False)
        client.protocol.data_received(SHORTEST * 3)
        await settle()
        for wait in waits:
            await passes(wait - 1)
            early = client.lost
            await passes(1)
        return early, client.lost, server.state

    early, late, state = by_hand(held())

    assert (False, True) == (early, late)
    assert set() == state.connections
    assert set() == state.tasks


def test_a_client_that_reads_now_and_then_gets_its_answers():
    """The time counts from the last that it took."""

    async def read():
        async def large(scope, receive, send):
            await answer(send, b"x" * 100_000)

        client = Server(large).connect(reads=False)
        client.protocol.data_received(SHORTEST * 5)
        for _ in range(5):
            await passes(http1.ANSWER_SECONDS * 0.9)
            client.read_all()
            await settle()
        return answers(client), client.lost

    answered, lost = by_hand(read())

    assert 5 == answered
    assert not lost


FULL = 8


def test_whoever_waits_longest_makes_room():
    """Silent, in the midst of a head, of a body, or between requests alike."""

    async def served():
        server = Server(length, places=FULL)
        idle = [server.connect() for _ in range(FULL)]
        for n, sent in enumerate([b"", WHOLE[:9], LENGTH % 9, WHOLE]):
            await passes(0.1)
            if sent:
                idle[n].protocol.data_received(sent)
        await passes(0.1)
        answered = []
        for _ in range(2 * FULL):
            client = server.connect()
            client.protocol.data_received(WHOLE)
            await passes(0.1)
            answered.append(answers(client))
            client.protocol.data_received(WHOLE[:9])
        return answered, [each.lost for each in idle], len(server.state.connections)

    answered, lost, held = by_hand(served())

    assert [1] * 2 * FULL == answered
    assert [True] * FULL == lost
    assert FULL == held


def test_the_client_with_most_connections_makes_room():
    """Others keep theirs, though they have waited longer."""

    async def served():
        server = Server(hello, places=FULL)
        early = [server.connect("192.0.2.2"), server.connect("2001:db8:1:1::1")]
        await passes(0.1)
        many = [server.connect(f"2001:db8:7:7::{n}") for n in range(100)]
        return [each.lost for each in early], sum(each.lost for each in many)

    assert ([False, False], 100 - FULL + 2) == by_hand(served())


def test_work_that_was_begun_keeps_its_place():
    """Where all places work, the next request is refused, and the work goes on."""

    async def served():
        app = Held()
        server = Server(app, places=FULL)
        works = [server.connect() for _ in range(FULL)]
        for client in works:
            client.protocol.data_received(WHOLE)
        await settle()
        late = server.connect()
        late.protocol.data_received(WHOLE)
        await settle()
        app.go.set()
        await settle()
        return [answers(each) for each in works], late.sent, late.gone

    worked, late, gone = by_hand(served())

    assert [1] * FULL == worked
    assert late.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert gone


def test_requests_whose_clients_are_gone_count_as_long_as_they_are_worked_on():
    """Hanging up and reconnecting cannot create more work than there are places."""

    async def served():
        app = Held()
        server = Server(app, places=FULL)
        for _ in range(10 * FULL):
            client = server.connect()
            client.protocol.data_received(WHOLE)
            await settle()
            client.abort()
            await settle()
        app.go.set()
        await settle()
        return app.asked

    assert FULL == by_hand(served())


def test_what_is_no_request_is_refused_and_the_rest_discarded():
    """So that the client reads why."""

    async def refused():
        client = Server(hello).connect()
        client.protocol.data_received(b"what?\r\n\r\n")
        client.protocol.data_received(b"more\r\n")
        await settle()
        early = client.lost
        await passes(http1.LINGER_SECONDS)
        return client.sent, early, client.lost

    sent, early, late = by_hand(refused())

    assert sent.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert (False, True) == (early, late)


def test_nothing_is_written_behind_a_refusal(caplog):
    """The work for the request before ends without an answer, and without an error."""

    async def refused():
        app = Held()
        client = Server(app).connect()
        client.protocol.data_received(WHOLE + b"what?\r\n\r\n")
        await settle()
        app.go.set()
        await settle()
        return client.sent

    sent = by_hand(refused())

    assert sent.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert 1 == sent.count(b"HTTP/1.1")
    assert [] == [each for each in caplog.records if each.levelname == "ERROR"]


def test_a_service_that_ends_answers_what_was_begun():
    """And no more on that connection, also where the body comes afterwards."""

    async def ended():
        client = Server(length).connect()
        client.protocol.data_received(LENGTH % 4)
        await settle()
        client.protocol.shutdown()
        client.protocol.data_received(b"body" + WHOLE)
        await settle()
        return client, client.gone

    client, gone = by_hand(ended())

    assert 1 == answers(client)
    assert b"\r\nconnection: close\r\n" in client.sent
    assert gone


UPGRADE = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
# Behind a parser that took the offer for accepted, a body is the next request.
INNER = b"GET /inner HTTP/1.1\r\nX: " + b"x" * http1.STEP_BYTES + b"\r\n\r\n"


@pytest.mark.parametrize("cut", [1, 40, 100_000], ids=["bytes", "pieces", "whole"])
@pytest.mark.parametrize(
    ("request_", "size"),
    [
        (WHOLE[:-2] + UPGRADE + b"\r\n", 0),
        (
            HEAD + UPGRADE + b"Content-Length: %d\r\n\r\n" % len(INNER) + INNER,
            len(INNER),
        ),
        (
            HEAD
            + UPGRADE
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER),
            len(INNER),
        ),
    ],
    ids=["no body", "a body", "chunks"],
)
def test_an_upgrade_is_not_followed(request_, size, cut):
    """The request is answered as any other, with its body, and so is the next."""

    async def sent():
        client = Server(length).connect()
        both = request_ + LENGTH % 4 + b"next"
        for start in range(0, len(both), cut):
            client.protocol.data_received(both[start : start + cut])
            await settle()
        await settle()
        return client.sent, client.gone

    sent, gone = by_hand(sent())

    assert [b"%d" % size, b"4"] == [
        each.rpartition(b"\r\n\r\n")[2] for each in sent.split(b"HTTP/1.1 200 OK")[1:]
    ]
    assert not gone


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"gzip,chunked", b"x, chunked"])
def test_a_body_that_is_more_than_chunked_is_refused(coding):
    """A message that nobody has unpacked gets no verdict."""

    async def sent():
        client = Server(hello).connect()
        head = HEAD + b"Transfer-Encoding: %b\r\n\r\n" % coding
        client.protocol.data_received(head + b"4\r\nabcd\r\n0\r\n\r\n" + WHOLE)
        await settle()
        return client.sent

    sent = by_hand(sent())

    assert sent.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert 1 == sent.count(b"HTTP/1.1")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"1.1\r\n", 400),
        (b"1.1\r\nHost: a\r\nhost: a\r\n", 400),
        (b"1.0\r\nHost: a\r\nHost: b\r\n", 400),
        (b"1.1\r\nHost:\r\n", 200),
        (b"1.0\r\n", 200),
        (b"1.0\r\nHost: a\r\n", 200),
    ],
)
def test_a_request_names_one_host(head, status):
    """A proxy and this service must not go by different ones (RFC 9112 section 3.2)."""

    async def sent():
        client = Server(hello).connect()
        client.protocol.data_received(b"GET / HTTP/%b\r\n" % head)
        await settle()
        return client.sent

    assert by_hand(sent()).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("target", [b"a:80", b"/", b"*", b"http://a/"])
def test_a_tunnel_is_refused(target):
    """CONNECT changes the protocol without an offer, whatever its target."""

    async def sent():
        client = Server(hello).connect()
        head = b"CONNECT %b HTTP/1.1\r\nHost: a\r\n" % target
        client.protocol.data_received(head + UPGRADE + b"\r\n" + WHOLE)
        await settle()
        return client.sent

    sent = by_hand(sent())

    assert sent.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert 1 == sent.count(b"HTTP/1.1")


def test_a_field_behind_the_body_is_no_header():
    """A proxy that passes trailers on has checked and written the headers alone."""
    asked = []

    async def app(scope, receive, send):
        asked.append([name for name, _ in scope["headers"]])
        await length(scope, receive, send)

    async def sent():
        client = Server(app).connect()
        client.protocol.data_received(
            CHUNKED + b"4\r\nbody\r\n0\r\nX-Forwarded-For: 127.0.0.1\r\n\r\n"
        )
        await settle()
        return answers(client)

    assert 1 == by_hand(sent())
    assert [[b"host", b"transfer-encoding"]] == asked


@pytest.fixture
def port():
    """Port of a server."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            hello, http=Http1Protocol, ws="none", lifespan="off", log_level="error"
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()
    listener.close()


def test_a_client_with_a_request_is_served_on_one_connection(port):
    """Requests one after the other are answered."""
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        answers = [client.get("/").text for _ in range(3)]

    assert ["hello"] * 3 == answers


def test_a_client_that_sends_a_large_body_first_reads_why_it_was_refused(port):
    """Over a real socket, which would be reset if it were closed at once."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(LENGTH % 10_000_000 + b"x" * 10_000_000)
        heard = b"".join(iter(lambda: client.recv(65536), b""))

    assert heard.endswith(b"\r\n\r\nhello")


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
        CHUNKED + b"1\r\nx\r\n0\r\n" + b"X: y\r\n" * 500_000,
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


@pytest.mark.parametrize("size", [512, 4096, 100_000])
def test_a_large_body_in_chunks_is_no_head(size):
    """What is body has limits of its own; sizes of chunks are few bytes."""

    async def sent():
        client = Server(length).connect()
        chunk = b"%x\r\n" % size + b"x" * size + b"\r\n"
        client.protocol.data_received(CHUNKED)
        for _ in range(4_000_000 // size):
            client.protocol.data_received(chunk)
            await asyncio.sleep(0)
        client.protocol.data_received(b"0\r\n\r\n")
        await settle()
        return client.sent

    assert by_hand(sent()).endswith(b"\r\n\r\n%d" % (4_000_000 // size * size))


def test_a_client_that_sends_no_more_is_answered():
    """As netcat does, which closes its half of the connection behind a request."""
    app = Held()

    async def sent():
        client = Server(app).connect()
        client.protocol.data_received(WHOLE + WHOLE)
        await settle()
        kept = client.protocol.eof_received()
        app.go.set()
        await settle()
        return kept, answers(client), client.gone

    assert (True, 2, True) == by_hand(sent())


def test_work_for_a_client_that_is_gone_ends():
    """One that has closed all of its connection looks the same: not for long."""
    app = Held()

    async def sent():
        client = Server(app).connect()
        client.protocol.data_received(WHOLE)
        await settle()
        client.protocol.eof_received()
        await passes(http1.HALF_CLOSED_SECONDS - 0.1)
        before = client.lost
        await passes(0.2)
        return before, client.lost

    assert (False, True) == by_hand(sent())


@pytest.mark.parametrize("sent", [b"", WHOLE[:9], LENGTH % 9 + b"bo", WHOLE])
def test_a_client_that_sends_no_more_and_waits_for_nothing_is_let_go(sent):
    """Half of a request will never be whole."""

    async def kept():
        client = Server(hello).connect()
        client.protocol.data_received(sent)
        await settle()
        return client.protocol.eof_received()

    assert not by_hand(kept())
