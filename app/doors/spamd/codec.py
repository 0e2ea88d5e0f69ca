"""Codec of the spamd protocol: one request from bytes, and its answer as bytes.

A request has a line with the command, fields, an empty line and a message
(docs/protocols/spamd.md).

    awaiting     what comes       then
    command      a line           fields, or the answer to an older PING or SKIP
    fields       a line           fields
    fields       an empty line    message, or the answer to PING or SKIP
    message      bytes            message, or the request where it is whole
    message      end of input     the request, or a mismatch of its length

Contract of this file: no I/O.  Any bytes, in any pieces, become a request or the answer
to what is wrong with them.  At most `MAX_LINE_BYTES` of the head are held, and only the
parsed part of a message, whatever its length and compression.
"""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from app.mail.limits import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping


# Precedent: libspamc's buffer for the head of a request has 8,192 bytes.
MAX_LINE_BYTES: Final = 8_192
# Precedent: spamd accepts 255 fields. spamc sends six.
MAX_FIELDS: Final = 255
# Exim's request with variant=rspamd in spamd_address: the command CHECK, with its own
# fields and answer.
RSPAMD_CHECK: Final = "CHECK RSPAMC"
_COMMAND: Final = re.compile(r"([A-Z_]{1,20}) (R?)SPAMC/(\d{1,3})\.(\d{1,3})\Z")
_FIELD: Final = re.compile(r"([!-9;-~]+)[ \t]*:[ \t]*(.*)\Z")


class SpamdProtocolError(Exception):
    """The input is not the spamd protocol; the message says where."""


def command(line: str) -> tuple[str, tuple[int, int]]:
    """Return the command of the first line, and the version of the protocol.

    Raises
    ------
    SpamdProtocolError
        If the line is malformed, or the command unknown.
    """
    found = _COMMAND.match(line)
    # Under rspamd's name of the protocol, only CHECK is requested.
    if found is None or (found[2] and found[1] != "CHECK"):
        raise SpamdProtocolError(shown(line))
    name = RSPAMD_CHECK if found[2] else found[1]
    if name not in {*_KINDS, "PING", "SKIP"}:
        raise SpamdProtocolError(shown(name))
    return name, (int(found[3]), int(found[4]))


def field(line: str) -> tuple[str, str]:
    """Return the name of a field, in lower case, and its value.

    Raises
    ------
    SpamdProtocolError
        If the line is malformed.
    """
    found = _FIELD.match(line)
    if found is None:
        raise SpamdProtocolError(f"(not of the form 'Name: value': {shown(line)})")
    return found[1].lower(), found[2].strip()


def shown(text: str) -> str:
    r"""Return text of a client in a form safe for one line of an answer.

    Examples
    --------
    >>> shown("a\r\nSPAMD/1.1 0 EX_OK")
    'a??SPAMD/1.1 0 EX_OK'
    """
    kept = "".join(c if c.isascii() and c.isprintable() else "?" for c in text[:128])
    return kept.strip() or "(nothing)"


def failure(code: int, sentence: str) -> bytes:
    r"""Return the one-line answer to a failed request.

    Examples
    --------
    >>> failure(76, "Bad header line: FOO")
    b'SPAMD/1.0 76 Bad header line: FOO\r\n'
    """
    line = "".join(c if c.isascii() and c.isprintable() else "?" for c in sentence)
    return f"SPAMD/1.0 {code} {line[:900]}\r\n".encode("ascii")


# libspamc, Exim and others read only the code; the version is that of spamd.
PONG: Final = b"SPAMD/1.5 0 PONG\r\n"


