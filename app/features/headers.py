"""Features of the header: words, addresses and dates.

Every feature is tagged by its header (``subject:money``, ``from:bob``,
``received:10.1.2``).

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
from calendar import timegm
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Final

from app.features.tokens import MAX_WORD_CHARS, Span
from app.features.words import parents
from app.kernels.text import NAME, TEXT, WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.mail.message import Header, Message

# Not RFC 5322's grammar, but the text around the sign, in any quoting. A local part has
# at most 64 characters, and a domain 255 (RFC 5321, 4.5.3.1).
_ADDRESS: Final = re.compile(
    r"(?<![\w.+=~-])([\w.+=~-]{1,64})@([a-z0-9_.-]{1,255})", re.ASCII
)
_LETTERS: Final = re.compile(r"[a-z]+")
_DIGITS: Final = re.compile(r"[0-9]+")
_MAX_ADDRESSES: Final = 10
_MAX_SHAPE: Final = 12
_SPLIT: Final = (
    "from", "reply-to", "return-path", "sender", "to", "cc", "message-id",
)  # fmt: skip
# Headers with addresses whose local part was chosen by a person or made by a machine.
_SHAPED: Final = frozenset({"from", "reply-to", "return-path", "message-id"})


def address_words(headers: Sequence[Header]) -> list[Span]:
    r"""Return the domains, shapes and contradictions of the addresses.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> raw = b'From: "help@bank.example" <x17@a.shop.example>\n\nhi'
    >>> for span in address_words(parse(raw).headers):
    ...     print(span[0] + span[1])
    from:shape:a
    from:shape:a9
    from:.shop.example
    from:(other-address-shown)
    """
    of_header = _addresses(headers)
    found: list[Span] = []
    for name, addresses in of_header.items():
        tag, above = f"{name}:shape:", f"{name}:."
        for local, domain in addresses:
            if name in _SHAPED:
                found.append((tag, _shape(local), WHOLE))
            found += zip(repeat(above), parents(domain), repeat(WHOLE))
    senders = of_header.get("from")
    return found + _contradictions(senders, of_header) if senders else found


def _addresses(headers: Sequence[Header]) -> dict[str, list[tuple[str, str]]]:
    """Return local part and domain of the addresses, by header."""
    found: dict[str, list[tuple[str, str]]] = {}
    for header in headers:
        if header.name in _SPLIT and "@" in header.value:
            here = found.setdefault(header.name, [])
            if len(here) < _MAX_ADDRESSES:
                here += _ADDRESS.findall(header.value.lower())[:_MAX_ADDRESSES]
    return found


def _contradictions(
    senders: list[tuple[str, str]], of_header: dict[str, list[tuple[str, str]]]
) -> list[Span]:
    """Return the headers other than From with a different sender."""
    found = []
    # Mail programs show the first one as the name.
    if senders[0][1] != senders[-1][1]:
        found.append(("from:", "(other-address-shown)", WHOLE))
    for name in ("reply-to", "return-path"):
        others = of_header.get(name)
        if others and others[0][1] != senders[-1][1]:
            found.append((f"{name}:", "(other-domain)", WHOLE))
    return found


# Cached, because most senders write again.
@lru_cache(maxsize=1024)
def _shape(local: str) -> str:
    """Return the shape of a local part: runs of letters and digits become one each.

    Examples
    --------
    >>> _shape("bob.smith1984")
    'a.a9'
    """
    return _LETTERS.sub("a", _DIGITS.sub("9", local))[:_MAX_SHAPE]


# The text before the first digit is checked with a lookbehind, so that the search goes
# from digit to digit.
IP_PREFIX: Final = re.compile(
    r"(\d(?<![\d.]\d)\d{0,4}\.\d{1,5}\.\d{1,5})\.\d{1,5}(?![\d.])", re.ASCII
)


def header_words(message: Message) -> list[Span]:
    r"""Return the words of the headers, tagged by header, with repeats.

    Examples
    --------
    >>> from app.features.tokens import words_of
    >>> from app.mail.parse import parse
    >>> raw = b"Subject: Lunch\nFrom: bob@example.com\n\nAt noon?\n"
    >>> words_of(header_words(parse(raw)))
    ['subject:lunch', 'from:bob', 'from:example.com', 'from:shape:a']
    """
    values: dict[str, list[str]] = {}
    headers = headers_read(message)
    for header in headers:
        if header.name in values:
            values[header.name] += [header.value]
        else:
            values[header.name] = [header.value]
    found = []
    for name, given in values.items():
        tag = name + ":"
        if name == "date":
            found += [(tag, zone, WHOLE) for zone in _zones(given)]
            continue
        if name == "received":
            # The date after the semicolon only tells when the mail was collected.
            text = "\n".join([value.rpartition(";")[0] or value for value in given])
        else:
            text = "\n".join(given)
        found.append((tag, text, HEADERS[name]))
        if name == "received":
            found += [(tag, network, WHOLE) for network in IP_PREFIX.findall(text)]
    found += address_words(headers)
    found += [("defect:", defect, WHOLE) for defect in message.defects]
    return found


def _zones(values: list[str]) -> list[str]:
    """Return the time zones; the rest of a date does not recur."""
    zones = [word for value in values for word in value.split(" ")[5:7]]
    return [word.lower() for word in zones if len(word) <= MAX_WORD_CHARS]


# Received gains most after the subject.  List-Id and the sum of all headers lose.  The
# others are neutral on the only corpus with headers, and are kept for mail that differs
# from it (experiment 0003).
HEADERS: Final = {
    "subject": TEXT,
    "received": NAME,
    "from": NAME,
    "to": NAME,
    "cc": NAME,
    "reply-to": NAME,
    "sender": NAME,
    "return-path": NAME,
    "message-id": NAME,
    "in-reply-to": NAME,
    "date": WHOLE,
    "content-type": NAME,
    "x-mailer": NAME,
    "user-agent": NAME,
    "organization": NAME,
}
"""The headers with words as features, and the splitting of their values."""
MOST: Final = {"received": 16, "return-path": 2}
"""Most headers with features of the names that servers add: those at the top.

