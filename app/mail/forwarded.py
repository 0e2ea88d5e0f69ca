"""Forwarded messages: the messages in a mail to an address that teaches.

Contract of this file: any bytes in.  A message comes out unchanged except for its line
ends, which become LF; a message inside a forwarded one is part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.mail.encoding import decode_transfer
from app.mail.limits import (
    MAX_BYTES,
    MAX_FORWARDED,
    MAX_FORWARDED_BYTES,
    MAX_LINES,
    Budget,
)
from app.mail.parse import parse
from app.mail.tree import Node, nested

if TYPE_CHECKING:
    from collections.abc import Iterator

_MESSAGES: Final = frozenset({"message/rfc822", "message/global"})
_HEADERS: Final = frozenset({"text/rfc822-headers", "message/global-headers"})
# RFC 5965 section 2.
_REPORT: Final = b"feedback-report"
_MAX_LINES: Final = MAX_LINES * (MAX_FORWARDED_BYTES // MAX_BYTES)
_ID: Final = re.compile(
    r"(?<![\w-])X-Postbayes-Id:\s{0,9}([0-9a-f]{32})\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """The messages in a forwarded mail.

    Parameters
    ----------
    messages : tuple of bytes
        Complete messages.
    ids : tuple of str
        Ids of messages of which only the headers are attached, or which a text quotes.
        Anybody can write such a line, so an id is only a hint.
    """

    messages: tuple[bytes, ...] = ()
    ids: tuple[str, ...] = ()


class _Envelope(Node):
    """A message or part that leaves the messages in it unparsed."""

    def get_content_maintype(self) -> str:
        """Return the main type, which decides whether the parser looks for parts."""
        maintype = super().get_content_maintype()
        return "text" if maintype == "message" else maintype


def forwarded(raw: bytes) -> Forwarded:
    r"""Return the messages in a message, at most `MAX_FORWARDED`.

    They are its attached messages (RFC 2046 section 5.2.1), from mail programs and
    feedback loops (RFC 5965), and files named ``.eml``, whatever type
    and transfer encoding these declare.  A redirected message (RFC 5322 section 3.6.6)
    is itself the forwarded one, and a forwarded report stands for the message that it
    reports.  If there is no message, an id in the text counts, unless there are
    several.

    Examples
    --------
    >>> mail = b"Content-Type: multipart/mixed; boundary=b\n\n--b\n"
    >>> mail += b"Content-Type: message/rfc822\n\nSubject: Win\n\nHi\n--b--\n"
    >>> forwarded(mail).messages
    (b'Subject: Win\n\nHi',)
    >>> forwarded(b"Subject: Fwd\n\n> X-Postbayes-Id: " + b"a5" * 16).ids[0][:6]
    'a5a5a5'
    """
    lines = raw[:MAX_FORWARDED_BYTES].replace(b"\r\n", b"\n").split(b"\n", _MAX_LINES)
    raw = b"\n".join(lines[:_MAX_LINES])
    root, attached, ids = _attached(raw)
    if root.first("resent-from"):
        attached, ids = [raw], []
    messages = []
    for message in attached[:MAX_FORWARDED]:
        if _REPORT in message.lower():
            inner, reported, its_ids = _attached(message)
            if inner.parameter("report-type").lower() == _REPORT.decode():
                messages += reported
                ids += its_ids
                continue
        messages.append(message)
    if not (messages or ids):
        quoted = dict.fromkeys(_quoted(raw))
        ids = [*quoted] if len(quoted) == 1 else []
    ids = [*dict.fromkeys(ids)]
    return Forwarded(
        messages=tuple(messages[:MAX_FORWARDED]), ids=tuple(ids[:MAX_FORWARDED])
    )


def _attached(raw: bytes) -> tuple[Node, list[bytes], list[str]]:
    """Return a message, the messages in it, and the ids in attached headers."""
    text = raw.decode("ascii", "surrogateescape")
    root, nodes = nested(text, Budget(), _Envelope)
    messages: list[bytes] = []
    ids: list[str] = []
    for node in nodes[1:]:
        if node.parts:
            continue
        # The line end before a boundary belongs to it (RFC 2046 section 5.1.1).
        body = node.content.removesuffix(b"\n") if node.depth else node.content
        content, _ = decode_transfer(body, node.encoding)
        if node.media_type in _MESSAGES or node.filename.lower().endswith(".eml"):
            if content.strip():
                messages.append(content)
        elif node.media_type in _HEADERS:
            ids += _ids(content.decode("latin-1"))
    return root, messages, ids


def _ids(text: str) -> list[str]:
    return [each.lower() for each in _ID.findall(text)]


def _quoted(raw: bytes) -> Iterator[str]:
    """Yield the ids in the visible content of a message."""
    for text in parse(raw).texts:
        if text.place != "hidden":
            yield from _ids(text.content)
