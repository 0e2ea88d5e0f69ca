"""Codec of the milter protocol: bytes to events, and answers to bytes.

A packet is its length in four bytes, one byte that names it, and data
(docs/protocols/milter.md).  Input becomes events; answers are bytes at once.

Contract of this file: any bytes become events or one `MilterProtocolError`, whatever
pieces they come in, and never more than `MAX_PACKET_BYTES` are held.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# The largest packet that libmilter ever agrees on, MILTER_MAX_DATA_SIZE of 1 MiB.
# Postfix and Sendmail send bodies in pieces of 64 KiB, and headers of at most
# 100 kB (header_size_limit) and 32 kB (MaxHeadersLength).
MAX_PACKET_BYTES: Final = 1024 * 1024
# A connection's macros are kept until its end. Sendmail knows some sixty.
MAX_MACROS: Final = 100
_LENGTH: Final = Struct("!I")
_OPTIONS: Final = Struct("!III")


class MilterProtocolError(Exception):
    """The input is not the milter protocol; the connection has to end."""


class Actions(IntFlag):
    """The changes that a filter may ask for at the end of a message (SMFIF_*)."""

    ADD_HEADERS = 0x01
    CHANGE_HEADERS = 0x10
    QUARANTINE = 0x20


class Steps(IntFlag):
    """Steps of the protocol that are left out or changed (SMFIP_*)."""

    NO_UNKNOWN = 0x100
    NO_DATA = 0x200
    SKIP = 0x400
    SILENT_HEADER = 0x80
    SILENT_CONNECT = 0x1000
    SILENT_HELO = 0x2000
    SILENT_MAIL = 0x4000
    SILENT_RECIPIENT = 0x8000
    SILENT_END_OF_HEADERS = 0x40000
    SILENT_BODY = 0x80000
    LEADING_SPACE = 0x100000


@dataclass(frozen=True, slots=True)
class Negotiate:
    """The offers of the mail server."""

    version: int
    actions: int
    steps: int


@dataclass(frozen=True, slots=True)
class Macros:
    """Values of the mail server, sent before the event that they belong to."""

    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Connect:
    """The client of the mail server: its name, and its address if it has one."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Helo:
    """The name that the client gave."""

    name: str


@dataclass(frozen=True, slots=True)
class Mail:
    """MAIL FROM: a message begins."""

    sender: str


@dataclass(frozen=True, slots=True)
class Recipient:
    """RCPT TO."""

    address: str


@dataclass(frozen=True, slots=True)
class HeaderField:
    """One header field, its value as the mail server keeps it."""

    name: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class EndOfHeaders:
    """The empty line after the headers."""


@dataclass(frozen=True, slots=True)
class Body:
    """A piece of the body."""

    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The end of the message, perhaps with a last piece of it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Abort:
    """The message is given up; the connection stays."""


@dataclass(frozen=True, slots=True)
class Quit:
    """The connection ends."""


@dataclass(frozen=True, slots=True)
class QuitClient:
    """The client is gone, and another one comes on the same connection."""


@dataclass(frozen=True, slots=True)
class Other:
    """DATA, or a command that the mail server does not know."""


Event = (
    Negotiate
    | Macros
    | Connect
    | Helo
    | Mail
    | Recipient
    | HeaderField
    | EndOfHeaders
    | Body
    | End
    | Abort
    | Quit
    | QuitClient
    | Other
)


class PacketDecoder:
    """Turns bytes into events, in whatever pieces they come.

    Examples
    --------
    >>> decoder = PacketDecoder()
    >>> list(decoder.feed(bytes([0, 0, 0, 1])))
    []
    >>> list(decoder.feed(b"Q"))
    [Quit()]
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events that are whole.

        Raises
        ------
        MilterProtocolError
            If a packet is empty or too long, of no known kind, or not of the
            form of its kind.
        """
        held = self._held
        held += data
        start = 0
        try:
            while len(held) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(held, start)
                if not 1 <= length <= MAX_PACKET_BYTES:
                    msg = (
                        f"a packet has {length} bytes, and the limits are 1 and "
                        f"{MAX_PACKET_BYTES}"
                    )
                    raise MilterProtocolError(msg)
                end = start + _LENGTH.size + length
                if len(held) < end:
                    break
                packet = bytes(held[start + _LENGTH.size : end])
                start = end
                yield _event(packet[:1], packet[1:])
        finally:
            # Once for all packets of a read, so that many small ones do not
            # move the rest again and again.
            del held[:start]


