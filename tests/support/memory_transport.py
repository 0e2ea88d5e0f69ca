"""A server's protocol without sockets: a transport in memory, and a clock by hand."""

from __future__ import annotations

import asyncio

import uvicorn
from uvicorn.server import ServerState

from app.doors.serving.http1 import OPTIONS, Http1Protocol

HIGH_WATER = 64 * 1024


class HandClock(asyncio.SelectorEventLoop):
    """An event loop whose time passes only where a test says so."""

    now = 0.0

    def __init__(self):
        super().__init__()
        self.transports = []

    def time(self):
        """Return the time of the test."""
        return self.now


def by_hand(coroutine):
    """Run a coroutine in a loop whose time stands still."""

    async def until_closed():
        try:
            return await coroutine
        finally:
            # An application that waits for its client would do so for ever.
            for transport in asyncio.get_running_loop().transports:
                transport.abort()
            await settle()

    with asyncio.Runner(loop_factory=HandClock) as runner:
        return runner.run(until_closed())


async def settle():
    """Let everything run that does not wait for time."""
    for _ in range(50):
        await asyncio.sleep(0)


async def passes(seconds):
    """Let time pass."""
    asyncio.get_running_loop().now += seconds
    await settle()


class Memory(asyncio.Transport):
    """The server's side of a connection whose client reads when a test says so."""

    def __init__(self, protocol, address="192.0.2.1", *, reads=True):
        super().__init__()
        self.protocol = protocol
        self.address = address
        self.reads = reads
        self.sent = b""
        self.unread = 0
        self.paused = False
        self.half_closed = False
        self.closing = False
        self.lost = False
        protocol.loop.transports.append(self)
        protocol.connection_made(self)

    @property
    def gone(self):
        """Whether the client sees the end of the connection."""
        return self.lost or self.half_closed

    def get_extra_info(self, name, default=None):
        """Return who the client is."""
        return (self.address, 4711) if name == "peername" else default

    def write(self, data):
        """Send to the client, as uvloop does."""
        if self.lost:
            raise RuntimeError("the handler is closed")
        assert not self.half_closed
        self.sent += bytes(data)
        if not self.reads:
            before, self.unread = self.unread, self.unread + len(data)
            if before <= HIGH_WATER < self.unread:
                self.protocol.pause_writing()

    def read_all(self):
        """Have the client read."""
        was, self.unread = self.unread, 0
        if was > HIGH_WATER:
            self.protocol.resume_writing()

    def get_write_buffer_size(self):
        """Return what the client has not read."""
        return self.unread

    def pause_reading(self):
        """Note that nothing more is to come."""
        self.paused = True

    def resume_reading(self):
        """Note that more may come."""
        self.paused = False

    def can_write_eof(self):
        """Be a socket."""
        return True

    def write_eof(self):
        """Send no more."""
        self.half_closed = True

    def is_closing(self):
        """Tell whether it was closed."""
        return self.closing

    def close(self):
        """Close, once the client has read everything."""
        self.closing = True
        if not self.unread:
            self.abort()

    def abort(self, error=None):
        """Close at once; with an error, as a client that resets the connection."""
        self.closing = True
        if not self.lost:
            self.lost = True
            self.protocol.loop.call_soon(self.protocol.connection_lost, error)


class Server:
    """An HTTP server for an application, whose connections are made in memory."""

    def __init__(self, app, places=None):
        self.config = uvicorn.Config(
            app,
            interface="asgi3",
            lifespan="off",
            server_header=False,
            date_header=False,
            **OPTIONS | {"limit_concurrency": places},
        )
        self.config.load()
        self.state = ServerState()

    def connect(self, address="192.0.2.1", *, reads=True):
        """Return the server's side of a new connection."""
        protocol = Http1Protocol(self.config, self.state, {})
        return Memory(protocol, address, reads=reads)
