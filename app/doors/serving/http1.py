"""HTTP/1 protocol: time limits and bounded queues; and listeners that speak it.

Contract of this file: no client holds a place for longer than the times below, nor
more memory than one body, the head of a few requests, and one answer, whatever it
sends and whether it reads or not.

- A head and a body have to arrive in time, and an answer has to be taken in time.
- A request that is answered before its body is over is the last of its connection:
  what is still on its way is discarded, within bounds, so that the client can read
  the answer.
- Requests that are sent ahead are queued up to a number; then nothing is read.
- Where all places are taken, the connection that has waited longest for its client
  is closed (`app.doors.serving.listener`).
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.access.networks import network
from app.doors.serving.listener import GRACE, MAX_CONNECTIONS, longest_waiting

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport
    from collections.abc import Callable, Sized
    from contextlib import AbstractContextManager

    from starlette.types import ASGIApp

    from app.doors.serving.sockets import Listening

HEADER_SECONDS: Final = 20.0
"""Longest wait for the end of a head.

Precedent: nginx's client_header_timeout is 60 s, Apache's RequestReadTimeout 20 s.
"""
BODY_SECONDS: Final = 60.0
"""Longest wait for the end of a body.

Precedent: nginx's client_body_timeout, 60 s (between two reads there; here for all of
them, so that a byte now and then does not hold a connection).
"""
BODY_SPARE_SECONDS: Final = 5.0
"""What a route has beyond `BODY_SECONDS` to say so, before the connection is cut."""
ANSWER_SECONDS: Final = 60.0
"""Longest wait for a client that takes nothing of its answer.

Precedent: nginx's send_timeout, 60 s.
"""
LINGER_SECONDS: Final = 5.0
"""How long the rest of a body is discarded behind an early answer.

A socket that is closed with unread bytes is reset, and the client may lose the answer
that says why (RFC 9112 section 9.6).  Precedent: nginx's lingering_timeout, 5 s.
"""
HALF_CLOSED_SECONDS: Final = 5.0
"""How long a client that sends no more is answered.

It may have closed its half of the connection alone, as netcat does, or all of it, which
looks the same until it is written to: work for those who are gone has to end.
"""
LINGER_BYTES: Final = 64 * 1024 * 1024
"""How much of it: what is a little over the default limit of a body is answered."""
MAX_HEAD_BYTES: Final = 64 * 1024
"""Precedent: nginx's large_client_header_buffers are 4 of 8 KiB, Node.js takes 16 KiB.

The parser has no limit: at 200 MB/s it would hold gigabytes within `HEADER_SECONDS`.
"""
MAX_FRAMING_BYTES: Final = 1024 * 1024
"""Of a request whose head is over, what is not its body: sizes of chunks, trailers.

50 MiB in chunks of 512 bytes have 0.8 MiB of sizes.
"""
MAX_QUEUED: Final = 8
"""Requests that wait behind the one that is answered; no more is read then.

A queued request takes some 7 kB, the 18 bytes of a shortest one included: without a
bound, 16 MB of them made 2 GB.
"""
STEP_BYTES: Final = 512
"""Bytes that the parser is given at once where a request may begin in them.

The parser cannot be stopped: so many bytes have 28 requests at most.  A body of known
length is passed on whole.
"""


class LingeringTransport:
    """A transport that a protocol closes in its own way.

    Parameters
    ----------
    transport : Transport
        Where bytes go.
    end : callable
        Closes the transport, behind all that was written.
    """

    def __init__(self, transport: Transport, end: Callable[[], None]) -> None:
        self._transport = transport
        self._end = end
        self._ended = False

    def __getattr__(self, name: str) -> Any:
        """Be the transport in all else."""
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether nothing more is to be written."""
        return self._ended or self._transport.is_closing()

    def close(self) -> None:
        """Close once."""
        if not self._ended:
            self._ended = True
            self._end()


class _Flow(FlowControl):
    """Reads nothing while requests are queued, whoever asks for it."""

    def __init__(self, transport: Transport, queue: Sized) -> None:
        super().__init__(transport)
        self._queue = queue

    def resume_reading(self) -> None:
        """Read on, unless requests are queued."""
        if not self._queue:
            super().resume_reading()