def _event(command: bytes, data: bytes) -> Event:
    read = _READ.get(command)
    if read is None:
        msg = f"{command!r} is not a command of the milter protocol"
        raise MilterProtocolError(msg)
    return read(data)


def _negotiate(data: bytes) -> Event:
    if len(data) < _OPTIONS.size:
        msg = f"the options have {len(data)} bytes, and need {_OPTIONS.size}"
        raise MilterProtocolError(msg)
    # Later versions may say more behind them.
    return Negotiate(*_OPTIONS.unpack_from(data))


def _macros(data: bytes) -> Event:
    # The first byte is the command that they go with.
    words = _texts(data[1:])[: 2 * MAX_MACROS]
    return Macros(dict(zip(words[::2], words[1::2], strict=False)))


def _connect(data: bytes) -> Event:
    name, _, rest = data.partition(b"\0")
    # A family, a port in two bytes, and the address where there is one.
    return Connect(_text(name), _first(rest[3:]))


def _header(data: bytes) -> Event:
    parts = data.split(b"\0", 3)
    if len(parts) != 3 or parts[2]:  # noqa: PLR2004  name, value, nothing
        msg = "a header must be a name and a value, each with a NUL at its end"
        raise MilterProtocolError(msg)
    return HeaderField(parts[0], parts[1])


_READ: Final[Mapping[bytes, Callable[[bytes], Event]]] = {
    b"A": lambda _: Abort(),
    b"B": Body,
    b"C": _connect,
    b"D": _macros,
    b"E": End,
    b"H": lambda data: Helo(_first(data)),
    b"K": lambda _: QuitClient(),
    b"L": _header,
    b"M": lambda data: Mail(_first(data)),
    b"N": lambda _: EndOfHeaders(),
    b"O": _negotiate,
    b"Q": lambda _: Quit(),
    b"R": lambda data: Recipient(_first(data)),
    b"T": lambda _: Other(),
    b"U": lambda _: Other(),
}


def _first(data: bytes) -> str:
    return _text(data.partition(b"\0")[0])


def _texts(data: bytes) -> list[str]:
    return [_text(part) for part in data.removesuffix(b"\0").split(b"\0")]


def _text(data: bytes) -> str:
    """Return text for logs and look-ups, whatever bytes it is made of."""
    return data.decode("utf-8", "replace")


def packet(command: bytes, data: bytes = b"") -> bytes:
    r"""Return a packet.

    Examples
    --------
    >>> packet(b"c")
    b'\x00\x00\x00\x01c'
    """
    return _LENGTH.pack(1 + len(data)) + command + data


CONTINUE: Final = packet(b"c")
SKIP: Final = packet(b"s")


def negotiated(version: int, actions: Actions, steps: Steps) -> bytes:
    """Return the options that the filter chooses."""
    return packet(b"O", _OPTIONS.pack(version, actions, steps))


def add_header(name: str, value: str) -> bytes:
    """Add a header below the others."""
    return packet(b"h", _zero(name) + _zero(value))


def insert_header(number: int, name: str, value: str) -> bytes:
    """Add a header above the others: 0 is the first place."""
    return packet(b"i", _LENGTH.pack(number) + _zero(name) + _zero(value))


def delete_header(name: bytes, number: int) -> bytes:
    """Delete a header: of those with its name the first, the second, ..."""
    return packet(b"m", _LENGTH.pack(number) + name + b"\0\0")


def quarantine(reason: str) -> bytes:
    """Keep the message until somebody decides."""
    return packet(b"q", _zero(reason))


def reply(text: str) -> bytes:
    """Answer the client with a code of three digits and a sentence."""
    return packet(b"y", _zero(text))


def _zero(text: str) -> bytes:
    return text.encode("utf-8", "replace").replace(b"\0", b"") + b"\0"
