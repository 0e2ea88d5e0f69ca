"""HTTP/1 serving: time limits, request bodies and servers beside the main one.

uvicorn writes a head by itself, and event loops send at once what is written: two
system calls and two packets for an answer that fits in one.

A connection that sends no request, or no end of one, is shut.

It runs in the event loop that is there, with the main door's patience and
limits, and leaves the signals to it.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from socket import AF_UNIX
from typing import TYPE_CHECKING, Any, Final, Protocol

import uvicorn
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.doors.serving.listener import GRACE, MAX_CONNECTIONS
from app.errors import MessageTooLarge, SlowRequest
from app.mail.limits import MAX_BYTES

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle, Transport
    from contextlib import AbstractContextManager

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from app.doors.serving.sockets import Listening

# uvicorn writes every head as one piece.
_HEAD: Final = b"HTTP/1."


class WholeTransport:
    """A transport that holds a head back until something is written behind it.

    No longer than to the next turn of the event loop: whatever has no body, gets it
    late or not at all needs no case of its own.  A piece of a body that looks like
    a head is held for as long, which does no harm.

    Parameters
    ----------
    transport : Transport
        What is written to.
    loop : AbstractEventLoop
        Whose turns are meant.
    """

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        """Be the transport in all else."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, or hold back what is a head."""
        if self._head:
            head, self._head = self._head, b""
            # Not joined: a body may have megabytes.
            self._transport.writelines((head, data))
        elif data[: len(_HEAD)] == _HEAD:
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def is_closing(self) -> bool:
        """Tell whether the transport is closing."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close behind what is held back."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


# Precedent: nginx's client_header_timeout is 60 s, Apache's RequestReadTimeout
# 20 s for the headers. uvicorn has none, and counts silent connections among
# those that it may hold: 256 of them would take the service away.
HEADER_SECONDS: Final = 20.0
# Precedent: nginx's large_client_header_buffers are 4 of 8 KiB, Node.js takes
# 16 KiB. The parser has no limit: at 200 MB/s it would hold some gigabytes
# before `HEADER_SECONDS` are over (found by sending them).
MAX_HEAD_BYTES: Final = 64 * 1024
# Of a request whose headers are over, what is not its body: sizes of chunks, and
# trailers, which are kept like headers. 50 MiB in chunks of 512 bytes have
# 0.8 MiB of sizes.
MAX_FRAMING_BYTES: Final = 1024 * 1024
ARRIVED: Final = "postbayes.arrived"
"""Key in the scope of a request that has arrived to its end: nobody waits for it."""


class ImpatientProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits on time and size of request headers."""

    _patience: TimerHandle | None = None
    _in_head: bool = False
    _framing: int = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        whole: Any = WholeTransport(transport, self.loop)
        super().connection_made(whole)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Read on, up to what a request can need."""
        self._framing += len(data)
        super().data_received(data)
        # Looked at after the parser: most heads are over, and of what is not head it
        # takes off what is body.
        if self._in_head and self._patience is None:
            self._expect()
        waits = self._patience is not None
        if self._framing > (MAX_HEAD_BYTES if waits else MAX_FRAMING_BYTES):
            transport: Any = self.transport
            transport.close()

    def on_body(self, body: bytes) -> None:
        """Take the body, which has limits of its own."""
        self._framing -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Say that all is there, and count the next request from its beginning."""
        scope: Any = self.scope
        scope[ARRIVED] = True
        self._framing = 0
        super().on_message_complete()

    def on_message_begin(self) -> None:
        """Expect the rest of the headers, from now on."""
        super().on_message_begin()
        self._in_head = True
        self._be_patient()

    def on_headers_complete(self) -> None:
        """Be patient: the body has a limit of its own."""
        self._in_head = False
        self._be_patient()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer with the connection."""
        self._be_patient()
        super().connection_lost(exc)

    def _expect(self) -> None:
        transport: Any = self.transport
        self._patience = self.loop.call_later(HEADER_SECONDS, transport.close)

    def _be_patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


# Precedent: nginx's client_body_timeout, 60 s (between two reads there; here
# for all of them, so that a byte now and then does not hold a connection).
BODY_SECONDS: Final = 60
MAX_DIGITS: Final = 18


async def take(request: Request, *, limit: int, kept: int) -> bytes:
    """Return the body of a request, or stop as soon as it is too large.

    Parameters
    ----------
    request : Request
        The request, its body not read yet.
    limit : int
        Bytes that the body may have.
    kept : int
        Bytes of it that are kept; the rest is counted and let go.

    Raises
    ------
    MessageTooLarge
        If it is over the limit, before more of it is read.
    SlowRequest
        If it does not arrive in time.
    """
    # Python refuses to read thousands of digits, zeros before them included.
    announced = request.headers.get("content-length", "").lstrip("0")
    digits = len(announced)
    if announced.isdigit() and (digits > MAX_DIGITS or int(announced) > limit):
        raise MessageTooLarge(_too_large(limit))
    body = bytearray()
    size = 0
    # Most bodies come with their heads, and a timer costs 6 us of the 9 for this.
    there = ARRIVED in request.scope
    try:
        async with nullcontext() if there else asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise MessageTooLarge(_too_large(limit))
                body += chunk[: kept - len(body)]
    except ClientDisconnect as error:
        # Nobody reads the answer: it only keeps a hang-up from being logged as
        # a crash of ours.
        msg = f"the client hung up after {size} bytes of the body"
        raise SlowRequest(msg) from error
    except TimeoutError as error:
        msg = (
            f"the body did not arrive within {BODY_SECONDS} s "
            f"({size} bytes did); send it again"
        )
        raise SlowRequest(msg) from error
    return bytes(body)


def _too_large(limit: int) -> str:
    return (
        f"the body is larger than {limit} bytes; send the message raw, as "
        f"message/rfc822: its first {MAX_BYTES} bytes suffice, and "
        "POSTBAYES_MAX_REQUEST_BYTES is the limit"
    )


class Create(Protocol):
    """Makes the application of a door."""

    def __call__(self, *, local: bool) -> ASGIApp:
        """Return it, for a Unix socket or a port."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDoor:
    """A protocol over HTTP.

    Parameters
    ----------
    name : str
        For the log.
    create : callable
        Makes the application.
    """

    name: str
    create: Create


class _Server(uvicorn.Server):
    """A server that another one in the process ends."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave the signals to the main door, which ends us."""
        return nullcontext()


class WebListener:
    """A door over HTTP on one listening socket.

    Parameters
    ----------
    door : WebDoor
        What is served.
    listening : Listening
        Where; the listener closes it.
    """

    def __init__(self, door: WebDoor, listening: Listening) -> None:
        self._listening = listening
        local = listening.socket.family == AF_UNIX
        self._server = _Server(
            uvicorn.Config(
                door.create(local=local),
                http=ImpatientProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                # What a proxy says of its client is for the door to believe.
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_graceful_shutdown=int(GRACE),
            )
        )
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to accept."""
        serve = self._server.serve(sockets=[self._listening.socket])
        self._serving = asyncio.create_task(serve)

    async def stop(self) -> None:
        """Accept no more, finish what was begun, and cut off what lasts too long."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        self._listening.close()
