"""Large work leaves the event loop, and is dropped where its client hangs up."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
from starlette.requests import Request

from app.doors.documents.message import TextIn
from app.doors.http.body import MAX_JSON_BYTES, parse_document
from app.doors.serving import threads
from app.doors.serving.request import hung_up, take
from app.doors.serving.threads import INLINE_BYTES, computing
from app.errors import MalformedRequest, SlowRequest
from tests.doors.serving.test_listener import hung_up as close
from tests.doors.serving.test_listener import opened
from tests.support.memory_transport import Server, by_hand

LARGE = INLINE_BYTES + 1


@asynccontextmanager
async def all_threads_busy():
    """Give all threads something to do, for as long as it lasts."""
    go, begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    busy = round(threads._COMPUTING.total_tokens)  # noqa: SLF001  how many there are
    running = []

    def wait():
        running.append(1)
        if busy == len(running):
            loop.call_soon_threadsafe(begun.set)
        go.wait()

    waiting = [asyncio.create_task(computing(wait, LARGE)) for _ in range(busy)]
    await begun.wait()
    try:
        yield
    finally:
        go.set()
        await asyncio.gather(*waiting)


@pytest.mark.parametrize(("size", "here"), [(INLINE_BYTES, True), (LARGE, False)])
def test_what_is_large_is_not_done_in_the_event_loop(size, here):
    """What is small is, since handing it over takes longer."""

    async def done():
        return await computing(threading.get_ident, size)

    assert here == (threading.get_ident() == asyncio.run(done()))


def test_work_that_waits_is_dropped_with_its_http_client():
    """It is never begun, and its request is over at once."""
    asked, done = asyncio.Event(), []

    async def app(scope, receive, send):
        request = Request(scope, receive)
        body = await take(request, limit=LARGE, kept=LARGE)
        asked.set()
        with suppress(SlowRequest):
            await computing(
                partial(done.append, 1), len(body), partial(hung_up, request)
            )

    async def begun():
        async with all_threads_busy():
            server = Server(app)
            client = server.connect()
            head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % LARGE
            client.protocol.data_received(head + b"x" * LARGE)
            await asked.wait()
            client.abort()
            await asyncio.wait(server.state.tasks)
        return done

    assert [] == by_hand(begun())


@pytest.mark.parametrize("aborts", [False, True], ids=["ends", "resets"])
def test_work_that_waits_is_dropped_with_its_mail_server(aborts):
    """A milter's client has nothing more to hear once it has closed."""
    done = []

    async def begun():
        over = asyncio.Event()

        async def serve(connection):
            await connection.read()
            with suppress(SlowRequest):
                await computing(partial(done.append, 1), LARGE, connection.gone)
            over.set()

        async with all_threads_busy(), opened(serve, half_closes=False) as (connect, _):
            _reader, writer = await connect()
            writer.write(b"a message")
            await writer.drain()
            if aborts:
                writer.transport.abort()
            else:
                await close(writer)
            await over.wait()
        return done

    assert [] == asyncio.run(begun())


def test_a_client_that_only_says_that_nothing_follows_is_answered():
    """As spamc does, which closes its half of the connection behind a message."""

    async def heard():
        async def serve(connection):
            while await connection.read():
                pass
            await computing(lambda: None, LARGE, connection.gone)
            await connection.write(b"answer")

        async with opened(serve) as (connect, _):
            reader, writer = await connect()
            writer.write_eof()
            answer = await reader.read()
            await close(writer)
            return answer

    assert b"answer" == asyncio.run(heard())


@pytest.mark.parametrize("place", [0, 13, MAX_JSON_BYTES - 3])
def test_json_that_is_not_utf_8_is_refused(place):
    """Wherever its first wrong byte is, and whatever follows."""
    text = bytearray(b'{"message": "' + b"x" * (MAX_JSON_BYTES - 15) + b'"}')
    text[place:-2] = b"\xff" * (len(text) - 2 - place)

    with pytest.raises(MalformedRequest, match=f"not valid UTF-8 at byte {place}$"):
        parse_document(bytes(text), TextIn)