def success(fields: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
    r"""Return an answer with fields and, if given, a body.

    Examples
    --------
    >>> success([("Spam", "False ; 1.2 / 5.0")])
    b'SPAMD/1.1 0 EX_OK\r\nSpam: False ; 1.2 / 5.0\r\n\r\n'
    """
    lines = ["SPAMD/1.1 0 EX_OK", *(f"{name}: {value}" for name, value in fields)]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii") + body


MAX_DIGITS: Final = 18
Kind = Literal[
    "CHECK",
    "SYMBOLS",
    "REPORT",
    "REPORT_IFSPAM",
    "PROCESS",
    "HEADERS",
    "TELL",
    "CHECK RSPAMC",
]
"""The commands with a message."""
_KINDS: Final[Mapping[str, Kind]] = {kind: kind for kind in get_args(Kind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A complete request about a message.

    Parameters
    ----------
    version : tuple of int
        Version of the client's protocol.
    user : str
        The recipient of the mail; empty if unknown.
    message : bytes
        The beginning of the message, up to one byte more than is parsed.
    whole : bool
        Whether `message` is complete.
    label : str
        For TELL: the class of the message; empty if unknown.
    sets, removes : bool
        For TELL: whether to learn or to forget it.
    """

    kind: Kind
    version: tuple[int, int]
    user: str
    message: bytes
    whole: bool
    label: str
    sets: bool
    removes: bool


class SpamdSession:
    r"""The conversation on one connection.

    Parameters
    ----------
    limit : int
        Largest message as transmitted.  Unit: bytes.

    Attributes
    ----------
    begun : bool
        Whether a command has come; only as long as more input is needed.

    Examples
    --------
    >>> session = SpamdSession(limit=100)
    >>> session.receive(b"PING SPAMC/1.5\r\n"), session.receive(b"\r\n")
    (None, b'SPAMD/1.5 0 PONG\r\n')
    """

    def __init__(self, limit: int) -> None:
        self._held = bytearray()
        self._reading = _request(limit, self._held)
        self.begun = next(self._reading)

    def receive(self, data: bytes) -> Request | bytes | None:
        """Process the next bytes of the client; empty at the end of its input.

        Returns
        -------
        Request, bytes or None
            A complete request to answer, an answer to send, or None if more input is
            needed.  After the first two, the session has ended.
        """
        try:
            self.begun = self._reading.send(data)
        except StopIteration as end:
            result: Request | bytes = end.value
            return result
        except SpamdProtocolError as error:
            return failure(os.EX_PROTOCOL, f"Bad header line: {error}")
        return None


def _request(limit: int, held: bytearray) -> Generator[bool, bytes, Request | bytes]:
    """Read a request; return it, or its answer if it has no message.

    Whenever it needs more input, it yields whether a command has come.

    Parameters
    ----------
    limit : int
        Largest message as transmitted.  Unit: bytes.
    held : bytearray
        What has come of the head and is no whole line yet.
    """
    line = yield from _line(held, begun=False)
    if line is None:
        # A client that hangs up before its command gets no answer.
        return b""
    name, version = command(line)
    alone = {"PING": PONG, "SKIP": b""}.get(name)
    # Up to version 1.4 nothing follows a PING. From 1.5 on an empty line does, and a
    # hang-up before reading it would discard the answer.
    if alone is not None and version < (1, 5):
        return alone
    given: list[tuple[str, str]] = []
    while line := (yield from _line(held, begun=True)):
        if len(given) == MAX_FIELDS:
            raise SpamdProtocolError(f"(more than {MAX_FIELDS} fields)")
        given.append(field(line))
    if alone is not None:
        return alone
    # The first one counts: a repeated field changes nothing.
    fields = dict(reversed(given))
    # Whether the local filter should learn or forget the message.
    sets, removes = (
        "local" in fields.get(verb, "").lower() for verb in ("set", "remove")
    )
    if sets and removes:
        raise SpamdProtocolError("(a message cannot be set and removed at once)")
    message = yield from _message(fields, limit, held, ended=line is None)
    if message is None:
        sentence = (
            f"the message has more than {limit} bytes; raise "
            "POSTBAYES_MAX_REQUEST_BYTES, or lower the limit of the client (spamc -s)"
        )
        return failure(os.EX_DATAERR, sentence)
    user = fields.get("user", "")
    # rspamd's User is the authenticated sender, but the mail belongs to the recipients.
    if name == RSPAMD_CHECK:
        user = ",".join(value for each, value in given if each == "rcpt")
    return Request(
        kind=_KINDS[name],
        version=version,
        user=user,
        message=message,
        whole=len(message) <= MAX_BYTES,
        label=fields.get("message-class", "").lower(),
        sets=sets,
        removes=removes,
    )


def _line(held: bytearray, *, begun: bool) -> Generator[bool, bytes, str | None]:
    """Return the next line of the head; None at the end of the input.

    Raises
    ------
    SpamdProtocolError
        If it is too long.
    """
    while (end := held.find(b"\n", 0, MAX_LINE_BYTES + 1)) < 0:
        if len(held) > MAX_LINE_BYTES:
            raise SpamdProtocolError(f"(a line of more than {MAX_LINE_BYTES} bytes)")
        data = yield begun
        if not data:
            held.clear()
            return None
        held += data
    line = held[:end].removesuffix(b"\r").decode("utf-8", "replace")
    del held[: end + 1]
    return line


def _message(
    fields: Mapping[str, str], limit: int, held: bytearray, *, ended: bool
) -> Generator[bool, bytes, bytes | None]:
    """Return the beginning of the message, decompressed; None if it is too large.

    Raises
    ------
    SpamdProtocolError
        If a field about it is malformed, its length is another than announced, or it
        cannot be decompressed.
    """
    length = _length(fields.get("content-length"))
    inflater = zlib.decompressobj() if _is_packed(fields.get("compress")) else None
    if length is not None and length > limit:
        return None
    kept, sent = bytearray(), 0
    # The announced length is enough, because not every client shuts down its side.
    while not ended and sent <= limit and (length is None or sent < length):
        # What came behind the head, and then what comes.
        data = bytes(held) or (yield True)
        held.clear()
        ended = not data
        # Some clients send an empty line after the message and do not count it.
        if length is not None and not data[length - sent :].strip(b"\r\n"):
            data = data[: length - sent]
        sent += len(data)
        # Up to one byte more than is parsed.  A thousandth of the bytes may inflate to
        # the whole limit. zlib produces no more bytes than are requested, so only the
        # remaining room is requested.
        room = MAX_BYTES + 1 - len(kept)
        if room and data:
            try:
                kept += inflater.decompress(data, room) if inflater else data[:room]
            except zlib.error as error:
                msg = f"(the message cannot be decompressed: {shown(str(error))})"
                raise SpamdProtocolError(msg) from error
    if sent > limit:
        return None
    if length is not None and sent != length:
        msg = f"(Content-length mismatch: expected {length} bytes, got {sent})"
        raise SpamdProtocolError(msg)
    if inflater and len(kept) <= MAX_BYTES and not inflater.eof:
        raise SpamdProtocolError("(the compressed message is incomplete)")
    return bytes(kept)


def _length(text: str | None) -> int | None:
    """Return the announced length of a message; None if there is none."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise SpamdProtocolError(f"(Content-length is not a number: {shown(text)})")
    return int(text)


def _is_packed(text: str | None) -> bool:
    """Return whether the message is compressed."""
    if text is None:
        return False
    if text.lower() != "zlib":
        msg = f"(unknown compression: {shown(text)}; only zlib is supported)"
        raise SpamdProtocolError(msg)
    return True
