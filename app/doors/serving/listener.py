"""Listener: the connections of a door, with their places, time limits and end.

Contract of this file: a connection keeps its place while its request is processed, and
gives it up only while it waits for its client.

A door has three parts: a codec (bytes to events, pure), a session (state transitions,
pure) and `serve`, which moves bytes between a `Connection` and the session.  This file
has the rest that every door needs: limits on the number and the silence of connections,
the choice of a connection that makes room for another, and an orderly end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from app.access.networks import network
from app.errors import reason
from app.services.log import SparingLog

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from app.doors.serving.sockets import Listening

MAX_CONNECTIONS: Final = 256
"""Most connections of a listener.

Each may hold some 10 MB while its message arrives.  Precedent: Postfix runs 100
processes of a kind (default_process_limit), rspamd's max_tasks is 256.
"""


class Holder(Protocol):
    """A connection that holds a place."""

    network: str
    """Address of the client, or its IPv6 network; empty for a Unix socket."""

    waiting_since: float | None
    """When it began to wait for its client; None while a request is processed."""


H = TypeVar("H", bound=Holder)


def longest_waiting(holders: Iterable[H]) -> H | None:
    """Return the connection that makes room; None if all have requests in process.

    Notes
    -----
    It is the longest waiting connection of the client with the most waiting ones.
    There is no limit for a client: a mail server or proxy with one address may use all
    places as long as no other client needs one.
    """
    waiting = [(each, each.waiting_since) for each in holders]
    since = [(each, began) for each, began in waiting if began is not None]
    if not since:
        return None
    held = Counter(each.network for each, _ in since)
    return min(since, key=lambda item: (-held[item[0].network], item[1]))[0]


log = logging.getLogger(__name__)
# If all places are taken, further connections wait in the kernel: a burst of mail is
# delayed by milliseconds, whereas a refusal would let it pass unfiltered.  A connection
# that has waited for its client for the shorter time makes room for other clients; for
# another connection of the same client it does so only after the longer time, so a mail
# server with slow clients does not lose one connection to another of its own.
SPARED_SECONDS: Final = 0.5
SPARED_AMONG_OWN_SECONDS: Final = 5.0
# Pause between checks whether a connection has waited long enough.
LOOK_AGAIN: Final = 0.5
# Bytes buffered until the door reads them: beyond twice this limit the transport is
# paused, and the sender waits.
READ_BYTES: Final = 64 * 1024
# Pause after the process ran out of descriptors, to avoid spinning.
ACCEPT_PAUSE: Final = 0.5
# Time to finish running requests when a door closes. A complete message takes
# milliseconds; one that does not arrive in this time is given up, and its mail server
# tries again. Unit: seconds.
GRACE: Final = 5.0
LINGER_SECONDS: Final = 5.0
"""How long the rest of a request is discarded after an early answer.

