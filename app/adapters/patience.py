"""How long may a client say nothing? A connection that sends no request is shut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

# Precedent: nginx's client_header_timeout is 60 s, Apache's RequestReadTimeout
# 20 s for the headers. uvicorn has none, and counts silent connections among
# those that it may hold: 256 of them would take the service away.
HEADER_SECONDS: Final = 20.0


class ImpatientProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a limit on the time for request headers."""

    _patience: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self._expect()

    def on_message_begin(self) -> None:
        """Expect the rest of the headers."""
        super().on_message_begin()
        self._expect()

    def on_headers_complete(self) -> None:
        """Be patient: the body has a limit of its own."""
        self._be_patient()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer with the connection."""
        self._be_patient()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._be_patient()
        transport: Any = self.transport
        self._patience = self.loop.call_later(HEADER_SECONDS, transport.close)

    def _be_patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
