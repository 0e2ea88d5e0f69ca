"""Listener: the connections of a door, their places, time limits and end.

Contract of this file: a connection whose request is being worked on keeps its place;
only one that waits for its client gives it up.

A door is three things: a codec (bytes and events, pure), a session (what
follows on which event, pure) and `serve`, which moves bytes between a
`Connection` and the session.  What every door needs beside that is here: how
many connections, how long they may say nothing, which of them makes room for
another, and an end that finishes what was begun.
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
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator

    from app.doors.serving.sockets import Listening

MAX_CONNECTIONS: Final = 256
"""Connections that one listener holds.

Each may hold some 10 MB while its message arrives.  Precedent: Postfix runs 100
processes of a kind (default_process_limit), rspamd's max_tasks is 256.
"""


class Holder(Protocol):
    """A connection, as far as its place is concerned."""

    network: str
    """Address of the client, or its IPv6 network; empty for a Unix socket."""

    waiting_since: float | None
    """When it began to wait for its client; None while a request is worked on."""


H = TypeVar("H", bound=Holder)


def longest_waiting(holders: Iterable[H]) -> H | None:
    """Return the connection that makes room; None where every one is worked on.

    Notes
    -----
    Of the client that has most waiting connections, the one that has waited longest.
    No client is refused for the number of its connections: a mail server or a proxy
    with one address may use all places, as long as nobody else needs one.
    """
    waiting = [(each, each.waiting_since) for each in holders]
    since = [(each, began) for each, began in waiting if began is not None]
    if not since:
        return None
    held = Counter(each.network for each, _ in since)
    return min(since, key=lambda item: (-held[item[0].network], item[1]))[0]


log = logging.getLogger(__name__)
# Where all places are taken, further connections wait in the kernel until one is
# free: a burst of mail is late by milliseconds, where a refusal would let it pass
# unfiltered.  A connection makes room where it has waited for its client for so long,
# and for another connection of the same client only after the longer time: a mail
# server whose clients think for a moment does not lose one connection to another of
# its own.
SPARED_SECONDS: Final = 0.5
SPARED_AMONG_OWN_SECONDS: Final = 5.0
# How often it is looked whether one has waited for long enough.
LOOK_AGAIN: Final = 0.5
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
        Held at once; further ones wait.
    half_closes : bool
        Whether a client that sends no more may still wait for an answer.
    """

    name: str
    serve: Callable[[Connection], Awaitable[None]]
    idle: float
    total: float
    connections: int = MAX_CONNECTIONS
    half_closes: bool = True


class _Protocol(asyncio.StreamReaderProtocol):
    """A stream that knows when its peer is gone."""

    def __init__(self, reader: asyncio.StreamReader, *, half_closes: bool) -> None:
        super().__init__(reader)
        self._half_closes = half_closes
        self.gone = asyncio.Event()

    def eof_received(self) -> bool | None:
        """Note the end, where it is one of both directions."""
        if not self._half_closes:
            self.gone.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self.gone.set()
        super().connection_lost(exc)


class Connection:
    """One connection, with its time-outs and bounded buffers.

    Parameters
    ----------
    reader, writer : StreamReader, StreamWriter
        The two directions.
    idle : float
        Longest wait for the peer. Unit: seconds.
    gone : callable
        Waits until the peer has hung up, which is noticed where nothing is read too.
    address : tuple or None
        Address and port of the peer, as they were when it connected: of one that is
        gone, no socket knows them. None for a Unix socket.

    Attributes
    ----------
    host : str or None
        Address of the peer without its port; None for a Unix socket.
    peer : str
        Address of the peer with its port, for the log.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        idle: float,
        gone: Callable[[], Coroutine[Any, Any, object]],
        address: tuple[str, int] | None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._idle = idle
        self.gone = gone
        self._closing = False
        self._waiting: asyncio.Task[bytes] | None = None
        self._loop = asyncio.get_running_loop()
        self.host = None if address is None else address[0]
        self.peer = "a local process" if address is None else "{}:{}".format(*address)
        self.network = network(self.host or "")
        self.waiting_since: float | None = None

    async def read(self) -> bytes:
        """Return what comes next; nothing once the peer has ended.

        Raises
        ------
        TimeoutError
            If the peer says nothing for too long.
        """
        with self._waits():
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
            with self._waits():
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
        with self._waits():
            async with asyncio.timeout(self._idle):
                await self._writer.drain()

    def finish(self) -> None:
        """Begin nothing more; what was begun may go on."""
        self._closing = True
        if self._waiting is not None:
            self._waiting.cancel()

    def give_up(self) -> None:
        """Leave the place to somebody else; a read ends as if the peer had ended."""
        self._writer.transport.abort()

    @contextmanager
    def _waits(self) -> Iterator[None]:
        """Note that it is the peer that is waited for."""
        self.waiting_since = self._loop.time()
        try:
            yield
        finally:
            self.waiting_since = None

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
        self._log = SparingLog(log)
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
            try:
                accepted, address = await loop.sock_accept(self._listening.socket)
            except OSError as error:
                self._log.warning(
                    "%s cannot accept: %s", self._door.name, reason(error)
                )
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            # Of a Unix socket it is a name, which is empty.
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
        """Take a place, as soon as there is one or somebody makes room."""
        while self._places.locked():
            self._make_room(client)
            # Too early to look again is no harm: the place is taken when it is free.
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await self._places.acquire()
                    return
        await self._places.acquire()

    def _make_room(self, client: str) -> None:
        """Close the connection that makes room for one of a client, if any does."""
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
        try:
            connection = await _connected(accepted, self._door, address)
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
                "%s: %s closed the connection: %s", name, peer, reason(error)
            )
        # The outermost loop of a door: one connection's failure is its own.
        except Exception:  # noqa: BLE001  logged with its traceback
            self._log.exception("%s: a connection from %s failed", name, peer)
        finally:
            await connection.close()


async def _connected(
    accepted: socket.socket, door: Door, address: tuple[str, int] | None
) -> Connection:
    """Return the connection over an accepted socket."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(READ_BYTES)
    protocol = _Protocol(reader, half_closes=door.half_closes)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    return Connection(reader, writer, door.idle, protocol.gone.wait, address)
