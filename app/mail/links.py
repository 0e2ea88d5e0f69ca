"""Where does the message point to?"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from app.mail.limits import MAX_LINK_CHARS, MAX_LINKS
from app.mail.message import Link

# What follows "http://", "https://", "ftp://" or "www." up to a blank or a
# bracket, and no trailing punctuation, which belongs to the sentence. The first
# letter stands by itself, in both cases, so that the search goes from one such
# letter to the next: a third of the time that (?i:https?://|ftp://|www\.) takes.
_ADDRESS: Final = re.compile(
    r"[hHfFwW](?:(?<=[hH])[tT]{2}[pP][sS]?://|(?<=[fF])[tT][pP]://|(?<=[wW])[wW]{2}\.)"
    r"[^\s<>\"'\]\)}]{1,2040}"
)
_TRAILING: Final = ".,;:!?*_-"


def in_text(text: str) -> list[Link]:
    """Return the links that are written out in a text.

    Examples
    --------
    >>> [link.url for link in in_text("See http://example.com/a, or not.")]
    ['http://example.com/a']
    """
    # Two searches for a substring, before the expression, which is slower.
    if "://" not in text and "www." not in text.lower():
        return []
    found = islice(_ADDRESS.finditer(text), MAX_LINKS)
    return [Link(match[0].rstrip(_TRAILING), "text") for match in found]


def of(url: str, element: str, text: str = "") -> Link:
    """Return the link of an HTML element, its target trimmed as browsers do."""
    # Browsers drop tabs and line ends anywhere in a URL (WHATWG URL, 4.4).
    url = url[:MAX_LINK_CHARS]
    if not url.isprintable():
        url = url.translate(_DROPPED)
    return Link(url.strip(), element, text)


_DROPPED: Final = {ord(c): None for c in "\t\n\r\0"}