No message of 6,047 (SpamAssassin) has more than 15 and 2 of them.
"""


def headers_read(message: Message) -> list[Header]:
    """Return the headers with features: the first of each name, or the first few.

    Servers add theirs at the top, and mail programs show the first.  Below, a sender
    could add any number with the words of ham, which nobody sees (experiment 0124).
    """
    left = dict.fromkeys(HEADERS, 1) | MOST
    found = []
    for header in message.headers:
        if header.name in left:
            found.append(header)
            left[header.name] -= 1
            if not left[header.name]:
                del left[header.name]
    return found


# RFC 5322 section 3.3, with the obsolete two-digit years of section 4.3. The name of
# the day is redundant; comments and unusual zones are not parsed.
_DATE: Final = re.compile(
    r"\b(\d{1,2}) +([A-Za-z]{3}) +(\d{4}|\d{2}) +(\d{1,2}):(\d{2})(?::(\d{2}))?"
    r"(?: +([+-])(\d{2})(\d{2}))?",
    re.ASCII,
)
_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec"
# RFC 5322 section 4.3: 00 to 49 are of this century, 50 to 99 of the last.
_PIVOT: Final = 50


def read_date(text: str) -> int | None:
    """Return the first date in a header value; None if there is none.

    Returns
    -------
    int or None
        Seconds since 1970 in UTC; a missing zone means UTC.

    Examples
    --------
    >>> read_date("Fri, 6 Nov 2026 09:30:00 +0100")
    1793953800
    >>> read_date("yesterday") is None
    True
    """
    match = _DATE.search(text)
    if match is None:
        return None
    day, name, year, hour, minute, second, sign, zone_hours, zone_minutes = (
        match.groups(default="0")
    )
    month, between = divmod(_MONTHS.find(name.lower()), 4)
    written = int(year)
    if month < 0 or between or int(hour) > 23 or not (1 <= int(day) <= 31):  # noqa: PLR2004
        return None
    if len(year) == 2:  # noqa: PLR2004
        written += 2000 if written < _PIVOT else 1900
    if not written:
        return None
    zone = 60 * int(zone_hours) + int(zone_minutes)
    local = timegm((written, month + 1, int(day), int(hour), int(minute), int(second)))
    return local - 60 * (-zone if sign == "-" else zone)
