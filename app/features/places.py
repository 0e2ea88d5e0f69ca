"""Places: the text of a message in pieces, and the features that each piece holds.

The features of a message have no places (`app.features.extract`): they are counted.
Here the same rules read the text once more, piece by piece between blanks, where no
word goes on.  Contract of this file: the pieces of a passage are its text, and the
features of a piece are features of the message; some of the message have no place:
those of two words, of the structure, of the addresses as a whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from app.features import links, tricks
from app.features.headers import HEADERS, IP_PREFIX
from app.features.structure import of_part
from app.features.tokens import MAX_WORD_CHARS, tokens_of
from app.features.words import APART
from app.kernels.text import TEXT, WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from app.features.tokens import Span
    from app.mail.message import Header, Message

Kind = Literal["header", "text", "link", "file"]
"""What a passage is of."""
_BLANKS: Final = re.compile(r"(\s+)")
_READ: Final = ("words", "headers")
# Of the words between the blanks of a date, its time zone (`app.features.headers`).
_ZONE: Final = slice(5, 7)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text, and what is read there.

    Parameters
    ----------
    text : str
        The piece.
    words, headers : tuple of Span
        What of it is read in these two views.
    """

    text: str
    words: tuple[Span, ...] = ()
    headers: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """One header, text, link or file of a message.

    Parameters
    ----------
    kind : {'header', 'text', 'link', 'file'}
        What it is of.
    name : str
        Of a header its name, of a text its place, of a link its element, of a file
        its media type.
    pieces : tuple of Piece
        Its text.
    """

    kind: Kind
    name: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join([piece.text for piece in self.pieces])


def passages(message: Message) -> list[Passage]:
    r"""Return what is read of a message, in its order.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> raw = b"Subject: Lunch\nX-Spam-Flag: NO\n\nAt noon?\n"
    >>> for passage in passages(parse(raw)):
    ...     print(passage.kind, passage.name, [piece.text for piece in passage.pieces])
    header subject ['Lunch']
    text plain ['At', ' ', 'noon?', '\n']
    """
    found: list[Passage] = []
    shown = False
    for header in message.headers:
        if header.name in HEADERS:
            # The words of the first subject are words of the text, too.
            first = header.name == "subject" and not shown
            shown = shown or first
            pieces = _of_header(header, as_text=first)
            found.append(Passage("header", header.name, tuple(pieces)))
    for text in message.texts:
        tag = f"{text.place}:" if text.place in APART else ""
        found.append(Passage("text", text.place, tuple(_of_text(text.content, tag))))
    for link in message.links:
        piece = Piece(link.url, tuple(links.of_link(link)))
        found.append(Passage("link", link.element, (piece,)))
    for part in message.parts:
        if part.filename or part.kind or part.members:
            piece = Piece(part.filename, tuple(of_part(part)))
            found.append(Passage("file", part.media_type, (piece,)))
    return found


def _of_text(text: str, tag: str) -> Iterator[Piece]:
    """Yield the pieces of a text; of blanks nothing is read."""
    for piece in filter(None, _BLANKS.split(text)):
        yield Piece(piece, () if piece.isspace() else _spans(piece, tag))


def _spans(piece: str, tag: str) -> tuple[Span, ...]:
    """Return what is read of a piece of text, with the tricks that are played in it."""
    # Words letter by letter, and random ones, are found in the whole text alone.
    found = () if tag else tricks.of_text(piece)
    return ((tag, piece, TEXT), *[("", name, WHOLE) for name in found])


def _of_header(header: Header, *, as_text: bool) -> Iterator[Piece]:
    """Yield the pieces of a header's value, read as text too or not."""
    tag = header.name + ":"
    if header.name == "date":
        words = re.split("( )", header.value)
        zones = range(len(words))[::2][_ZONE]
        for at, word in enumerate(words):
            read = at in zones and len(word) <= MAX_WORD_CHARS
            yield Piece(word, headers=((tag, word.lower(), WHOLE),) if read else ())
        return
    value, rest = header.value, ""
    if header.name == "received" and ";" in value:
        value, semicolon, rest = value.rpartition(";")
        # As `app.features.headers`: without anything before it, it is read after all.
        value, rest = (value, semicolon + rest) if value else (header.value, "")
    for piece in filter(None, _BLANKS.split(value)):
        if piece.isspace():
            yield Piece(piece)
            continue
        spans: list[Span] = [(tag, piece, HEADERS[header.name])]
        if header.name == "received":
            spans += [(tag, network, WHOLE) for network in IP_PREFIX.findall(piece)]
        yield Piece(piece, _spans(piece, "") if as_text else (), tuple(spans))
    if rest:
        yield Piece(rest)


@dataclass(frozen=True, slots=True)
class Placed:
    """The features of one view at their places, with repeats.

    Parameters
    ----------
    piece : ndarray of int64, shape (n,)
        The number of a piece, counted through all passages.
    ids : ndarray of int64, shape (n,)
        The id of a feature that is read there.
    """

    piece: NDArray[np.int64]
    ids: NDArray[np.int64]


def placed(found: Sequence[Passage]) -> dict[str, Placed]:
    r"""Return the features of passages at their places, by view.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> both = placed(passages(parse(b"Subject: lunch\n\nlunch today")))
    >>> both["words"].piece.tolist(), both["headers"].piece.tolist()
    ([0, 1, 3], [0])
    """
    pieces = [piece for passage in found for piece in passage.pieces]
    places = {}
    for view in _READ:
        read: list[tuple[Span, ...]] = [getattr(piece, view) for piece in pieces]
        tokens = tokens_of([span for spans in read for span in spans])
        of_span = np.repeat(np.arange(len(pieces)), [len(spans) for spans in read])
        sizes = np.diff(tokens.ends, prepend=0)
        places[view] = Placed(np.repeat(of_span, sizes), tokens.ids)
    return places
