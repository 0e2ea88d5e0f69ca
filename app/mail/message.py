"""Message: the decoded form of a mail, from which features are read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal

from app.mail.limits import MAX_LINKS

Place = Literal["plain", "html", "alternative", "alt", "attached", "hidden"]
"""The place of a text.

``plain`` and ``html`` are the visible body; ``alternative`` is text that is not shown,
at least by some mail programs: plain text instead of which they show another rendering,
or a part that they show as a file; ``alt`` are the texts in place of images;
``attached`` is the subject of an attached message; ``hidden`` is HTML text that no
reader sees.
"""
# From "http://", "https://", "ftp://" or "www." up to a blank or a bracket, without
# trailing punctuation, which belongs to the sentence. The first letter is separate, in
# both cases, so the search goes from one such letter to the next: this takes a third
# of the time of (?i:https?://|ftp://|www\.).
_ADDRESS: Final = re.compile(
    r"[hHfFwW](?:(?<=[hH])[tT]{2}[pP][sS]?://|(?<=[fF])[tT][pP]://|(?<=[wW])[wW]{2}\.)"
    r"[^\s<>\"'\]\)}]{1,2040}"
)
_TRAILING: Final = ".,;:!?*_-"


@dataclass(frozen=True, slots=True)
class Header:
    """One header field.

    Parameters
    ----------
    name : str
        Field name in lower case.
    value : str
        Decoded to Unicode, folding undone, ends stripped.
    """

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Text:
    """A run of text of the message, and its place."""

    place: Place
    content: str


@dataclass(frozen=True, slots=True)
class Link:
    """A reference in the message.

    Parameters
    ----------
    url : str
        The target as written, without surrounding blanks.
    element : str
        The HTML element that contains it (``a``, ``img`` ...), or ``text`` for an
        address in the text.
    text : str
        The visible text in its place; for an image its declared size, such as
        ``1x1``, or empty.
    """

    url: str
    element: str
    text: str = ""


def links_in(text: str) -> list[Link]:
    """Return the links that are written out in a text.

    Examples
    --------
    >>> [link.url for link in links_in("See http://example.com/a, or not.")]
    ['http://example.com/a']
    """
    # Two searches for a substring, before the expression, which is slower.
    if "://" not in text and "www." not in text.lower():
        return []
    found = islice(_ADDRESS.finditer(text), MAX_LINKS)
    return [Link(match[0].rstrip(_TRAILING), "text") for match in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One leaf of the MIME tree.

    Parameters
    ----------
    media_type : str
        As declared, lower case, without parameters; the default of RFC 2045 if
        nothing usable is declared.
    charset : str
        As declared, lower case; empty if not declared.
    encoding : str
        Content-Transfer-Encoding, lower case; empty if not declared.
    disposition : str
        ``attachment``, ``inline`` or another declared value; empty if there is none.
    filename : str
        Decoded; empty if there is none.
    size : int
        Decoded size. Unit: bytes.
    depth : int
        Number of multiparts and messages around it.
    fingerprint : bytes
        Hash of the decoded content with line ends normalised, 16 bytes: the
        same before and after a mail server changes the transfer encoding.
    kind : str
        The type of a file by its first bytes (see `app.mail.parse.MAGIC`); empty if
        it is unknown, and for text.
    members : tuple of str
        Names of the files in it, if it is a zip archive.
    """

    media_type: str
    charset: str = ""
    encoding: str = ""
    disposition: str = ""
    filename: str = ""
    size: int
    depth: int
    fingerprint: bytes
    kind: str = ""
    members: tuple[str, ...] = ()

    @property
    def is_attachment(self) -> bool:
        """Whether mail programs offer the part as a file."""
        return self.disposition == "attachment" or bool(self.filename)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A decoded message.

    Parameters
    ----------
    headers : tuple of Header
        Of the outermost message, in order. Verdicts of other filters are not
        among them (see `app.mail.headers.is_verdict`).
    texts : tuple of Text
        In reading order.
    links : tuple of Link
        In reading order, from HTML and from the text.
    parts : tuple of Part
        The leaves of the MIME tree, in order.
    containers : tuple of str
        Media types of the multiparts and attached messages, outermost first.
    defects : tuple of str
        Defects of the message and exceeded limits: short hyphenated names, each
        once, sorted.
    raw : bytes
        The original message, for `app.mail.authentication`.

    Examples
    --------
    >>> message = Message(headers=(Header("subject", "Lunch"),))
    >>> message.header("subject"), message.header("from")
    ('Lunch', '')
    """

    headers: tuple[Header, ...] = ()
    texts: tuple[Text, ...] = ()
    links: tuple[Link, ...] = ()
    parts: tuple[Part, ...] = ()
    containers: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()
    raw: bytes = field(default=b"", repr=False, compare=False)
    # Views look up some twenty headers by name, and half of them are missing.
    _first: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Note the first value of each header."""
        first = {header.name: header.value for header in reversed(self.headers)}
        object.__setattr__(self, "_first", first)

    @property
    def attachments(self) -> tuple[Part, ...]:
        """The parts that mail programs offer as files."""
        return tuple(part for part in self.parts if part.is_attachment)

    def header(self, name: str) -> str:
        """Return the first value of a header, or an empty string.

        Parameters
        ----------
        name : str
            Field name in lower case.
        """
        return self._first.get(name, "")

    def header_values(self, name: str) -> tuple[str, ...]:
        """Return all values of a header, in order; `name` in lower case."""
        return tuple([h.value for h in self.headers if h.name == name])
