"""What every door has: places, patience, backpressure, and a clean end."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop

from app.doors.serving import listener as module
from app.doors.serving.listener import Door, Listener
from app.doors.serving.sockets import Inet, Unix, listen


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request):
    """Runs a coroutine; the service has uvloop, the command line asyncio."""
    return request.param


async def echo(connection):
    """Send back what comes, and hold nothing between two lines."""
    while data := await connection.read_between():
        while not data.endswith(b"\n"):
            data += await connection.read()
        await connection.write(data)


@asynccontextmanager
async def opened(serve=echo, address=None, **limits):
    """Open a door for a test, and yield a function that connects to it."""
    given = {"idle": 60.0, "total": 60.0, **limits}
    door = Door(name="echo", serve=serve, **given)
    listening = listen(address or Inet("127.0.0.1", 0), setting="X", shared=False)
    listener = Listener(door, listening)
    where = listening.socket.getsockname()
    listener.start()

    async def connect():
        if isinstance(where, str):
            return await asyncio.open_unix_connection(where)
        return await asyncio.open_connection(*where)

    try:
        yield connect, listener
    finally:
        await listener.stop()


async def hung_up(*writers):
    """Close the clients' ends."""
    for writer in writers:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("unix", [False, True])
def test_a_door_serves_on_ports_and_unix_sockets(run, unix, tmp_path):
    """What the door says reaches the client, over either kind of socket."""

    async def heard():
        address = Unix(f"{tmp_path}/door") if unix else None
        async with opened(address=address) as (connect, _):
            reader, writer = await connect()
            writer.write(b"hello\n")
            line = await reader.readline()
            await hung_up(writer)
            return line

    assert b"hello\n" == run(heard())


def test_more_clients_than_places_wait_for_one(run):
    """Further clients are served when a place becomes free."""

    async def heard():
        async with opened(connections=2) as (connect, listener):
            clients = [await connect() for _ in range(3)]
            for _, writer in clients:
                writer.write(b"hello\n")
            served = [await reader.readline() for reader, _ in clients[:2]]
            held = len(listener._held)  # noqa: SLF001  the number of places in use
            await hung_up(clients[0][1])
            served.append(await clients[2][0].readline())
            await hung_up(clients[1][1], clients[2][1])
            return held, served

    assert (2, [b"hello\n"] * 3) == run(heard())


async def connected(where, host):
    """Connect from an address of the loopback network."""
    return await asyncio.open_connection(*where, local_addr=(host, 0))


def test_a_client_that_waits_makes_room_for_another(run, monkeypatch):
    """Of two that hold all places, the one with more of them gives one up."""
    monkeypatch.setattr(module, "SPARED_SECONDS", 0.0)

    async def heard():
        async with opened(connections=4) as (_, listener):
            where = listener._listening.socket.getsockname()  # noqa: SLF001
            few = await connected(where, "127.0.0.2")
            many = [await connected(where, "127.0.0.3") for _ in range(3)]
            for reader, writer in (few, *many):
                writer.write(b"hello\n")
                await reader.readline()
            late, writer = await connected(where, "127.0.0.4")
            writer.write(b"late\n")
            answer = await late.readline()
            # The one that has waited longest.
            gone = await many[0][0].read()
            kept = []
            for reader, each in (few, *many[1:]):
                each.write(b"again\n")
                kept.append(await reader.readline())
            await hung_up(few[1], writer, *(each for _, each in many))
            return answer, gone, kept

    assert (b"late\n", b"", [b"again\n"] * 3) == run(heard())


def test_a_client_that_has_waited_long_makes_room_for_its_own(run, monkeypatch):
    """A client with one address for everybody is not kept waiting for ever."""
    monkeypatch.setattr(module, "SPARED_AMONG_OWN_SECONDS", 0.0)

    async def heard():
        async with opened(connections=2) as (connect, _):
            clients = [await connect() for _ in range(5)]
            reader, writer = clients[-1]
            writer.write(b"late\n")
            answer = await reader.readline()
            await hung_up(*(each for _, each in clients))
            return answer

    assert b"late\n" == run(heard())


