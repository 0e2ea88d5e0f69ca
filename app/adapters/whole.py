"""When does the head of an answer leave? With the body, in one write.

uvicorn writes a head by itself, and event loops send at once what is written: two
system calls and two packets for an answer that fits in one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Transport

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
