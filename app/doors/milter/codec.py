"""Codec of the milter protocol: packets from bytes, answers as bytes, result headers.

A packet has a length in four bytes, a command byte and data (docs/protocols/milter.md).
The session knows the commands.

Contract of this file: any bytes, in any pieces, become packets or one
`MilterProtocolError`, and at most `MAX_PACKET_BYTES` are held.

RFC 8601 defines a header field in which a receiving server records results of sender
authentication for programs.  Other filters add their verdict on the content as a method
that begins with ``x-`` (Fastmail: ``x-vs=clean score=0``), and so does Postbayes.
"""

from __future__ import annotations

import re
from enum import IntFlag
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from app.errors import InvalidSetting
from app.mail.authentication import is_server_name
from app.mail.headers import OUR_METHOD

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from app.services.classify import Classified

# The largest packet of libmilter: MILTER_MAX_DATA_SIZE of 1 MiB. Postfix and Sendmail
# send bodies in pieces of 64 KiB, and headers of at most 100 kB (header_size_limit) and
# 32 kB (MaxHeadersLength).
MAX_PACKET_BYTES: Final = 1024 * 1024
# A connection's macros are kept until its end. Sendmail has some sixty.
MAX_MACROS: Final = 100
# Longer names and addresses are cut. Postfix cuts lines of clients (line_length_limit)
# at this length; 300 recipients of 1 MB took 300 MB.
MAX_TEXT_BYTES: Final = 2_048
_LENGTH: Final = Struct("!I")
_OPTIONS: Final = Struct("!III")


class MilterProtocolError(Exception):
    """The input is not the milter protocol; the connection must end."""


class Actions(IntFlag):
    """Changes that the filter may request at the end of a message (SMFIF_*)."""

    ADD_HEADERS = 0x01
    CHANGE_HEADERS = 0x10
    QUARANTINE = 0x20


class Steps(IntFlag):
    """Steps of the protocol that the filter leaves out or changes (SMFIP_*).

    Events without an answer cost no round trip.  Bodies are answered if the mail server
    can skip the rest of one: up to 64 KiB come with the end anyway, and the part of a
    large message that is not scored is not sent at all.
    """

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


class Packet(NamedTuple):
    """A command of the mail server."""

    command: bytes
    """The command byte."""
    data: bytes
    """The data after the command byte."""


class PacketDecoder:
    """Turns bytes, in any pieces, into packets.

    Examples
    --------
    >>> decoder = PacketDecoder()
    >>> list(decoder.feed(bytes([0, 0, 0, 1])))
    []
    >>> list(decoder.feed(b"Q"))
    [Packet(command=b'Q', data=b'')]
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Packet]:
        """Yield the complete packets.

        Raises
        ------
        MilterProtocolError
            If a packet is empty or too long.
        """
        held = self._held
        held += data
        start = 0
        try:
            while len(held) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(held, start)
                if not 1 <= length <= MAX_PACKET_BYTES:
                    raise MilterProtocolError(
                        f"a packet has {length} bytes, and the limits are 1 and "
                        f"{MAX_PACKET_BYTES}"
                    )
                end = start + _LENGTH.size + length
                if len(held) < end:
                    break
                packet = bytes(held[start + _LENGTH.size : end])
                start = end
                yield Packet(packet[:1], packet[1:])
        finally:
            # Once for all packets of a read, so that many small packets do not move the
            # rest again and again.
            del held[:start]


def options(data: bytes) -> tuple[int, int, int]:
    """Return the version, the actions and the steps that a mail server offers.

    Raises
    ------
    MilterProtocolError
        If they are incomplete.
    """
    if len(data) < _OPTIONS.size:
        msg = f"the options have {len(data)} bytes, and need {_OPTIONS.size}"
        raise MilterProtocolError(msg)
    # Later versions may append more.
    version, actions, steps = _OPTIONS.unpack_from(data)
    return version, actions, steps


def macros(data: bytes) -> dict[str, str]:
    """Return the values that a mail server sends before a command."""
    # The first byte is the command to which they belong.
    words = data[1:].removesuffix(b"\0").split(b"\0", 2 * MAX_MACROS)
    return dict(zip(map(text, words[::2]), map(text, words[1::2]), strict=False))


def client(data: bytes) -> tuple[str, str]:
    """Return the name of a client, and its address if it has one."""
    # After the name: the family, the port in two bytes, and the address.
    return text(data), text(data.partition(b"\0")[2][3:])


def header(data: bytes) -> tuple[bytes, bytes]:
    """Return the name of a header field, and its value as the mail server has it.

    Raises
    ------
    MilterProtocolError
        If it is not a name and a value.
    """
    parts = data.split(b"\0", 3)
    if len(parts) != 3 or parts[2]:  # noqa: PLR2004  name, value, nothing
        msg = "a header must be a name and a value, each with a NUL at its end"
        raise MilterProtocolError(msg)
    return parts[0], parts[1]


def text(data: bytes) -> str:
    """Return the bytes before a NUL as text for logs and look-ups, cut if long."""
    return data[:MAX_TEXT_BYTES].partition(b"\0")[0].decode("utf-8", "replace")


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
    """Return the packet with the filter's options."""
    return packet(b"O", _OPTIONS.pack(version, actions, steps))


