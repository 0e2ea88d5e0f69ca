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

import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from app.mail.limits import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


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


class RequestDecoder:
    r"""Turns bytes into the lines of the head and pieces of the message.

    Examples
    --------
    >>> decoder = RequestDecoder()
    >>> list(decoder.feed(b"CHECK SPAMC/1.5\r\nUser: a"))
    ['CHECK SPAMC/1.5']
    >>> list(decoder.feed(b"nn\r\n\r\nSubject: "))
    ['User: ann', '', b'Subject: ']
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._lines = 0
        self.in_message = False

    def feed(self, data: bytes) -> Iterator[str | bytes]:
        """Yield complete lines up to the empty one, and then the message.

        Raises
        ------
        SpamdProtocolError
            If a line is too long, or there are too many lines.
        """
        if self.in_message:
            yield data
            return
        held = self._held
        held += data
        while not self.in_message:
            end = held.find(b"\n")
            if max(end, len(held) if end < 0 else 0) > MAX_LINE_BYTES:
                msg = f"(a line of more than {MAX_LINE_BYTES} bytes)"
                raise SpamdProtocolError(msg)
            if end < 0:
                return
            line = held[:end].removesuffix(b"\r").decode("utf-8", "replace")
            del held[: end + 1]
            self._lines += 1
            # The first line is the command.
            self.in_message = not line and self._lines > 1
            if line and self._lines > MAX_FIELDS + 1:
                raise SpamdProtocolError(f"(more than {MAX_FIELDS} fields)")
            yield line
        if held:
            yield bytes(held)
            held.clear()


def command(line: str) -> tuple[str, tuple[int, int]]:
    """Return the command of the first line, and the version of the protocol.

    Raises
    ------
    SpamdProtocolError
        If the line is malformed.
    """
    found = _COMMAND.match(line)
    # Under rspamd's name of the protocol, only CHECK is requested.
    if found is None or (found[2] and found[1] != "CHECK"):
        raise SpamdProtocolError(shown(line))
    return RSPAMD_CHECK if found[2] else found[1], (int(found[3]), int(found[4]))


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


# The codes of sysexits.h that spamd answers with.
EX_DATAERR: Final = 65
EX_PROTOCOL: Final = 76
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
    r"""The state of one connection.

    Parameters
    ----------
    limit : int
        Largest message as transmitted.  Unit: bytes.

    Examples
    --------
    >>> session = SpamdSession(limit=100)
    >>> session.receive(b"PING SPAMC/1.5\r\n"), session.receive(b"\r\n")
    (None, b'SPAMD/1.5 0 PONG\r\n')
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._decoder = RequestDecoder()
        self._name = ""
        self._version = (0, 0)
        self._fields: dict[str, str] = {}
        self._recipients: list[str] = []
        self._body = _Body(length=None, packed=False)

    @property
    def begun(self) -> bool:
        """Whether any bytes of a request have come."""
        return bool(self._name)

    def receive(self, data: bytes) -> Request | bytes | None:
        """Process the next bytes of the client; empty at the end of its input.

        Returns
        -------
        Request, bytes or None
            A complete request to answer, an answer to send, or None if more input is
            needed.  After the first two, the session has ended.
        """
        try:
            if not data:
                return self._end()
            for event in self._decoder.feed(data):
                result = self._take(event)
                if result is not None:
                    return result
        except SpamdProtocolError as error:
            return failure(EX_PROTOCOL, f"Bad header line: {error}")
        return None

    def _take(self, event: str | bytes) -> Request | bytes | None:
        if isinstance(event, bytes):
            return self._add(event)
        if not self._name:
            name, self._version = command(event)
            if name not in {*_KINDS, "PING", "SKIP"}:
                raise SpamdProtocolError(shown(name))
            self._name = name
            # Up to version 1.4 nothing follows a PING. From 1.5 on an empty line does,
            # and a hang-up before reading it would discard the answer.
            return self._alone() if self._version < (1, 5) else None
        if not event:
            return self._begin()
        name, value = field(event)
        # The first one counts: a repeated field changes nothing.
        self._fields.setdefault(name, value)
        if name == "rcpt":
            self._recipients.append(value)
        return None

    def _begin(self) -> Request | bytes | None:
        """Read the complete fields."""
        alone = self._alone()
        if alone is not None:
            return alone
        if self._asks_to("remove") and self._asks_to("set"):
            raise SpamdProtocolError("(a message cannot be set and removed at once)")
        self._body = _Body(length=self._length(), packed=self._packed())
        return self._add(b"")

    def _alone(self) -> bytes | None:
        """Return the answer to a command without a message."""
        return {"PING": PONG, "SKIP": b""}.get(self._name)

    def _add(self, data: bytes) -> Request | bytes | None:
        body = self._body
        body.add(data)
        if max(body.sent, body.length or 0) > self._limit:
            sentence = (
                f"the message has more than {self._limit} bytes; raise "
                "POSTBAYES_MAX_REQUEST_BYTES, or lower the limit of the client "
                "(spamc -s)"
            )
            return failure(EX_DATAERR, sentence)
        # The announced length is enough, because not every client shuts down its side.
        if body.length is not None and body.sent >= body.length:
            return self._whole()
        return None

    def _end(self) -> Request | bytes:
        # A client that hangs up before its command gets no answer.
        if not self._name:
            return b""
        answer = None if self._decoder.in_message else self._begin()
        # The answer to SKIP is empty.
        return self._whole() if answer is None else answer

    def _whole(self) -> Request:
        body = self._body
        if body.length is not None and body.sent != body.length:
            raise SpamdProtocolError(
                f"(Content-length mismatch: expected {body.length} bytes, "
                f"got {body.sent})"
            )
        body.close()
        user = self._fields.get("user", "")
        # rspamd's User is the authenticated sender, but the mail belongs to the
        # recipients.
        if self._name == RSPAMD_CHECK:
            user = ",".join(self._recipients)
        return Request(
            kind=_KINDS[self._name],
            version=self._version,
            user=user,
            message=bytes(body.kept),
            whole=len(body.kept) <= MAX_BYTES,
            label=self._fields.get("message-class", "").lower(),
            sets=self._asks_to("set"),
            removes=self._asks_to("remove"),
        )

    def _asks_to(self, verb: Literal["set", "remove"]) -> bool:
        """Return whether the local filter should learn or forget the message."""
        return "local" in self._fields.get(verb, "").lower()

    def _length(self) -> int | None:
        text = self._fields.get("content-length")
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
            raise SpamdProtocolError(f"(Content-length is not a number: {shown(text)})")
        return int(text)

    def _packed(self) -> bool:
        text = self._fields.get("compress")
        if text is None:
            return False
        if text.lower() != "zlib":
            msg = f"(unknown compression: {shown(text)}; only zlib is supported)"
            raise SpamdProtocolError(msg)
        return True


