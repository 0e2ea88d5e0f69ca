"""Words: the words and marks of a message: its text, links and files.

A word of the text is a feature by itself (``money``).  A word that replaces an image or
belongs to a link or a file is tagged by its place (``alt:money``,
``link:example.com``).  A word never has a colon next to a letter, so it cannot look
like a tagged one.

A non-ASCII host has two spellings: one for people (``bücher.example``) and one for
protocols (``xn--bcher-kva.example``, RFC 3492).  Both become the first here.

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from app.features import tricks
from app.kernels.text import NAME, TEXT, WHOLE
from app.mail.headers import ACE, normal_domain

if TYPE_CHECKING:
    from app.features.tokens import Span
    from app.mail.message import Link, Message, Part

# Texts that are not read in sequence.
APART: Final = frozenset({"alt", "hidden"})
# Mail programs show another rendering of these.  With the words of ham in it, spam was
# taken for ham (experiment 0109).
UNREAD: Final = frozenset({"alternative"})


def sequences(message: Message) -> list[Span]:
    r"""Return the readable text: the subject, then each text.

    The words of the subject count both as words of the text and, tagged, of the header
    (experiment 0020).

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> [text for _, text, _ in sequences(parse(b"Subject: Lunch\n\nAt noon?\n"))]
    ['Lunch', 'At noon?\n']
    """
    return [
        ("", message.header("subject"), TEXT),
        *[
            ("", x.content, TEXT)
            for x in message.texts
            if x.place not in APART | UNREAD
        ],
    ]


def marked_words(message: Message) -> list[Span]:
    """Return the words outside the visible text, tagged by place."""
    # Files and links come first, so that a flood of other words cannot displace them.
    found = file_words(message)
    for link in message.links:
        found += of_link(link)
    return found + [
        (x.place + ":", x.content, TEXT) for x in message.texts if x.place in APART
    ]


def disguised_words(read: list[Span], words: bytes) -> list[Span]:
    """Return the tricks in the readable text, and the words behind them.

    Parameters
    ----------
    read : list of Span
        The readable text.
    words : bytes
        Its words, each followed by a blank.
    """
    found = tricks.of_words(words)
    found += tricks.of_text("\n".join([text for _, text, _ in read]))
    return [("", name, WHOLE) for name in found]


# Declared types for the kinds of `app.mail.parse`. Modern office files are zip.
_CALLED: Final = {
    "zip": {"zip", "jar", "docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "apk"},
    "exe": {"exe", "dll", "scr", "com", "pif", "cpl", "sys", "x-msdownload"},
    "ole": {"doc", "xls", "ppt", "msi", "msg", "dot", "pps", "msword"},
    "pdf": {"pdf"},
    "png": {"png"},
    "jpeg": {"jpg", "jpeg", "jpe", "pjpeg", "jfif"},
    "gif": {"gif"},
    "rtf": {"rtf", "doc"},
    "rar": {"rar"},
    "gzip": {"gz", "tgz"},
    "7z": {"7z"},
}
_KNOWN_NAMES: Final = frozenset(name for names in _CALLED.values() for name in names)
_MAX_EXTENSION: Final = 5
_MAX_MEMBERS: Final = 50


def file_words(message: Message) -> list[Span]:
    """Return the features of the files of a message."""
    found: list[Span] = []
    for part in message.parts:
        if part.filename or part.kind or part.members:
            found += of_part(part)
    return found


def of_part(part: Part) -> list[Span]:
    """Return the features of one file."""
    marks = []
    extensions = _extensions(part.filename)
    if part.filename:
        marks += ["." + extension for extension in extensions[-1:]]
    # "invoice.pdf.exe": some programs hide the last extension.
    if len(extensions) > 1 and extensions[-2] in _KNOWN_NAMES:
        marks.append("(double-extension)")
    if part.kind:
        marks.append(f"({part.kind})")
        called = extensions[-1] if extensions else part.media_type.partition("/")[2]
        if called in _KNOWN_NAMES and called not in _CALLED[part.kind]:
            marks.append(f"({part.kind} as {called})")
    for member in part.members[:_MAX_MEMBERS]:
        marks += ["in:." + extension for extension in _extensions(member)[-1:]]
    return [
        ("file:", part.filename, NAME),
        *[("file:", mark, WHOLE) for mark in marks],
    ]


def _extensions(name: str) -> list[str]:
    """Return the extensions of a file's name, in lower case."""
    pieces = name.lower().rpartition("/")[2].split(".")[1:]
    return [piece.strip() for piece in pieces if 0 < len(piece) <= _MAX_EXTENSION]


def is_lookalike(host: str) -> bool:
    """Return whether a host is written to look like another.

    Parameters
    ----------
    host : str
        From `app.mail.headers.normal_domain`.

    Notes
    -----
    Either a label mixes Latin letters with those of a similar script, or it has only
    letters that look Latin although the host ends in a Latin label: ``море.рф`` is a
    word, but ``море.com`` may imitate ``mope.com``.  Precedent: Chromium shows such
    hosts in punycode ("Internationalized Domain Names (IDN) in Google Chrome",
    docs/idn.md, rules 6 and 11).

    Examples
    --------
    >>> is_lookalike("p\u0430ypal.example"), is_lookalike("bücher.example")
    (True, False)
    """
    labels = [label for label in host.split(".") if not label.isascii()]
    if tricks.is_mixed(host):
        return True
    ends_latin = host.rpartition(".")[2].isascii()
    return ends_latin and any(tricks.as_latin(label).isascii() for label in labels)


