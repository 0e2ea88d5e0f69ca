"""Parser: raw bytes to a Message with its defects, within the limits.

Contract of this file: any bytes in, a Message out.  `app.mail.limits` bounds time and
memory; errors in the input are defects of the Message.  If a decoder fails on a part,
the rest of the message is still read.  Nothing is unpacked: only the directory of an
archive is read.  A forwarded message comes out unchanged except for its line ends,
which become LF; a message inside a forwarded one is part of it.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import text as kernel
from app.mail import headers, html
from app.mail.encoding import (
    charset_of_page,
    decode_text,
    decode_transfer,
    without_uuencoded,
)
from app.mail.limits import (
    MAX_BYTES,
    MAX_FORWARDED,
    MAX_FORWARDED_BYTES,
    MAX_HEADER_CHARS,
    MAX_HEADERS_CHARS,
    MAX_LINKS,
    MAX_MEMBER_NAME_BYTES,
    MAX_MEMBERS,
    MAX_PARTS,
    MAX_TEXT_CHARS,
    Budget,
)
from app.mail.message import Header, Link, Message, Part, Place, Text, links_in
from app.mail.tree import MESSAGES, Node, build, nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_FINGERPRINT_BYTES: Final = 16
# The base of the errors that decoders raise because of content: `binascii.Error`,
# `UnicodeError` and other errors of codecs. The decoders of this package catch them
# all, as their property tests show. Errors of the program itself (TypeError, KeyError,
# IndexError) are not included.
_UNREADABLE: Final = ValueError
# Newsletters repeat themselves for Gmail and for watches, whose programs say so. The
# last two have elements too (RFC 1341, RFC 1896).
_PAGES: Final = frozenset(
    f"text/{kind}"
    for kind in ("html", "x-amp-html", "watch-html", "richtext", "enriched")
)
# Mail programs show the events of a calendar beside the alternative that they choose,
# and those of an attached one (experiment 0124).
_CALENDARS: Final = frozenset({"text/calendar", "application/ics"})
# Of other texts, such as reports on delivery and cards, some mail programs show nothing
# but their names.  They are read if there is nothing else (experiment 0126).
_SHOWN: Final = frozenset({"text/plain", *_PAGES, *_CALENDARS})
# What people read of them, in lines that are not folded (RFC 5545, 3.1 and 3.8.1).
_OF_EVENTS: Final = re.compile(
    r"^(?:SUMMARY|DESCRIPTION|LOCATION|COMMENT|CONTACT|URL)"
    r"(?:;(?>(?:\"[^\"\n]*+\"|[^\":\n]++)*))?:([^\n]*+)",
    re.MULTILINE | re.IGNORECASE,
)
# RFC 5545, 3.3.11, without that of a backslash, which would take a function for each:
# 0.9 s for 4 MB of them, and these 0.1.
_ESCAPED: Final = {r"\n": "\n", r"\N": "\n", r"\,": ",", r"\;": ";"}
# The containers of which mail programs show one part.
_CHOICES: Final = frozenset({"multipart/alternative", "multipart/related"})
# The line before each message in an mbox; a sentence that begins with "From" does not
# contain a time.
_MBOX_LINE: Final = re.compile(rb">?From [^\n]{0,500}\d\d:\d\d[^\n]{0,100}\n")


def parse(raw: bytes) -> Message:
    r"""Decode a message.

    Parameters
    ----------
    raw : bytes
        A message (RFC 5322, MIME), an mbox entry, text without headers, or any other
        bytes.

    Examples
    --------
    >>> message = parse(b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n\nHallo!\n")
    >>> message.header("subject"), message.texts[0].content
    ('Grüße', 'Hallo!\n')
    >>> parse(b"just text").texts[0].content
    'just text'
    """
    reader = _Reader()
    root = build(reader.cut(raw), reader.budget)
    for node, other in _leaves(root, reader):
        reader.add_leaf(node, other=other)
    reader.add_others()
    return Message(
        headers=reader.decode_headers(root),
        texts=tuple(reader.texts),
        links=tuple(reader.links),
        parts=tuple(reader.parts),
        containers=tuple(reader.containers),
        defects=tuple(sorted(reader.defects)),
        raw=raw,
    )


class _Reader:
    """The state of parsing one message."""

    def __init__(self) -> None:
        self.budget = Budget()
        self.defects = self.budget.defects
        self.texts: list[Text] = []
        self.links: list[Link] = []
        self.others: list[str] = []
        self.parts: list[Part] = []
        self.containers: list[str] = []
        self.charset = ""
        self.room = MAX_TEXT_CHARS

    def cut(self, raw: bytes) -> bytes:
        """Return the message with LF line ends, within the limits."""
        if len(raw) > MAX_BYTES:
            raw = raw[:MAX_BYTES]
            self.defects.add("message-too-large")
        raw = _with_lf(raw)
        if b"\0" in raw:
            self.defects.add("nul-bytes")
        raw = raw.removeprefix(b"\xef\xbb\xbf").lstrip(b"\n")
        line = _MBOX_LINE.match(raw)
        return raw[line.end() :] if line else raw

    def decode_headers(self, root: Node) -> tuple[Header, ...]:
        """Return the headers of a message without verdicts of filters."""
        found = []
        room = MAX_HEADERS_CHARS
        for name, raw in root.fields:
            if headers.is_verdict(name):
                continue
            room -= len(name) + min(len(raw), MAX_HEADER_CHARS)
            if room < 0:
                self.defects.add("headers-too-long")
                break
            value, defects = headers.decode_value(raw, self.charset, self.budget)
            if headers.is_our_result(name, value):
                continue
            if defects:
                self.defects |= defects
            found.append(Header(name, value))
        return tuple(found)

    def add_text(self, place: Place, content: str) -> str:
        """Keep a text within the budget; return the part that was kept."""
        content = headers.without_controls(content)
        if len(content) > self.room:
            # A page shows many blanks as one, and they could displace its words.
            content = " ".join(content.split())
        if len(content) > self.room:
            content = content[: self.room]
            self.defects.add("text-too-long")
        self.room -= len(content)
        if content:
            self.texts.append(Text(place, content))
        return content

    def add_links(self, found: tuple[Link, ...] | list[Link]) -> None:
        """Keep links within the limit."""
        self.links += found[: MAX_LINKS - len(self.links)]

    def add_leaf(self, node: Node, *, other: bool) -> None:
        """Read a part; if a decoder fails on it, only list it.

        Of a part instead of which another is shown, only plain text is kept.
        """
        listed = len(self.parts)
        try:
            self._read_leaf(node, other=other)
        except _UNREADABLE:
            self.defects.add("part-unreadable")
            if len(self.parts) == listed:
                self.parts.append(_opaque(node))

    def _read_leaf(self, node: Node, *, other: bool) -> None:
        """Decode a part and its visible content."""
        encoding, declared, media_type = node.encoding, node.charset, node.media_type
        content, defect = decode_transfer(node.content, encoding)
        if defect:
            self.defects.add(defect)
        # A multipart without parts has no or a wrong boundary; what else is about a
        # message, such as a report on its delivery, is text.
        shown = media_type.startswith(("text/", "multipart/", "message/"))
        disposition = node.disposition
        # There is nothing that a whole message could be attached to.
        shown = shown and (disposition != "attachment" or not node.depth)
        shown = shown or media_type in _CALENDARS
        kind = "" if shown else file_kind(content)
        part = Part(
            media_type=media_type,
            charset=declared,
            encoding=encoding,
            disposition=disposition,
            filename=node.filename,
            size=len(content),
            depth=node.depth,
            fingerprint=_fingerprint(content),
            kind=kind,
            members=self.list_members(content) if kind == "zip" else (),
        )
        self.parts.append(part)
        if not shown:
            return
        page = media_type in _PAGES
        if not page and b"begin " in content:
            content = self.take_uuencoded(content, node.depth)
        if page:
            declared = charset_of_page(content, declared)
        text, as_declared = decode_text(content, declared, self.budget)
        if not as_declared:
            self.defects.add("charset-mismatch")
        self.charset = self.charset or declared
        if page:
            if not other:
                self._add_page(html.read(text, self.budget))
        elif other or media_type not in _SHOWN:
            self.others.append(text)
        else:
            if media_type in _CALENDARS:
                text = _events(text)
                text = text[: self.budget.take("events", len(text))]
            self.add_links(links_in(self.add_text("plain", text)))

    def add_others(self) -> None:
        """Keep the texts instead of which others are shown, if there is anything shown.

        They are last, so that they take no room from what is shown.
        """
        blank = not self.links and not any(x.content.strip() for x in self.texts)
        for text in self.others:
            if blank:
                self.add_links(links_in(self.add_text("plain", text)))
            else:
                self.add_text("alternative", text)

    def list_members(self, content: bytes) -> tuple[str, ...]:
        """Return the names in an archive."""
        names, defect = members_of(content)
        if defect:
            self.defects.add(defect)
        return names

    def take_uuencoded(self, content: bytes, depth: int) -> bytes:
        """Return a text without the files that are uuencoded in it."""
        content, found, defect = without_uuencoded(content)
        if defect:
            self.defects.add(defect)
        for filename, file in found[: max(0, MAX_PARTS - len(self.parts))]:
            kind = file_kind(file)
            self.parts.append(
                Part(
                    media_type="application/octet-stream",
                    encoding="x-uuencode",
                    filename=headers.decode_value(filename, budget=self.budget)[0],
                    size=len(file),
                    depth=depth,
                    fingerprint=_fingerprint(file),
                    kind=kind,
                    members=self.list_members(file) if kind == "zip" else (),
                )
            )
        return content

    def _add_page(self, page: html.Page) -> None:
        """Keep the visible content of an HTML part."""
        self.defects.update(page.defects)
        self.add_text("html", page.text)
        for text in page.alternatives:
            self.add_text("alt", text)
        self.add_text("hidden", page.hidden)
        self.add_links(page.links)


def _leaves(root: Node, reader: _Reader) -> Iterator[tuple[Node, bool]]:
    """Yield the leaves in order, and whether another is shown instead of each."""
    waiting = [(root, False)]
    while waiting:
        node, other = waiting.pop()
        if not node.parts:
            yield node, other
            continue
        reader.containers.append(node.media_type)
        if node.media_type in MESSAGES:
            for child in node.parts:
                for name, raw in child.fields:
                    if name == "subject":
                        subject, _ = headers.decode_value(raw, budget=reader.budget)
                        reader.add_text("attached", subject)
        among = node.media_type in _CHOICES
        shown = _shown(node) if among else None
        for child in reversed(node.parts):
            read = not among or child is shown or child.media_type in _CALENDARS
            waiting.append((child, other or not read))


def _shown(node: Node) -> Node | None:
    """Return the part that mail programs show: of alternatives the last page, or text.

    Of related parts it is the root; the others are its pictures (RFC 2387).
    """
    if node.media_type != "multipart/alternative":
        start = node.parameter("start").strip("<> ")
        ids = [child.first("content-id").strip("<> ") for child in node.parts]
        return node.parts[ids.index(start) if start and start in ids else 0]
    for kinds in (("text/html", "multipart/"), ("text/plain",), ("",)):
        for child in reversed(node.parts):
            if child.media_type.startswith(kinds) and _is_shown(child):
                return child
    return None


def _is_shown(node: Node) -> bool:
    """Return whether a part is no file, and a container has text that is none."""
    if node.disposition == "attachment":
        return False
    return not node.parts or any(
        child.parts or child.media_type.startswith("text/")
        for child in node.parts
        if _is_shown(child)
    )


def _events(calendar: str) -> str:
    """Return what people read of a calendar."""
    lines = calendar.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "")
    found = "\n".join(_OF_EVENTS.findall(lines))
    for escaped, meant in _ESCAPED.items():
        found = found.replace(escaped, meant)
    return found


def _opaque(node: Node) -> Part:
    """Return a part with only its type and size."""
    return Part(
        media_type=node.media_type,
        size=len(node.content),
        depth=node.depth,
        fingerprint=_fingerprint(node.content),
    )


def _fingerprint(content: bytes) -> bytes:
    """Hash content so that a change of the transfer encoding makes no difference."""
    return blake2b(_with_lf(content).rstrip(), digest_size=_FINGERPRINT_BYTES).digest()


def _with_lf(content: bytes) -> bytes:
    """Return content with LF line ends."""
    if b"\r" not in content:
        return content
    into = np.empty(len(content), np.uint8)
    size = kernel.with_lf(np.frombuffer(content, np.uint8), into)
    return into[:size].tobytes()


MAGIC: Final = (
    (b"PK\x03\x04", "zip"),
    (b"MZ", "exe"),
    (b"%PDF-", "pdf"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"{\\rtf", "rtf"),
    (b"Rar!\x1a\x07", "rar"),
    (b"\x1f\x8b\x08", "gzip"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
)
"""First bytes of file formats, from their specifications."""
# APPNOTE.TXT 6.3.10, sections 4.3.16 and 4.3.12: end of central directory,
# and one entry of it up to its variable fields.
_END: Final = struct.Struct("<4s4H2LH")
_ENTRY: Final = struct.Struct("<4s4B4HL2L5H2L")
_END_MAGIC: Final = b"PK\x05\x06"
_ENTRY_MAGIC: Final = b"PK\x01\x02"
_MAX_COMMENT: Final = 65_535
_UTF8_FLAG: Final = 0x800


def file_kind(content: bytes) -> str:
    r"""Return the type of a file by its first bytes, or "".

    Examples
    --------
    >>> file_kind(b"%PDF-1.7\n"), file_kind(b"hello")
    ('pdf', '')
    """
    return next((name for magic, name in MAGIC if content.startswith(magic)), "")


def members_of(content: bytes) -> tuple[tuple[str, ...], str]:
    """Return the names in a zip archive, and its defect, or "".

    Parameters
    ----------
    content : bytes
        The archive, possibly truncated.

    Returns
    -------
    names : tuple of str
        The first `MAX_MEMBERS`, in the order of the directory.
    defect : str
        ``archive-broken`` or ``archive-too-large``.
    """
    # Not zipfile: it reads a directory of any size before its size is known, and
    # raises any error of struct, codecs and seek.
    end = content.rfind(_END_MAGIC, max(0, len(content) - _MAX_COMMENT - _END.size))
    if end < 0 or end + _END.size > len(content):
        return (), "archive-broken"
    _, _, _, _, total, size, _, _ = _END.unpack_from(content, end)
    at = end - size
    names: list[str] = []
    while at >= 0 and at + _ENTRY.size <= end and len(names) < MAX_MEMBERS:
        entry = _ENTRY.unpack_from(content, at)
        if entry[0] != _ENTRY_MAGIC:
            return tuple(names), "archive-broken"
        flags, name_size, extra_size, comment_size = entry[5], *entry[12:15]
        start = at + _ENTRY.size
        name = content[start : start + min(name_size, MAX_MEMBER_NAME_BYTES)]
        names.append(name.decode("utf-8" if flags & _UTF8_FLAG else "cp437", "replace"))
        at = start + name_size + extra_size + comment_size
    if len(names) == MAX_MEMBERS and at < end:
        return tuple(names), "archive-too-large"
    return tuple(names), "" if at == end and len(names) == total else "archive-broken"


_HEADERS: Final = frozenset({"text/rfc822-headers", "message/global-headers"})
# RFC 5965 section 2.
_REPORT: Final = b"feedback-report"
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
    raw = raw[:MAX_FORWARDED_BYTES].replace(b"\r\n", b"\n")
    root, attached, ids = _attached(raw)
    if root.first("resent-from"):
        attached, ids = [raw], []
    messages = []
    for message in attached[:MAX_FORWARDED]:
        if _REPORT in message.lower():
            inner, reported, its_ids = _attached(message)
            is_report = inner.parameter("report-type").lower() == _REPORT.decode()
            # One of them (RFC 5965 section 2): any sender can write a report, and would
            # choose what is taught in the place of their message.
            if is_report and reported:
                messages.append(reported[0])
                continue
            if is_report and its_ids:
                ids.append(its_ids[0])
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
    nodes = nodes_of(raw, Budget(), messages=False)
    messages: list[bytes] = []
    ids: list[str] = []
    for node in nodes:
        if node.parts:
            continue
        # The line end before a boundary belongs to it (RFC 2046 section 5.1.1).
        body = node.content.removesuffix(b"\n") if node.depth else node.content
        content, _ = decode_transfer(body, node.encoding)
        if node.media_type in MESSAGES or node.filename.lower().endswith(".eml"):
            if content.strip():
                messages.append(content)
        elif node.media_type in _HEADERS:
            ids += _ids(content.decode("latin-1"))
    return nodes[0], messages, ids


def _ids(text: str) -> list[str]:
    return [each.lower() for each in _ID.findall(text)]


def _quoted(raw: bytes) -> Iterator[str]:
    """Yield the ids in the visible content of a message."""
    for text in parse(raw).texts:
        if text.place != "hidden":
            yield from _ids(text.content)