class _Body:
    """The beginning of the message, decompressed if necessary."""

    def __init__(self, *, length: int | None, packed: bool) -> None:
        self.length = length
        self.sent = 0
        self.kept = bytearray()
        self._inflater = zlib.decompressobj() if packed else None

    def add(self, data: bytes) -> None:
        """Add bytes, up to one more than is parsed.

        Raises
        ------
        SpamdProtocolError
            If the message cannot be decompressed.
        """
        self.sent += len(data)
        # A thousandth of the bytes may inflate to the whole limit. zlib produces no
        # more bytes than are requested, so only the remaining room is requested.
        room = MAX_BYTES + 1 - len(self.kept)
        if not room or not data:
            return
        if self._inflater is None:
            self.kept += data[:room]
            return
        try:
            self.kept += self._inflater.decompress(data, room)
        except zlib.error as error:
            msg = f"(the message cannot be decompressed: {shown(str(error))})"
            raise SpamdProtocolError(msg) from error

    def close(self) -> None:
        """Raise if a compressed message was truncated.

        Raises
        ------
        SpamdProtocolError
            If it was.
        """
        if self._inflater is None or len(self.kept) > MAX_BYTES:
            return
        if not self._inflater.eof:
            raise SpamdProtocolError("(the compressed message is incomplete)")
