"""Listener: the connections of a door, their time limits and their end.

A door is three things: a codec (bytes and events, pure), a session (what
follows on which event, pure) and `serve`, which moves bytes between a
`Connection` and the session.  What every door needs beside that is here: how
many connections, how long they may say nothing, and an end that finishes what
was begun.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from socket import AF_UNIX
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from app.doors.serving.sockets import Listening

log = logging.getLogger(__name__)
# Served at once by one door. Precedent: Postfix runs 100 processes of a kind
# (default_process_limit), rspamd's max_tasks and the HTTP door's limit are 256.
# Further ones wait in the kernel until a place is free: a burst of mail is late
# by milliseconds, where a refusal would let it pass unfiltered.
MAX_CONNECTIONS: Final = 256
# Held for a connection before its door takes it: the transport is paused beyond
# twice of that, and the sender waits.
READ_BYTES: Final = 64 * 1024
# After the descriptors of the process ran out, so as not to spin.
ACCEPT_PAUSE: Final = 0.5
# What was begun is finished within this when a door closes. A message that is
# whole takes milliseconds; one that does not arrive within this is not waited
# for, and its mail server tries again. Unit: seconds.
GRACE: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A protocol, as the listener needs it.

    Parameters
    ----------
    name : str
        For the log.
    serve : callable
        Speaks the protocol on one connection until either side is done.
    idle : float
        Longest wait for the peer to send or take something. Unit: seconds.
    total : float
        Longest life of a connection. Unit: seconds.
    connections : int
        Served at once; further ones wait.
    """

    name: str
    serve: Callable[[Connection], Awaitable[None]]
    idle: float
    total: float
    connections: int = MAX_CONNECTIONS


class Connection:
    """One connection, with its time-outs and bounded buffers.

    Parameters
    ----------
    reader, writer : StreamReader, StreamWriter
        The two directions.
    idle : float
        Longest wait for the peer. Unit: seconds.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, idle: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._idle = idle
        self._closing = False
        self._waiting: asyncio.Task[bytes] | None = None

    @property
    def peer(self) -> str:
        """Address of the other side, for the log."""
        name = self._writer.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "a local process"

    @property
    def host(self) -> str | None:
        """Address of the other side without its port; None for a Unix socket.

        Empty where the other side is gone before anybody asked: only by the
        kind of the socket can a local process be told from it.
        """
        if self._writer.get_extra_info("socket").family == AF_UNIX:
            return None
        name = self._writer.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) else ""

    async def read(self) -> bytes:
        """Return what comes next; nothing once the peer has ended.

        Raises
        ------
        TimeoutError
            If the peer says nothing for too long.
        """
        async with asyncio.timeout(self._idle):
            return await self._reader.read(READ_BYTES)

    async def read_between(self) -> bytes:
        """Return what comes next, where nothing is held for the peer.

        A door that closes ends the wait at once: the peer gets nothing, as if
        it had ended.

        Raises
        ------
        TimeoutError
            If the peer says nothing for too long.
        """
        if self._closing:
            return b""
        # A task of its own, which `finish` may cancel without cancelling ours.
        self._waiting = asyncio.create_task(self._reader.read(READ_BYTES))
        try:
            async with asyncio.timeout(self._idle):
                await asyncio.wait([self._waiting])
            return b"" if self._waiting.cancelled() else self._waiting.result()
        finally:
            self._waiting.cancel()

    async def write(self, data: bytes) -> None:
        """Send, and wait while the peer does not take it.

        Raises
        ------
        TimeoutError
            If the peer takes nothing for too long.
        ConnectionError
            If it is gone.
        """
        # Trap: uvloop raises RuntimeError where the transport has closed already.
        if self._writer.is_closing():
            msg = "the connection is closed"
            raise ConnectionResetError(msg)
        self._writer.write(data)
        async with asyncio.timeout(self._idle):
            await self._writer.drain()

    def finish(self) -> None:
        """Begin nothing more; what was begun may go on."""
        self._closing = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def close(self) -> None:
        """Let go of the peer."""
        self._writer.close()
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        # A peer that takes nothing would keep the last answer in memory.
        self._writer.transport.abort()


class Listener:
    """A door on one listening socket.

    Parameters
    ----------
    door : Door
        What is spoken.
    listening : Listening
        Where; the listener closes it.
    """

    def __init__(self, door: Door, listening: Listening) -> None:
        self._door = door
        self._listening = listening
        self._places = asyncio.Semaphore(door.connections)
        self._held: dict[asyncio.Task[None], Connection | None] = {}
        self._accepting: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin to accept."""
        self._accepting = asyncio.create_task(self._accept())

    async def stop(self) -> None:
        """Accept no more, finish what was begun, and cut off what lasts too long."""
        self._stopping = True
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        self._listening.close()
        for connection in self._held.values():
            if connection is not None:
                connection.finish()
        if self._held:
            await asyncio.wait(list(self._held), timeout=GRACE)
        rest = list(self._held)
        for task in rest:
            task.cancel()
        if rest:
            log.warning("%s: %d connections were cut off", self._door.name, len(rest))
            await asyncio.wait(rest)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._places.acquire()
            try:
                accepted, _ = await loop.sock_accept(self._listening.socket)
            except OSError as error:
                self._places.release()
                log.warning("%s cannot accept: %s", self._door.name, error)
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            task = asyncio.create_task(self._serve(accepted))
            self._held[task] = None
            task.add_done_callback(self._let_go)

    def _let_go(self, task: asyncio.Task[None]) -> None:
        del self._held[task]
        self._places.release()

    async def _serve(self, accepted: socket.socket) -> None:
        try:
            connection = await _connected(accepted, self._door.idle)
        except OSError as error:
            accepted.close()
            log.info("%s: a connection was lost: %s", self._door.name, error)
            return
        task = asyncio.current_task()
        if task is not None:
            self._held[task] = connection
        if self._stopping:
            connection.finish()
        name, peer = self._door.name, connection.peer
        try:
            async with asyncio.timeout(self._door.total):
                await self._door.serve(connection)
        except TimeoutError:
            log.info("%s: %s was silent for too long", name, peer)
        except ConnectionError as error:
            log.info("%s: %s is gone: %s", name, peer, error)
        # The outermost loop of a door: one connection's failure is its own.
        except Exception:
            log.exception("%s: a connection of %s failed", name, peer)
        finally:
            await connection.close()


async def _connected(accepted: socket.socket, idle: float) -> Connection:
    """Return the connection over an accepted socket."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(READ_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    return Connection(reader, writer, idle)