def test_a_request_that_makes_room_is_not_taken_for_a_whole_one(run, monkeypatch):
    """Half of a message that ends with its connection is not taught."""
    monkeypatch.setattr(module, "SPARED_AMONG_OWN_SECONDS", 0.0)

    async def heard():
        wholes = []

        async def take(connection):
            whole = b""
            while data := await connection.read():
                whole += data
                await connection.write(b"more\n")
            wholes.append(whole)

        async with opened(take, connections=1) as (connect, _):
            reader, half = await connect()
            half.write(b"half")
            await reader.readline()
            other, writer = await connect()
            await reader.read()
            writer.write(b"whole")
            await other.readline()
            writer.write_eof()
            await other.read()
            await hung_up(half, writer)
        return wholes

    assert [b"whole"] == run(heard())


def test_a_client_that_is_worked_for_keeps_its_place(run, monkeypatch):
    """New clients wait until its request is done."""
    monkeypatch.setattr(module, "LOOK_AGAIN", 0.01)

    async def heard():
        begun, go = asyncio.Event(), asyncio.Event()

        async def work(connection):
            line = await connection.read()
            begun.set()
            await go.wait()
            await connection.write(line)

        async with opened(work, connections=1) as (_, listener):
            where = listener._listening.socket.getsockname()  # noqa: SLF001
            clients = [await connected(where, "127.0.0.2")]
            clients[0][1].write(b"hello\n")
            await begun.wait()
            monkeypatch.setattr(module, "SPARED_SECONDS", 0.0)
            clients.append(await connected(where, "127.0.0.3"))
            clients[1][1].write(b"hello\n")
            await asyncio.sleep(3 * module.LOOK_AGAIN)
            go.set()
            lines = [await reader.read() for reader, _ in clients]
            await hung_up(*(writer for _, writer in clients))
            return lines

    assert [b"hello\n"] * 2 == run(heard())


def test_a_peer_that_is_gone_is_known_by_its_address(run):
    """It does not count as a local process or as a defect of the service."""

    async def heard():
        named = asyncio.Queue()

        async def name(connection):
            while await connection.read():
                pass
            await asyncio.sleep(0.01)
            named.put_nowait((connection.host, connection.peer))

        async with opened(name) as (connect, _):
            _reader, writer = await connect()
            port = writer.get_extra_info("sockname")[1]
            writer.transport.abort()
            return port, await named.get()

    port, named = run(heard())

    assert ("127.0.0.1", f"127.0.0.1:{port}") == named


def test_two_hundred_clients_are_served_at_once(run):
    """Each gets its own answer."""

    async def heard():
        async with opened() as (connect, _):
            clients = [await connect() for _ in range(200)]
            for n, (_, writer) in enumerate(clients):
                writer.write(b"%d\n" % n)
            lines = [int(await reader.readline()) for reader, _ in clients]
            await hung_up(*(writer for _, writer in clients))
            return lines

    assert list(range(200)) == run(heard())


@pytest.mark.parametrize("sent", [b"", b"half a line"])
def test_a_silent_client_is_shut_out(run, sent):
    """Whether it sends nothing or half a request, it costs one connection."""

    async def heard():
        async with opened(idle=0.05) as (connect, _):
            reader, writer = await connect()
            writer.write(sent)
            rest = await reader.read()
            await hung_up(writer)
            return rest

    assert b"" == run(heard())


def test_a_client_that_drips_is_shut_out_in_the_end(run):
    """A byte now and then does not hold a connection for ever."""

    async def drip(writer):
        # Not until a write fails: uvloop and asyncio fail it in different ways.
        while not writer.is_closing():
            writer.write(b"x")
            with suppress(ConnectionError):
                await writer.drain()
            await asyncio.sleep(0.01)

    async def heard():
        async with opened(total=0.2) as (connect, _):
            _reader, writer = await connect()
            async with asyncio.timeout(30):
                await drip(writer)
            writer.transport.abort()

    run(heard())


