"""Where does the message point to?"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from app.mail.limits import MAX_LINK_CHARS, MAX_LINKS
from app.mail.message import Link

# What follows a scheme or "www." up to a blank or a bracket, and no trailing
# punctuation, which belongs to the sentence.
_ADDRESS: Final = re.compile(
    r"(?:https?://|ftp://|www\.)[^\s<>\"'\]\)}]{1,2040}", re.IGNORECASE
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
    url = url[:MAX_LINK_CHARS].translate(_DROPPED).strip()
    return Link(url, element, text)


_DROPPED: Final = {ord(c): None for c in "\t\n\r\0"}
