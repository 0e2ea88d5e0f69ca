"""Codec of the spamd protocol: lines from bytes, answers as bytes.

A request has a line with the command, fields, an empty line and a message
(docs/protocols/spamd.md).

Contract of this file: any bytes, in any pieces, become lines or one
`SpamdProtocolError`, and at most `MAX_LINE_BYTES` are held.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