# RFC 3986 section 3: the part between "//" and the path. Browsers accept any number of
# slashes, and treat backslashes as slashes (WHATWG URL, 4.4).
_AUTHORITY: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,20}:[/\\]{1,9}|(?=www\.))([^/?#\s\\]{1,300})", re.IGNORECASE
)
_PORT: Final = re.compile(r":\d{0,10}\Z", re.ASCII)
# Dotted, decimal, octal and hexadecimal addresses (WHATWG URL, 3.5).
_NUMBER: Final = r"(?:0x[0-9a-f]{0,20}+|\d{1,20}+)"
_NUMERIC: Final = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{0,3}}\.?\Z", re.ASCII)
_DOTTED: Final = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}\Z", re.ASCII)
# Letters and digits that need no escape.
_ESCAPED: Final = re.compile(r"%(?:3[0-9]|[46][1-9a-f]|[57][0-9a])", re.IGNORECASE)
_MAX_PARENTS: Final = 3
_BEYOND_ASCII: Final = "idna"
# The list need not be complete: a missing shortener is learned like any other host.
SHORTENERS: Final = frozenset({
    "bit.ly", "buff.ly", "cutt.ly", "goo.gl", "is.gd", "lnkd.in", "ow.ly", "rb.gy",
    "rebrand.ly", "s.id", "short.gy", "shorturl.at", "t.co", "t.ly", "tiny.cc",
    "tinyurl.com", "v.gd",
})  # fmt: skip


def of_link(link: Link) -> list[Span]:
    """Return the features of a link.

    Examples
    --------
    >>> from app.features.tokens import words_of
    >>> from app.mail.message import Link
    >>> words_of(of_link(Link("http://a.b.example.com/x", "a", "www.bank.example")))
    ['link:http', 'link:a.b.example.com', 'link:x', 'link:.b.example.com', \
'link:.example.com', 'link:(other-host)']
    """
    url = link.url
    scheme = url.partition(":")[0].lower()
    if scheme in {"data", "cid", "javascript"}:
        # The rest is content or a number, not a place.
        return [(f"link:({scheme})", "", WHOLE)]
    host, marks = _host(url)
    if _BEYOND_ASCII in marks:
        url = _with_host_decoded(url)
        host = _host(url)[0]
        if is_lookalike(host):
            marks.append("lookalike")
    if "%" in url and _ESCAPED.search(url):
        marks.append("escaped")
    if link.element not in {"a", "text", "img"}:
        marks.append(link.element)
    if link.element == "img" and link.text:
        marks.append(f"image {link.text}")
    if link.element == "a" and _leads_elsewhere(host, link.text):
        marks.append("other-host")
    return [
        ("link:", url, NAME),
        *[("link:.", parent, WHOLE) for parent in parents(host)],
        *[("link:", f"({mark})", WHOLE) for mark in marks],
    ]


@lru_cache(maxsize=1024)
def parents(host: str) -> tuple[str, ...]:
    """Return the domains above a host, nearest first, down to two labels.

    There is no list of public suffixes: a suffix such as ``co.uk`` is evidence too, and
    other features distinguish the domains below it.  Domains above a host were neutral
    (experiment 0023), so a list of 300 kB that goes out of date cannot pay.

    Examples
    --------
    >>> parents("shop.example.co.uk")
    ('example.co.uk', 'co.uk')
    """
    if host[:1].isdigit() and _NUMERIC.match(host):
        return ()
    labels = host.split(".")
    lowest = max(1, len(labels) - 1 - _MAX_PARENTS)
    return tuple([".".join(labels[i:]) for i in range(lowest, len(labels) - 1)])


def _host(url: str) -> tuple[str, list[str]]:
    """Return the host of a URL, in lower case, and its oddities."""
    match = _AUTHORITY.match(url)
    if match is None:
        return "", []
    marks = []
    before, at, host = match[1].lower().rpartition("@")
    if at and before:
        marks.append("user-info")
    if ":" in host and _PORT.search(host):
        marks.append("port")
        host = host.partition(":")[0]
    host = host.strip(".")
    if host[:1].isdigit() and _NUMERIC.match(host):
        marks.append("address" if _DOTTED.match(host) else "number")
    if not host.isascii() or ACE in host:
        marks.append(_BEYOND_ASCII)
    if host in SHORTENERS:
        marks.append("shortener")
    return host, marks


def _with_host_decoded(url: str) -> str:
    """Return a URL with its host as people write it."""
    match = _AUTHORITY.match(url)
    if match is None:
        return url
    start, end = match.span(1)
    return url[:start] + normal_domain(url[start:end]) + url[end:]


def _leads_elsewhere(host: str, text: str) -> bool:
    """Return whether a link is displayed as an address on a different host."""
    shown = text.strip()
    if not host or "." not in shown or "@" in shown or any(map(str.isspace, shown)):
        return False
    if "://" not in shown:
        shown = "http://" + shown
    other = _host(_with_host_decoded(shown))[0].removeprefix("www.")
    here = host.removeprefix("www.")
    if "." not in other or other[-1].isdigit() != here[-1].isdigit():
        return bool(_DOTTED.match(here)) and "." in other
    return not (
        here == other or here.endswith("." + other) or other.endswith("." + here)
    )
