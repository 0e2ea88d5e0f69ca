"""The spamd door on real sockets: many clients, slow ones, and its end."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from app.doors.serving.listener import Listener
from app.doors.serving.sockets import Inet, Unix, listen
from app.doors.spamd import server
from app.doors.spamd.server import spamd
from tests.support.spamd import request
from tests.support.standin import Application


@pytest.fixture(params=["port", "unix"])
def address(request, tmp_path):
    """Where a door listens."""
    return Inet("127.0.0.1", 0) if request.param == "port" else Unix(f"{tmp_path}/s")


class Opened:
    """The door on a real socket."""

    def __init__(self, address):
        self.listener = Listener(
            spamd(Application()), listen(address, setting="X", shared=False)
        )

    async def __aenter__(self):
        """Open it."""
        where = self.listener._listening.socket.getsockname()  # noqa: SLF001
        self.where = where
        self.listener.start()
        return self

    async def __aexit__(self, *_):
        """Close it, unless that is done."""
        if not self.listener._stopping:  # noqa: SLF001
            await self.listener.stop()

    async def connect(self):
        """Return a connection of a client."""
        if isinstance(self.where, str):
            return await asyncio.open_unix_connection(self.where)
        return await asyncio.open_connection(*self.where)

    async def ask(self, sent):
        """Return the answer to some bytes, once the door hangs up."""
        reader, writer = await self.connect()
        writer.write(sent)
        if writer.can_write_eof():
            writer.write_eof()
        told = await reader.read()
        writer.close()
        await writer.wait_closed()
        return told


CHECKED = b"SPAMD/1.1 0 EX_OK\r\nSpam: True ; 5.5 / 5.0\r\n\r\n"


def test_a_client_that_drips_costs_one_connection(address, monkeypatch):
    """It is told that it took too long; meanwhile others are served."""
    monkeypatch.setattr(server, "IDLE", 0.1)

    async def run():
        async with Opened(address) as door:
            reader, writer = await door.connect()
            writer.write(b"CHECK SPAMC/1.5\r\n")
            other = await door.ask(request("CHECK SPAMC/1.5"))
            told = await reader.read()
            writer.close()
            await writer.wait_closed()
            return told, other

    told, other = asyncio.run(run())

    assert told.startswith(b"SPAMD/1.0 79 Timeout")
    assert CHECKED == other


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_client_that_is_still_sending_reads_its_refusal(address, run):
    """More than the buffers hold is refused at its beginning."""
    length = 64 * 1024 * 1024

    async def told():
        async with Opened(address) as door:
            return await door.ask(
                b"CHECK SPAMC/1.5\r\nContent-length: %d\r\n\r\n" % length
                + bytes(length)
            )

    assert b"SPAMD/1.0 65 the message has more than" in run(told())


def test_closing_finishes_the_request_that_was_begun(address):
    """Half a request may be sent to its end, and is answered."""

    async def run():
        async with Opened(address) as door:
            sent = request("CHECK SPAMC/1.5")
            reader, writer = await door.connect()
            writer.write(sent[:40])
            await asyncio.sleep(0.05)
            stopping = asyncio.create_task(door.listener.stop())
            await asyncio.sleep(0.05)
            writer.write(sent[40:])
            told = await reader.read()
            await stopping
            writer.close()
            await writer.wait_closed()
            return told

    assert CHECKED == asyncio.run(run())


@given(st.lists(st.binary(min_size=1, max_size=2000), max_size=5))
def test_garbage_on_the_wire_leaves_the_door_open(garbage):
    """Whatever somebody sends, the next client is served."""

    async def run():
        async with Opened(Inet("127.0.0.1", 0)) as door:
            for sent in garbage:
                try:
                    await door.ask(sent)
                except ConnectionError:
                    continue
            return await door.ask(request("CHECK SPAMC/1.5"))

    assert CHECKED == asyncio.run(run())
