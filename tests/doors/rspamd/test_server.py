"""The rspamd door: what its clients send and read, and whatever else is sent."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.doors.rspamd import server
from app.doors.rspamd.server import Rspamd
from app.doors.serving import request as intake
from app.doors.serving.http1 import WebListener
from app.doors.serving.sockets import listen
from app.errors import PostbayesError
from app.mail.limits import MAX_BYTES
from tests.support import transcript
from tests.support.rspamd import (
    LOOPBACK,
    SPAM,
    ask,
    comparable,
    exchange,
    expected,
    opened,
    request,
)
from tests.support.standin import Application

TRANSCRIPTS = transcript.paths("rspamd")


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_conversation_is_as_it_is_written(path):
    """Real bytes on a real socket get the answer in the file."""
    sent, answer = transcript.load(path)

    async def run():
        async with opened() as connect:
            return await exchange(connect, [sent])

    assert expected(answer) == comparable(*asyncio.run(run()))


# What is refused by its headers is answered, and hung up on, before its body.
READ = [p for p in TRANSCRIPTS if transcript.load(p)[1].startswith(b"20")]


@pytest.mark.parametrize("path", READ, ids=lambda path: path.stem)
def test_a_conversation_is_the_same_byte_by_byte(path):
    """The slowest of clients gets the same answer."""
    sent, answer = transcript.load(path)

    async def run():
        async with opened() as connect:
            return await exchange(connect, [sent[n : n + 1] for n in range(len(sent))])

    assert expected(answer) == comparable(*asyncio.run(run()))


@pytest.mark.parametrize("name", ["check-spam", "learn-spam"])
def test_a_conversation_is_the_same_under_every_cut(name):
    """However the network cuts a request, it is answered alike."""
    (path,) = (path for path in TRANSCRIPTS if path.stem == name)
    sent, answer = transcript.load(path)
    door = Application()

    async def run():
        found = []
        async with opened(door) as connect:
            for cut in range(len(sent)):
                door.feedback.learned.clear()
                pieces = [sent[:cut], sent[cut:]]
                found.append(comparable(*await exchange(connect, pieces)))
        return found

    assert [expected(answer)] * len(sent) == asyncio.run(run())


def test_while_the_database_is_away_scanning_goes_on():
    """Learning and readiness are 503, and nothing is learned."""
    app = Application()
    app.feedback.away = True
    told = ask(
        request("/checkv2"),
        request("/learnspam"),
        request("/ready", method="GET", message=b""),
        request("/healthy", method="GET", message=b""),
        application=app,
    )

    assert [200, 503, 503, 200] == [status for status, _ in told]
    assert {"error"} == set(told[1][1])


def test_a_message_over_the_limit_is_refused():
    """By the announced length, or as soon as it exceeds the limit."""
    app = Application(max_request_bytes=1024)
    chunked = request("/checkv2", "Transfer-Encoding: chunked", message=b"").replace(
        b"Content-Length: 0\r\n", b""
    )
    told = ask(
        request("/checkv2", message=b"x" * 1025),
        chunked + b"800\r\n" + b"x" * 2048 + b"\r\n0\r\n\r\n",
        application=app,
    )

    assert [413, 413] == [status for status, _ in told]


def test_a_large_message_is_scored_by_its_beginning():
    """Only the part that is parsed is kept in memory."""
    ((status, answer),) = ask(request("/checkv2", message=SPAM + bytes(MAX_BYTES)))

    assert (200, "add header") == (status, answer["action"])


def test_white_space_is_no_message():
    """It passes as an empty message does, and teaches nothing."""
    (_, scanned), (learned, _) = ask(
        request("/checkv2", message=b" \r\n"),
        request("/learnspam", message=b" \r\n"),
    )

    assert (True, 400) == (scanned["is_skipped"], learned)


def test_every_error_has_a_status():
    """An error that is added to the tree is answered somehow."""
    assert PostbayesError in server.STATUS


@settings(max_examples=15)
@given(
    st.lists(
        st.binary(min_size=1, max_size=400)
        | st.tuples(st.integers(0, 150), st.binary(max_size=6)).map(
            lambda change: (
                request("/checkv2")[: change[0]]
                + change[1]
                + request("/checkv2")[change[0] + 3 :]
            )
        ),
        max_size=4,
    )
)
def test_garbage_on_the_wire_leaves_the_door_open(garbage):
    """Whatever somebody sends, and hangs up, the next client is served."""

    async def throw(connect, sent):
        _, writer = await connect()
        writer.write(sent)
        writer.write_eof()
        await writer.drain()
        writer.transport.abort()

    async def run():
        async with opened() as connect:
            for sent in garbage:
                await throw(connect, sent)
            return await exchange(connect, [request("/checkv2")])

    assert 200 == asyncio.run(run())[0]


def test_a_body_that_drips_costs_one_connection(monkeypatch):
    """It is told that it took too long; meanwhile others are served."""
    monkeypatch.setattr(intake, "BODY_SECONDS", 0.1)

    async def run():
        async with opened() as connect:
            reader, writer = await connect()
            writer.write(request("/checkv2")[:-5])
            other = await exchange(connect, [request("/checkv2")])
            told = await reader.read()
            writer.close()
            await writer.wait_closed()
            return int(told.split()[1]), other[0]

    assert (408, 200) == asyncio.run(run())


def test_closing_finishes_the_request_that_was_begun():
    """Half a message may be sent to its end, and is answered."""

    async def run():
        sent = request("/checkv2")
        listening = listen(LOOPBACK, setting="X", shared=False)
        where = listening.socket.getsockname()
        listener = WebListener(Rspamd(Application()), listening)
        listener.start()
        reader, writer = await asyncio.open_connection(*where)
        writer.write(sent[:-5])
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(listener.stop())
        await asyncio.sleep(0.2)
        writer.write(sent[-5:])
        told = await reader.read()
        await stopping
        writer.close()
        await writer.wait_closed()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(*where)
        return int(told.split()[1])

    assert 200 == asyncio.run(run())


def test_a_door_that_is_closed_at_once_is_closed():
    """A service that fails at its start does not hang."""

    async def run():
        listening = listen(LOOPBACK, setting="X", shared=False)
        listener = WebListener(Rspamd(Application()), listening)
        listener.start()
        await listener.stop()
        return listening.socket.fileno()

    assert -1 == asyncio.run(run())


def test_a_client_that_is_gone_is_not_called_a_local_process(caplog):
    """Its address is not known any more; only a Unix socket has local processes."""
    app = server.Rspamd(Application())

    async def gone():
        return {"type": "http.disconnect"}

    async def refused(_):
        """Drop the answer."""

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/learnspam",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": None,
        "server": ("127.0.0.1", 11334),
    }
    for _ in range(2):
        asyncio.run(app(scope, gone, refused))

    [line] = caplog.messages
    assert line.startswith("rspamd: a client that is gone is not allowed to learn: ")
    # The client is told no more than 401, so the log has the reason and the way out.
    assert "POSTBAYES_KEYLESS_FROM" in line
