"""Message: the decoded form of a mail that features are read from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal

from app.mail.limits import MAX_LINKS

Place = Literal["plain", "html", "alternative", "alt", "attached", "hidden"]
"""Where a text stood.

``plain`` and ``html`` are what the reader sees as the body; ``alternative`` is
the other rendering of a body that comes in several; ``alt`` are the texts that
stand in for images and links; ``attached`` is the subject of a message that is
attached to this one; ``hidden`` is HTML text that no reader sees.
"""
# What follows "http://", "https://", "ftp://" or "www." up to a blank or a
# bracket, and no trailing punctuation, which belongs to the sentence. The first
# letter stands by itself, in both cases, so that the search goes from one such
# letter to the next: a third of the time that (?i:https?://|ftp://|www\.) takes.
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
    """A run of text that the message holds, and where it stood."""

    place: Place
    content: str


@dataclass(frozen=True, slots=True)
class Link:
    """A reference that the message makes.

    Parameters
    ----------
    url : str
        The target as written, without surrounding blanks.
    element : str
        The HTML element that holds it (``a``, ``img`` ...), or ``text`` where
        the address stands in the text itself.
    text : str
        What the reader sees in its place; for an image its declared size, as
        ``1x1``, empty if it has none.
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
        As declared, lower case, without parameters; the default of RFC 2045
        where nothing usable is declared.
    charset : str
        As declared, lower case; empty if not declared.
    encoding : str
        Content-Transfer-Encoding, lower case; empty if not declared.
    disposition : str
        ``attachment``, ``inline`` or what else is declared; empty if nothing.
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
        What the first bytes of a file say it is (see `app.mail.files.MAGIC`);
        empty if they say nothing, and for text.
    members : tuple of str
        Names of the files in it, if it is a zip archive.
    """

    media_type: str
    charset: str
    encoding: str
    disposition: str
    filename: str
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
        What was wrong with the message or over a limit: short hyphenated
        names, each once, sorted.
    raw : bytes
        The message as it came, whose fields `app.mail.authentication` reads.

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
    # Views ask for some twenty headers by name, half of which are not there.
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