def add_header(name: str, value: str) -> bytes:
    """Add a header below the others."""
    return packet(b"h", _zero(name) + _zero(value))


def insert_header(number: int, name: str, value: str) -> bytes:
    """Add a header above the others: 0 is the first place."""
    return packet(b"i", _LENGTH.pack(number) + _zero(name) + _zero(value))


def delete_header(name: bytes, number: int) -> bytes:
    """Delete a header, counted from 1 among those with its name."""
    return packet(b"m", _LENGTH.pack(number) + name + b"\0\0")


def quarantine(reason: str) -> bytes:
    """Hold the message until a person decides."""
    return packet(b"q", _zero(reason))


def reply(sentence: str) -> bytes:
    """Answer the client with a three-digit code and a sentence."""
    return packet(b"y", _zero(sentence))


def _zero(value: str) -> bytes:
    return value.encode("utf-8", "replace").replace(b"\0", b"") + b"\0"


NAME: Final = "Authentication-Results"
# Comments and blanks before the id (RFC 5322 section 3.2.2), and the id, with or
# without quotes.
_BLANKS: Final = b" \t\r\n"
_WORD: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"|([^\s;()"]*)', re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
# Servers write none, or one of a few words; a packet of "(" took 0.35 s.
_MAX_COMMENTS_BYTES: Final = 2_048


def parse_authserv_id(text: str | None, *, trusted: Collection[str] = ()) -> str | None:
    """Parse the name under which results are written; None for an empty text.

    Raises
    ------
    InvalidSetting
        If it is not a host name, or is one of the trusted names.

    Examples
    --------
    >>> parse_authserv_id(" mail.example.org ")
    'mail.example.org'
    """
    name = (text or "").strip()
    if not name:
        return None
    if not is_server_name(name):
        raise InvalidSetting(
            f"POSTBAYES_MILTER_AUTHSERV_ID is {text!r}; give a name such as "
            "mail.example.org, of letters, digits, dots and hyphens"
        )
    if name.lower() in {each.lower() for each in trusted}:
        raise InvalidSetting(
            f"POSTBAYES_MILTER_AUTHSERV_ID is {name!r}, whose headers the milter "
            "removes, but POSTBAYES_AUTHSERV_ID trusts them; give the milter a "
            "different name"
        )
    return name


def result(classified: Classified, authserv_id: str) -> str:
    """Return the header value for an answer, folded with LF."""
    verdict = classified.verdict
    return (
        f"{authserv_id};\n"
        f"\t{OUR_METHOD}={verdict.decision} policy.log-odds={verdict.log_odds:+.2f}\n"
        f"\tpolicy.id={classified.observation.id}"
    )


def claims(value: bytes, authserv_id: str) -> bool:
    r"""Return whether a header claims to be written by a server with this name.

    One that begins with very long comments counts as one: in doubt, it is removed.

    Examples
    --------
    >>> claims(b" (by) MX.example.org; spf=pass", "mx.example.org")
    True
    >>> claims(b" mx.example.org.evil.example; spf=pass", "mx.example.org")
    False
    """
    start = _after_comments(value[:_MAX_COMMENTS_BYTES])
    if start >= _MAX_COMMENTS_BYTES:
        return True
    found = _WORD.match(value, start)
    if found is None:
        return False
    quoted, plain = found.groups()
    name = plain if quoted is None else _ESCAPED.sub(rb"\1", quoted)
    # Names of hosts, and so compared as they are.
    return name.lower() == authserv_id.lower().encode()


def _after_comments(value: bytes) -> int:
    """Return the end of the comments and blanks at the beginning of a value."""
    depth = at = 0
    while at < len(value):
        sign = value[at : at + 1]
        if sign == b"(":
            depth += 1
        elif depth and sign == b")":
            depth -= 1
        elif depth and sign == b"\\":
            at += 1
        elif not depth and sign not in _BLANKS:
            break
        at += 1
    return at