def test_a_client_has_one_turn_for_each_answer(run):
    """Others are served between the answers to what was sent at once."""
    order = []

    async def letters(connection):
        while data := await connection.read():
            for n in range(len(data)):
                order.append(data[n : n + 1])
                await connection.write(data[n : n + 1])

    async def heard():
        async with opened(letters) as (connect, _):
            clients = [await connect() for _ in range(2)]
            # Both are in the hands of the server before either is answered.
            for (_, writer), letter in zip(clients, (b"a", b"b"), strict=True):
                writer.write(letter * 1000)
            for reader, writer in clients:
                await reader.readexactly(1000)
                await hung_up(writer)

    run(heard())

    assert order.index(b"b") < 999


def test_a_client_that_takes_nothing_is_shut_out(run):
    """Answers that nobody reads are not piled up in memory."""
    written = []
    ended = []

    async def flood(connection):
        try:
            while True:
                await connection.write(b"x" * 1_000_000)
                written.append(1)
        finally:
            ended[0].set()

    async def held():
        ended.append(asyncio.Event())
        async with opened(flood, idle=0.2) as (connect, _):
            _reader, writer = await connect()
            writer.transport.pause_reading()
            await ended[0].wait()
            writer.transport.abort()

    run(held())

    assert len(written) < 50


def test_a_connection_is_freed_with_its_end(run):
    """What it holds of a message does not wait for Python's collector, which is late."""

    async def left():
        served = []

        async def serve(connection):
            served.append(weakref.ref(connection))
            await echo(connection)

        async with opened(serve) as (connect, _):
            reader, writer = await connect()
            writer.write(b"hello\n")
            await reader.readline()
            await hung_up(writer)
        return served[0]()

    gc.collect()
    gc.disable()
    try:
        assert run(left()) is None
    finally:
        gc.enable()


def test_what_fails_costs_one_connection(run, caplog):
    """A defect is logged with its traceback; the next client is served."""

    async def fragile(connection):
        if await connection.read() == b"bad\n":
            raise ZeroDivisionError
        await connection.write(b"good\n")

    async def heard():
        async with opened(fragile) as (connect, _):
            answers = []
            for line in (b"bad\n", b"fine\n"):
                reader, writer = await connect()
                writer.write(line)
                answers.append(await reader.read())
                await hung_up(writer)
            return answers

    assert [b"", b"good\n"] == run(heard())
    assert "ZeroDivisionError" in caplog.text


def test_closing_finishes_what_was_begun(run):
    """Half a line may still be ended and is answered; who waits idly is let go."""

    async def heard():
        async with opened() as (connect, listener):
            idle, idle_writer = await connect()
            busy, busy_writer = await connect()
            for writer in (idle_writer, busy_writer):
                writer.write(b"first\n")
            assert [b"first\n"] * 2 == [await r.readline() for r in (idle, busy)]
            busy_writer.write(b"sec, ")
            await asyncio.sleep(0.05)
            stopping = asyncio.create_task(listener.stop())
            ended = await idle.read()
            busy_writer.write(b"third\n")
            answer = await busy.read()
            await stopping
            with pytest.raises(ConnectionError):
                await connect()
            await hung_up(idle_writer, busy_writer)
            return ended, answer

    assert (b"", b"sec, third\n") == run(heard())


def test_closing_does_not_wait_for_ever(run, caplog, monkeypatch):
    """What does not end within the grace is cut off, and the log says so."""
    monkeypatch.setattr(module, "GRACE", 0.05)

    async def heard():
        async with opened() as (connect, listener):
            reader, writer = await connect()
            writer.write(b"never ended")
            await asyncio.sleep(0.05)
            await listener.stop()
            rest = await reader.read()
            await hung_up(writer)
            return rest

    with caplog.at_level(logging.WARNING):
        assert b"" == run(heard())
    assert "1 connections were cut off" in caplog.text
