"""HTTP/1 protocol: time limits and bounded queues; and listeners that speak it.

Contract of this file: whatever a client sends, and whether it reads or not, it occupies
a place at most for the times below, and at most the memory of one body, the heads of a
few requests, and one answer.

- A head and a body must arrive in time, and the client must read the answer in time.
- A request answered before the end of its body is the last of its connection.  The rest
  of the body is discarded, within bounds, so that the client can read the answer.
- Pipelined requests are queued up to a limit; then reading pauses.
- If all places are taken, the connection that has waited longest for its client is
  closed (`app.doors.serving.listener`).  If none waits, the application gets the next
  request with the mark `CROWDED` in its state, and refuses it.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.access.networks import network
from app.doors.serving.listener import (
    GRACE,
    LINGER_SECONDS,
    MAX_CONNECTIONS,
    longest_waiting,
)

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport
    from collections.abc import Callable, Sized
    from contextlib import AbstractContextManager

    from starlette.types import ASGIApp

    from app.doors.serving.sockets import Listening

HEADER_SECONDS: Final = 20.0
"""Longest wait for the end of a head.  Unit: seconds.

Precedent: nginx's client_header_timeout is 60 s, Apache's RequestReadTimeout 20 s.
"""
BODY_SECONDS: Final = 60.0
"""Longest wait for the end of a body.  Unit: seconds.

Precedent: nginx's client_body_timeout, 60 s.  nginx applies it between two reads; here
it applies to the whole body, so a slow trickle of bytes cannot hold a connection.
"""
BODY_SPARE_SECONDS: Final = 5.0
"""Extra time for a route to report a late body before the connection is cut."""
IDLE_SECONDS: Final = 620
"""Longest wait for another request on a connection.  Unit: seconds.

A proxy must be the first to close its connections to the service: a request that it
sends while the service closes one is lost, and its client gets 502.  nginx keeps them
for 60 s, Traefik for 90 s, Caddy for 120 s, and the load balancers of Oracle Cloud for
300 s and of Google Cloud for 600 s, which nobody can change.
"""
ANSWER_SECONDS: Final = 60.0
"""Longest wait for a client that does not read its answer.  Unit: seconds.

Precedent: nginx's send_timeout, 60 s.
"""
HALF_CLOSED_SECONDS: Final = 5.0
"""How long a client that has closed its sending side is still answered.

It may have closed only one direction, as netcat does, or both.  These look the same
until a write, and work for clients that are gone must end.
"""
LINGER_BYTES: Final = 64 * 1024 * 1024
"""Most bytes to discard: a body slightly over the default limit gets an answer."""
MAX_HEAD_BYTES: Final = 64 * 1024
"""Precedent: nginx's large_client_header_buffers, 4 of 8 KiB; Node.js, 16 KiB.

The parser has no limit: at 200 MB/s it would collect gigabytes in `HEADER_SECONDS`.
"""
MAX_FRAMING_BYTES: Final = 1024 * 1024
"""Most bytes after the head that are not body: sizes of chunks, and trailers.

50 MiB in chunks of 512 bytes have 0.8 MiB of sizes.
"""
MAX_QUEUED: Final = 8
"""Most requests queued behind the present one; then reading pauses.

Even a request of 18 bytes takes some 7 kB in the queue: without a bound, 16 MB of
requests took 2 GB.
"""
CROWDED: Final = "postbayes.crowded"
"""The mark in the state of a request for which there is no place."""
STEP_BYTES: Final = 512
"""Bytes passed to the parser at once if a request may begin in them.