class Http1Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits on time, size and number."""

    waiting_since: float | None = None
    network: str = ""

    _real: Transport
    _timer: TimerHandle | None = None
    _untaken: TimerHandle | None = None
    _in_head: bool = False
    _in_body: bool = False
    _framing: int = 0
    # Of the body: bytes that have come, and those that the head announces.
    _arrived: int = 0
    _length: int | None = None
    _keeps_alive: bool = False
    _shutting_down: bool = False
    _malformed: bool = False
    _lingering: bool = False
    _half_closed: bool = False
    _discarded: int = 0
    # What was read and waits for a place in the queue.
    _unparsed: bytes = b""
    _places: int | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Expect a request, if there is a place."""
        self._real = transport
        lingering: Any = LingeringTransport(transport, self._end)
        super().connection_made(lingering)
        self.flow = _Flow(lingering, self.pipeline)
        self.network = network(self.client[0]) if self.client else ""
        # uvicorn refuses the requests of all connections where there are too many.
        self._places, self.limit_concurrency = self.limit_concurrency, None
        self._wait()
        self._make_room()
        self._expect(HEADER_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Read on, up to what a request can need."""
        if self._lingering:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES:
                self._real.abort()
            return
        # What comes although reading is paused stays behind what came before.
        self._parse(self._unparsed + data if self._unparsed else data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a client that sends no more what it has sent whole."""
        incomplete = self._lingering or self._in_head or self._in_body
        if incomplete or self._is_done():
            return False
        self._half_closed = True
        self._relax()
        self._timer = self.loop.call_later(HALF_CLOSED_SECONDS, self._real.abort)
        return True

    def on_message_begin(self) -> None:
        """Expect the rest of the head, from now on."""
        super().on_message_begin()
        self._in_head = True
        self._relax()
        if self._is_idle():
            self._wait()

    def on_headers_complete(self) -> None:
        """Begin with the request; until it has arrived, it is the last one."""
        self._in_head = False
        self._in_body = True
        self._arrived = 0
        self._length = None
        self._relax()
        refused = self._is_crowded()
        self.limit_concurrency = 0 if refused else None
        super().on_headers_complete()
        # An answer before the end of the body says that it is the last.
        self._keeps_alive = self.cycle.keep_alive
        self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take the body, which has limits of its own."""
        self._framing -= len(body)
        self._arrived += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Count the next request from its beginning."""
        self._framing = 0
        self._in_body = False
        self._relax()
        self.waiting_since = None
        if not (self.cycle.response_started or self._shutting_down):
            self.cycle.keep_alive = self._keeps_alive
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with what is queued, or wait for the client."""
        super().on_response_complete()
        if self._is_idle() or self._in_body:
            self._wait()
        if self._unparsed and not self.transport.is_closing():
            self._parse(self._unparsed)
        if self._half_closed and self._is_done():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        self._malformed = True
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Wait for a client that does not take its answer."""
        super().pause_writing()
        self._wait()
        self._untaken = self.loop.call_later(ANSWER_SECONDS, self._real.abort)

    def resume_writing(self) -> None:
        """Go on, now that the client takes its answer."""
        super().resume_writing()
        if not (self._is_idle() or self._in_body):
            self.waiting_since = None
        self._forget_untaken()

    def shutdown(self) -> None:
        """Answer what was begun, and nothing after it."""
        self._shutting_down = True
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers with the connection."""
        self._relax()
        self._forget_untaken()
        self._unparsed = b""
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Leave the place to somebody else."""
        self.connections.discard(self)
        self._real.abort()

    def _parse(self, data: bytes) -> None:
        """Parse, as long as there is a place in the queue."""
        self._unparsed = b""
        view = memoryview(data)
        at = 0
        while at < len(view) and not self.transport.is_closing():
            if len(self.pipeline) >= MAX_QUEUED:
                self._unparsed = bytes(view[at:])
                self.flow.pause_reading()
                break
            piece = view[at : at + max(STEP_BYTES, self._missing())]
            at += len(piece)
            self._framing += len(piece)
            super().data_received(piece)  # type: ignore[arg-type]
        if self.transport.is_closing():
            return
        # Looked at after the parser, which takes off what is body.
        heading = self._in_head or not self._in_body
        if self._framing > (MAX_HEAD_BYTES if heading else MAX_FRAMING_BYTES):
            self._real.abort()
        # Most requests are whole by now, and need no timer.
        elif self._timer is None:
            if self._in_body:
                self._expect(BODY_SECONDS + BODY_SPARE_SECONDS)
            elif self._in_head or self._is_idle():
                self._expect(HEADER_SECONDS)

    def _missing(self) -> int:
        """Return how much of the body is missing, where the head says its length."""
        if not self._in_body:
            return 0
        if self._length is None:
            # The parser has refused what is no number, and a second length.
            lengths = (int(v) for name, v in self.headers if name == b"content-length")
            self._length = next(lengths, 0)
        return self._length - self._arrived

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _is_done(self) -> bool:
        """Tell whether all that was sent whole is answered."""
        return self._is_idle() and not self.pipeline and not self._unparsed

    def _wait(self) -> None:
        self.waiting_since = self.loop.time()

    def _is_crowded(self) -> bool:
        """Return whether there is no place for a request."""
        if self._places is None:
            return False
        self._make_room()
        held, works = len(self.connections), len(self.tasks)
        return held > self._places or works >= self._places

    def _make_room(self) -> None:
        """Close connections that wait for their clients, while there are too many."""
        while self._places is not None and len(self.connections) > self._places:
            others: Any = self.connections - {self}
            victim = longest_waiting(others)
            if victim is None:
                return
            victim.give_up()

    def _end(self) -> None:
        """Close, behind the answer; let the client read it."""
        self._relax()
        cycle = self.cycle
        early = cycle is not None and cycle.response_complete and cycle.more_body
        if (early or self._malformed) and self._real.can_write_eof():
            self._lingering = True
            self._wait()
            self.flow.resume_reading()
            self._real.write_eof()
            self._timer = self.loop.call_later(LINGER_SECONDS, self._real.abort)
            return
        self._real.close()
        if self._real.get_write_buffer_size():
            self._timer = self.loop.call_later(ANSWER_SECONDS, self._real.abort)

    def _expect(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._give_up_waiting)

    def _give_up_waiting(self) -> None:
        self._timer = None
        # A client is not blamed for what is not read.
        if self.flow.read_paused:
            self._expect(HEADER_SECONDS)
        else:
            self.transport.close()

    def _relax(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget_untaken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDoor:
    """A protocol over HTTP.

    Parameters
    ----------
    name : str
        For the log.
    app : ASGI application
        What answers.
    """

    name: str
    app: ASGIApp


class _Server(uvicorn.Server):
    """A server that another one in the process ends."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave the signals to the main door, which ends us."""
        return nullcontext()


class WebListener:
    """A door over HTTP on one listening socket, beside the main one.

    It runs in the event loop that is there, with the main door's patience and limits,
    and leaves the signals to it.

    Parameters
    ----------
    door : WebDoor
        What is served.
    listening : Listening
        Where; the listener closes it.
    """

    def __init__(self, door: WebDoor, listening: Listening) -> None:
        self._listening = listening
        self._server = _Server(
            uvicorn.Config(
                door.app,
                http=Http1Protocol,
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
