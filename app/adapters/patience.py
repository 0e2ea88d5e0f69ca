"""How long may a client say nothing, and how much before it says something?

A connection that sends no request, or no end of one, is shut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.adapters.whole import WholeTransport

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

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