The parser cannot be stopped, and this many bytes contain at most 28 requests.  A body
of known length is passed on whole.
"""


class LingeringTransport:
    """A transport whose closing is delegated to the protocol."""

    def __init__(self, transport: Transport, end: Callable[[], None]) -> None:
        self._transport = transport
        self._end = end
        self._ended = False

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the transport."""
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether writing has ended."""
        return self._ended or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Write, unless writing has ended."""
        # A request is still answered when the bytes behind it have been refused.  And
        # uvicorn tells only the last of pipelined requests that the client is gone,
        # while uvloop raises RuntimeError if the transport is already closed.
        if not self.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close once."""
        if not self.is_closing():
            self._ended = True
            self._end()


class _Flow(FlowControl):
    """Flow control that does not read while requests are queued."""

    def __init__(self, transport: Transport, queue: Sized) -> None:
        super().__init__(transport)
        self._queue = queue

    def resume_reading(self) -> None:
        """Resume reading, unless requests are queued."""
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
    # Bytes of the body received, and announced by the head.
    _arrived: int = 0
    _length: int = 0
    _keeps_alive: bool = False
    _shutting_down: bool = False
    _malformed: bool = False
    _lingering: bool = False
    _half_closed: bool = False
    _discarded: int = 0
    # Bytes read that wait for a place in the queue.
    _unparsed: bytes = b""
    _places: int | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Expect a request if there is a place."""
        self._real = transport
        lingering: Any = LingeringTransport(transport, self._end)
        super().connection_made(lingering)
        self.flow = _Flow(lingering, self.pipeline)
        self.network = network(self.client[0]) if self.client else ""
        # With too many connections, uvicorn refuses the requests of all of them, and
        # no metric of the application counts them.
        self._places, self.limit_concurrency = self.limit_concurrency, None
        self._wait()
        self._make_room()
        self._expect(HEADER_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, within the limits of a request."""
        if self._lingering:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES:
                self._real.abort()
            return
        # Bytes that come although reading is paused are queued behind earlier ones.
        self._parse(self._unparsed + data if self._unparsed else data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer the complete requests of a client that has stopped sending."""
        incomplete = self._lingering or self._in_head or self._in_body
        if incomplete or self._is_done():
            return False
        self._half_closed = True
        self._relax()
        self._timer = self.loop.call_later(HALF_CLOSED_SECONDS, self._real.abort)
        return True

    def on_message_begin(self) -> None:
        """Start the timer of the head."""
        super().on_message_begin()
        self._in_head = True
        self._relax()
        if self._is_idle():
            self._wait()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header, but not the trailers, which uvicorn would add to them.

        A proxy may pass trailers on unread, and the headers that it writes are believed
        (RFC 9110 section 6.5.1).
        """
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin with the request, the last one unless its body arrives."""
        self._in_head = False
        if self.parser.should_upgrade():
            return
        self._in_body = True
        self._arrived = 0
        # The parser has refused invalid and repeated lengths, and undoes chunks alone:
        # a body that is compressed as well would be scored as it is.
        self._length = hosts = 0
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                self._length = int(value)
            elif name == b"transfer-encoding" and value.lower() != b"chunked":
                raise httptools.HttpParserError("unknown transfer coding")
        # RFC 9112 section 3.2; HTTP/1.0, of health checks and old clients, has no need.
        if hosts != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            raise httptools.HttpParserError("not one Host")
        self._relax()
        crowded = self._is_crowded()
        if crowded:
            self.scope["state"][CROWDED] = True
        super().on_headers_complete()
        # An answer before the end of the body announces the end of the connection.
        self._keeps_alive = self.cycle.keep_alive and not crowded
        self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Receive a part of the body, which has limits of its own."""
        self._framing -= len(body)
        self._arrived += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Reset the counters for the next request."""
        if self.parser.should_upgrade():
            return
        self._framing = 0
        self._in_body = False
        self._relax()
        self.waiting_since = None
        if not (self.cycle.response_started or self._shutting_down):
            self.cycle.keep_alive = self._keeps_alive
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with queued requests, or wait for the client."""
        super().on_response_complete()
        if self._is_idle() or self._in_body:
            self._wait()
        if self._unparsed and not self.transport.is_closing():
            self._parse(self._unparsed)
        if self._half_closed and self._is_done():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not a request."""
        self._malformed = True
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Wait for a client that does not read its answer."""
        super().pause_writing()
        self._wait()
        self._untaken = self.loop.call_later(ANSWER_SECONDS, self._real.abort)

    def resume_writing(self) -> None:
        """Continue when the client reads its answer again."""
        super().resume_writing()
        if not (self._is_idle() or self._in_body):
            self.waiting_since = None
        self._forget_untaken()

    def shutdown(self) -> None:
        """Answer the present request, and no further one."""
        self._shutting_down = True
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the connection."""
        self._relax()
        self._forget_untaken()
        self._unparsed = b""
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Give up the place to another connection."""
        self.connections.discard(self)
        self._real.abort()

    def _parse(self, data: bytes) -> None:
        """Parse while there is a place in the queue."""
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
            self._feed(piece)
        if self.transport.is_closing():
            return
        # Checked after parsing, which subtracts the body.
        heading = self._in_head or not self._in_body
        if self._framing > (MAX_HEAD_BYTES if heading else MAX_FRAMING_BYTES):
            self._real.abort()
        # Most requests are complete by now, and need no timer.
        elif self._timer is None:
            if self._in_body:
                self._expect(BODY_SECONDS + BODY_SPARE_SECONDS)
            elif self._in_head or self._is_idle():
                self._expect(HEADER_SECONDS)

    def _feed(self, data: bytes | memoryview) -> None:
        """Pass bytes to the parser, and decline an offer to change the protocol.

        A server may ignore the offer (RFC 9110 section 7.8), which Java's client makes
        for every request.  The parser takes a body for the other protocol, and then for
        the next request (Kludex/uvicorn issue 2722); it gets the head again, without
        the offer.  CONNECT changes the protocol by itself, and is refused.
        """
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            method, version = self.parser.get_method(), self.parser.get_http_version()
            if method == b"CONNECT":
                self._refuse()
                return
            head = b"%b %b HTTP/%b\r\n" % (method, self.url, version.encode())
            for name, value in self.headers:
                if name != b"upgrade":
                    head += b"%b: %b\r\n" % (name, value)
            self._feed(b"%b\r\n%b" % (head, bytes(data[offer.args[0] :])))
        except httptools.HttpParserError as error:
            # A client drops what was refused, and sends again what was cut off.
            if isinstance(error.__context__, MemoryError):
                self._real.abort()
            else:
                self._refuse()

    def _refuse(self) -> None:
        msg = "Invalid HTTP request received."
        self.logger.warning(msg)
        self.send_400_response(msg)

    def _missing(self) -> int:
        """Return the missing bytes of a body of announced length."""
        return self._length - self._arrived if self._in_body else 0

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _is_done(self) -> bool:
        """Return whether all complete requests are answered."""
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
        """Close connections that wait for their clients while there are too many."""
        while self._places is not None and len(self.connections) > self._places:
            others: Any = self.connections - {self}
            victim = longest_waiting(others)
            if victim is None:
                return
            victim.give_up()

    def _end(self) -> None:
        """Close after the answer, and let the client read it."""
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
        # While reading is paused, the client is not to blame.
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


OPTIONS: Final[dict[str, Any]] = {
    "http": Http1Protocol,
    "ws": "none",
    # uvicorn's log lines get our format and level.
    "log_config": None,
    # Each verdict already has a log line.
    "access_log": False,
    # `app.doors.serving.request` decides which proxies are believed.
    "proxy_headers": False,
    "limit_concurrency": MAX_CONNECTIONS,
    "timeout_keep_alive": IDLE_SECONDS,
}
"""The options of every server over HTTP."""


class WebListener(uvicorn.Server):
    """A door over HTTP on one socket, which it closes, beside the main one.

    It runs in the main door's event loop, with its time-outs and limits, and leaves the
    signals to it.
    """

    def __init__(self, app: ASGIApp, listening: Listening) -> None:
        super().__init__(
            uvicorn.Config(
                app, lifespan="off", timeout_graceful_shutdown=int(GRACE), **OPTIONS
            )
        )
        self._listening = listening
        self._serving: asyncio.Task[None] | None = None

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave the signals to the main door, which ends this server."""
        return nullcontext()

    def start(self) -> None:
        """Start accepting connections."""
        serve = self.serve(sockets=[self._listening.socket])
        self._serving = asyncio.create_task(serve)

    async def stop(self) -> None:
        """Stop accepting, finish running requests, and cut off slow ones."""
        self.should_exit = True
        if self._serving is not None:
            await self._serving
        self._listening.close()
