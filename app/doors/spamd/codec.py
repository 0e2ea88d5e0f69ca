"""Codec of the spamd protocol: bytes to events, and answers to bytes.

A request is a line with the command, fields, an empty line and a message
(docs/protocols/spamd.md).

Contract of this file: any bytes become events or one `SpamdProtocolError`, whatever
pieces they come in, and never more than `MAX_LINE_BYTES` are held.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Precedent: libspamc's buffer for the whole head of a request has 8,192 bytes.
MAX_LINE_BYTES: Final = 8_192
# Precedent: spamd takes 255 fields. spamc sends six.
MAX_FIELDS: Final = 255
# The request of Exim with variant=rspamd in its spamd_address: the command CHECK, with
# fields and an answer of its own.
RSPAMD_CHECK: Final = "CHECK RSPAMC"
_COMMAND: Final = re.compile(r"([A-Z_]{1,20}) (R?)SPAMC/(\d{1,3})\.(\d{1,3})\Z")
_FIELD: Final = re.compile(r"([!-9;-~]+)[ \t]*:[ \t]*(.*)\Z")


class SpamdProtocolError(Exception):
    """The input is not the spamd protocol; the sentence says where."""


@dataclass(frozen=True, slots=True)
class Command:
    """The first line: the command, and the version of the protocol."""

    name: str
    version: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Field:
    """One field, its name in lower case."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class EndOfFields:
    """The empty line; a message may follow."""


@dataclass(frozen=True, slots=True)
class Data:
    """A piece of the message, as it is sent."""

    data: bytes


Event = Command | Field | EndOfFields | Data


class RequestDecoder:
    r"""Turns bytes into events, in whatever pieces they come.

    Examples
    --------
    >>> decoder = RequestDecoder()
    >>> list(decoder.feed(b"CHECK SPAMC/1.5\r\nUser: a"))
    [Command(name='CHECK', version=(1, 5))]
    >>> list(decoder.feed(b"nn\r\n\r\nSubject: "))
    [Field(name='user', value='ann'), EndOfFields(), Data(data=b'Subject: ')]
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._lines = 0
        self._in_message = False

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yield the events that are whole.

        Raises
        ------
        SpamdProtocolError
            If a line is too long, there are too many, or one is not of its
            form.
        """
        if self._in_message:
            yield Data(data)
            return
        held = self._held
        held += data
        while not self._in_message:
            end = held.find(b"\n")
            if max(end, len(held) if end < 0 else 0) > MAX_LINE_BYTES:
                msg = f"(a line of more than {MAX_LINE_BYTES} bytes)"
                raise SpamdProtocolError(msg)
            if end < 0:
                return
            line = held[:end].removesuffix(b"\r").decode("utf-8", "replace")
            del held[: end + 1]
            yield self._event(line)
        if held:
            yield Data(bytes(held))
            held.clear()

    def _event(self, line: str) -> Event:
        self._lines += 1
        if self._lines == 1:
            command = _COMMAND.match(line)
            if command is None:
                raise SpamdProtocolError(shown(line))
            # CHECK is all that is asked by rspamd's name for the protocol.
            if command[2] and command[1] != "CHECK":
                raise SpamdProtocolError(shown(line))
            name = RSPAMD_CHECK if command[2] else command[1]
            return Command(name, (int(command[3]), int(command[4])))
        if not line:
            self._in_message = True
            return EndOfFields()
        if self._lines > MAX_FIELDS + 1:
            raise SpamdProtocolError(f"(more than {MAX_FIELDS} fields)")
        field = _FIELD.match(line)
        if field is None:
            raise SpamdProtocolError(f"(not of the form 'Name: value': {shown(line)})")
        return Field(field[1].lower(), field[2].strip())


def shown(text: str) -> str:
    r"""Return text of a client as it may stand in one line of an answer.

    Examples
    --------
    >>> shown("a\r\nSPAMD/1.1 0 EX_OK")
    'a??SPAMD/1.1 0 EX_OK'
    """
    kept = "".join(c if c.isascii() and c.isprintable() else "?" for c in text[:128])
    return kept.strip() or "(nothing)"


def failure(code: int, sentence: str) -> bytes:
    r"""Return the answer to a request that fails: one line.

    Examples
    --------
    >>> failure(76, "Bad header line: FOO")
    b'SPAMD/1.0 76 Bad header line: FOO\r\n'
    """
    line = "".join(c if c.isascii() and c.isprintable() else "?" for c in sentence)
    return f"SPAMD/1.0 {code} {line[:900]}\r\n".encode("ascii")


# What libspamc, Exim and others read is the code; the version is spamd's own.
PONG: Final = b"SPAMD/1.5 0 PONG\r\n"


def success(fields: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
    r"""Return an answer with fields, and a body where there is one.

    Examples
    --------
    >>> success([("Spam", "False ; 1.2 / 5.0")])
    b'SPAMD/1.1 0 EX_OK\r\nSpam: False ; 1.2 / 5.0\r\n\r\n'
    """
    lines = ["SPAMD/1.1 0 EX_OK", *(f"{name}: {value}" for name, value in fields)]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii") + body