Closing a socket with unread bytes resets the connection, and the client may lose the
answer (RFC 9112 section 9.6).  Precedent: nginx's lingering_timeout, 5 s.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A protocol, as described to the listener.

    Parameters
    ----------
    serve : callable
        Serves one connection until either side ends it.
    idle : float
        Longest wait for the peer to send or read.  Unit: seconds.
    total : float
        Longest life of a connection. Unit: seconds.
    connections : int
        Most connections at once; further ones wait.
    half_closes : bool
        Whether a client that has stopped sending may still wait for an answer.
    """

    name: str
    serve: Callable[[Connection], Awaitable[None]]
    idle: float
    total: float
    connections: int = MAX_CONNECTIONS
    half_closes: bool = True


class Connection(asyncio.StreamReaderProtocol):
    """One connection with time-outs and bounded buffers.

    Parameters
    ----------
    door : Door
        The protocol, with its limits.
    address : tuple or None
        Address and port of the peer, stored at the start because a closed socket does
        not know them.  None for a Unix socket.

    Attributes
    ----------
    host : str or None
        Address of the peer without its port; None for a Unix socket.
    peer : str
        Address of the peer with its port, for the log.
    """

    def __init__(self, door: Door, address: tuple[str, int] | None) -> None:
        self._reader = asyncio.StreamReader(READ_BYTES)
        super().__init__(self._reader)
        self._door = door
        self._ended = asyncio.Event()
        self._closing = False
        self._waiting: asyncio.Task[bytes] | None = None
        self.host = None if address is None else address[0]
        self.peer = "a local process" if address is None else "{}:{}".format(*address)
        self.network = network(self.host or "")
        self.waiting_since: float | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to read and write."""
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self._writer = asyncio.StreamWriter(transport, self, self._reader, loop)

    def eof_received(self) -> bool | None:
        """Note the end, if it is the end of both directions."""
        if not self._door.half_closes:
            self._ended.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self._ended.set()
        super().connection_lost(exc)

    async def gone(self) -> None:
        """Wait until the peer has hung up; this works even if nothing is read."""
        await self._ended.wait()

    async def read(self) -> bytes:
        """Return the next bytes; none after the peer has ended.

        Raises
        ------
        TimeoutError
            If the peer is silent for too long.
        ConnectionError
            If the peer is gone, or its place was given to another.
        """
        with self._waits():
            async with asyncio.timeout(self._door.idle):
                return await self._reader.read(READ_BYTES)

    async def read_between(self) -> bytes:
        """Return the next bytes, at a point between requests.

        A closing door ends the wait at once, as if the peer had ended.

        Raises
        ------
        TimeoutError
            If the peer is silent for too long.
        """
        if self._closing:
            return b""
        # A separate task, so that `finish` can cancel only it.
        self._waiting = asyncio.create_task(self._reader.read(READ_BYTES))
        try:
            with self._waits():
                async with asyncio.timeout(self._door.idle):
                    await asyncio.wait([self._waiting])
            return b"" if self._waiting.cancelled() else self._waiting.result()
        finally:
            self._waiting.cancel()

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the peer does not read them.

        Raises
        ------
        TimeoutError
            If the peer does not read for too long.
        ConnectionError
            If the peer is gone.
        """
        # Trap: uvloop raises RuntimeError if the transport is already closed.
        if self._writer.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._writer.write(data)
        with self._waits():
            async with asyncio.timeout(self._door.idle):
                await self._writer.drain()
                # The buffer of a client has room for hundreds of requests, and it has
                # one turn for each: neither reading from it nor writing to it waits.
                await asyncio.sleep(0)

    async def linger(self) -> None:
        """Send no more, and discard what the peer still sends, for a while."""
        if self._writer.is_closing():
            return
        with self._waits(), suppress(OSError):
            self._writer.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._reader.read(READ_BYTES):
                    pass

    def finish(self) -> None:
        """Accept no further request; the present one may go on."""
        self._closing = True
        if self._waiting is not None:
            self._waiting.cancel()

    def give_up(self) -> None:
        """Give up the place; a read fails, because what has come is not all."""
        self._reader.set_exception(ConnectionAbortedError("others needed its place"))
        self._writer.transport.abort()

    @contextmanager
    def _waits(self) -> Iterator[None]:
        """Note that the connection waits for its peer."""
        self.waiting_since = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self.waiting_since = None

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        # A peer that does not read would keep the last answer in memory.
        self._writer.transport.abort()
        # It knows the connection in turn: both would wait for the collector.
        del self._writer


class Listener:
    """A door on one listening socket, which it closes."""

    def __init__(self, door: Door, listening: Listening) -> None:
        self._door = door
        self._log = SparingLog(log)
        self._listening = listening
        self._places = asyncio.Semaphore(door.connections)
        self._held: dict[asyncio.Task[None], Connection | None] = {}
        self._accepting: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Start accepting connections."""
        self._accepting = asyncio.create_task(self._accept())

    async def stop(self) -> None:
        """Stop accepting, finish running requests, and cut off slow ones."""
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
            try:
                accepted, address = await loop.sock_accept(self._listening.socket)
            except OSError as error:
                self._log.warning(
                    "%s cannot accept: %s", self._door.name, reason(error)
                )
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            # For a Unix socket this is its empty name.
            peer = address[:2] if isinstance(address, tuple) else None
            try:
                await self._place(network(peer[0]) if peer else "")
            except BaseException:
                accepted.close()
                raise
            task = asyncio.create_task(self._serve(accepted, peer))
            self._held[task] = None
            task.add_done_callback(self._let_go)

    async def _place(self, client: str) -> None:
        """Wait for a place and take it."""
        while self._places.locked():
            self._make_room(client)
            # An early check is harmless: the place is taken only when free.
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await self._places.acquire()
                    return
        await self._places.acquire()

    def _make_room(self, client: str) -> None:
        """Close a connection to make room for one of a client, if possible."""
        now = asyncio.get_running_loop().time()
        victim = longest_waiting(
            each
            for each in self._held.values()
            if each is not None
            and each.waiting_since is not None
            and now - each.waiting_since
            >= (SPARED_AMONG_OWN_SECONDS if each.network == client else SPARED_SECONDS)
        )
        if victim is not None:
            self._log.info(
                "%s: the idle connection of %s was closed to make room for others",
                self._door.name,
                victim.peer,
            )
            victim.give_up()

    def _let_go(self, task: asyncio.Task[None]) -> None:
        del self._held[task]
        self._places.release()

    async def _serve(
        self, accepted: socket.socket, address: tuple[str, int] | None
    ) -> None:
        loop, connection = asyncio.get_running_loop(), Connection(self._door, address)
        try:
            await loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError as error:
            accepted.close()
            self._log.info(
                "%s: a connection was lost: %s", self._door.name, reason(error)
            )
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
            self._log.info("%s: %s was idle for too long", name, peer)
        except ConnectionError as error:
            self._log.info(
                "%s: the connection of %s was lost: %s", name, peer, reason(error)
            )
        # The outermost loop of a door: a failure affects only its connection.
        except Exception:  # noqa: BLE001  logged with its traceback
            self._log.exception("%s: a connection from %s failed", name, peer)
        finally:
            await connection.close()
