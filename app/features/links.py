"""Where do the links of a message lead, and what do they hide?

Every feature is tagged ``link:``.

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.features import hosts
from app.features.tokens import of_name

if TYPE_CHECKING:
    from app.mail.message import Link

# RFC 3986 section 3: what stands between "//" and the path. Browsers take one
# to any number of slashes, and backslashes for slashes (WHATWG URL, 4.4).
_AUTHORITY: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,20}:[/\\]{1,9}|(?=www\.))([^/?#\s\\]{1,300})", re.IGNORECASE
)
_PORT: Final = re.compile(r":\d{0,10}\Z", re.ASCII)
# Dotted, decimal, octal and hexadecimal addresses (WHATWG URL, 3.5).
_NUMBER: Final = r"(?:0x[0-9a-f]{0,20}+|\d{1,20}+)"
_NUMERIC: Final = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}){{0,3}}\.?\Z", re.ASCII)
_DOTTED: Final = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}\Z", re.ASCII)
# Letters and digits that nobody has to escape.
_ESCAPED: Final = re.compile(r"%(?:3[0-9]|[46][1-9a-f]|[57][0-9a])", re.IGNORECASE)
_MAX_PARENTS: Final = 3
_BEYOND_ASCII: Final = "idna"

# No list is complete, and none has to be: a shortener that is not here is a
# host like any other, and is learned as one.
SHORTENERS: Final = frozenset({
    "bit.ly", "buff.ly", "cutt.ly", "goo.gl", "is.gd", "lnkd.in", "ow.ly", "rb.gy",
    "rebrand.ly", "s.id", "short.gy", "shorturl.at", "t.co", "t.ly", "tiny.cc",
    "tinyurl.com", "v.gd",
})  # fmt: skip


def of_link(link: Link) -> list[str]:
    """Return the features of a link.

    Examples
    --------
    >>> from app.mail.message import Link
    >>> of_link(Link("http://a.b.example.com/x", "a", "www.bank.example"))
    ['link:http', 'link:a.b.example.com', 'link:x', 'link:.b.example.com', \
'link:.example.com', 'link:(other-host)']
    """
    url = link.url
    scheme = url.partition(":")[0].lower()
    if scheme in {"data", "cid", "javascript"}:
        # What follows is content or a number, not a place.
        return [f"link:({scheme})"]
    host, marks = _host(url)
    if _BEYOND_ASCII in marks:
        url = _with_host_decoded(url)
        host = _host(url)[0]
        if hosts.is_lookalike(host):
            marks.append("lookalike")
    found = ["link:" + word for word in of_name(url)]
    found += [f"link:.{parent}" for parent in parents(host)]
    found += [f"link:({mark})" for mark in marks]
    if "%" in url and _ESCAPED.search(url):
        found.append("link:(escaped)")
    if link.element not in {"a", "text", "img"}:
        found.append(f"link:({link.element})")
    if link.element == "img" and link.text:
        found.append(f"link:(image {link.text})")
    if link.element == "a" and _leads_elsewhere(host, link.text):
        found.append("link:(other-host)")
    return found


def parents(host: str) -> list[str]:
    """Return the domains above a host, nearest first, down to two labels.

    No list of public suffixes: that ``co.uk`` is one says something too, and
    the message's other features tell the shops below it apart. The domains above
    a host measured neutral at all (experiment 0023), so that a list of 300 kB
    that ages cannot pay.

    Examples
    --------
    >>> parents("shop.example.co.uk")
    ['example.co.uk', 'co.uk']
    """
    if host[:1].isdigit() and _NUMERIC.match(host):
        return []
    labels = host.split(".")
    lowest = max(1, len(labels) - 1 - _MAX_PARENTS)
    return [".".join(labels[i:]) for i in range(lowest, len(labels) - 1)]


def _host(url: str) -> tuple[str, list[str]]:
    """Return the host of a URL, lower case, and what is odd about it."""
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
    if not host.isascii() or hosts.ACE in host:
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
    return url[:start] + hosts.decoded(url[start:end]) + url[end:]


def _leads_elsewhere(host: str, text: str) -> bool:
    """Return whether a link is shown as the address of another host."""
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
