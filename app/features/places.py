"""Places: the text of a message in pieces, and the features of each piece.

Extraction counts the features of a message without places (`app.features.extract`).
Here the same rules read the text again in pieces between blanks, or clauses of scripts
without them, which no word spans.
Contract of this file: the pieces of a passage make up its text, and the features of a
piece are features of the message.  Features of addresses as a whole have no place.  A
pair of neighbouring words belongs to the pieces of both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from app.features import tricks
from app.features.headers import HEADERS, IP_PREFIX, headers_read
from app.features.tokens import MAX_WORD_CHARS, tokens_of
from app.features.words import APART, UNREAD, of_link, of_part
from app.kernels import ids as id_kernel
from app.kernels.text import TEXT, WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.features.tokens import Span
    from app.kernels import Ints
    from app.mail.message import Header, Message

Kind = Literal["header", "text", "link", "file"]
"""The kind of a passage."""
# Chinese and Japanese have no blanks: there, a piece ends with its clause.
_BLANKS: Final = re.compile(
    r"(\s+|(?<=[\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f])(?=[\u3041-\u9fff]))"
)
_READ: Final = ("words", "headers")
# In a date, only the time zone is a word (`app.features.headers`).
_ZONE: Final = slice(5, 7)


MOST_PIECES: Final = 30_000
"""Most pieces of a message's texts, including blanks.

Nearly all mail has fewer than 15,000 words; splitting 100,000 words of one letter took
2.6 s.  The rest becomes one piece without features.
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text, and its words.

    Parameters
    ----------
    text : str
        The piece.
    words, headers : tuple of Span
        Its words in these two views.
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
        Its source.
    name : str
        Name of a header, place of a text, element of a link, or media type of a file.
    pieces : tuple of Piece
        Its text in pieces.
    """

    kind: Kind
    name: str
    pieces: tuple[Piece, ...]


def passages(message: Message) -> list[Passage]:
    r"""Return the passages of a message, in its order.

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
    for header in headers_read(message):
        # Words of the subject are words of the text too.
        pieces = _of_header(header, as_text=header.name == "subject")
        found.append(Passage("header", header.name, tuple(pieces)))
    room = MOST_PIECES
    for text in message.texts:
        tag = f"{text.place}:" if text.place in APART else ""
        unread = text.place in UNREAD
        pieces = _of_text(text.content, tag, 0 if unread else room)
        found.append(Passage("text", text.place, tuple(pieces)))
        room -= len(found[-1].pieces)
    for link in message.links:
        piece = Piece(link.url, tuple(of_link(link)))
        found.append(Passage("link", link.element, (piece,)))
    for part in message.parts:
        if part.filename or part.kind or part.members:
            piece = Piece(part.filename, tuple(of_part(part)))
            found.append(Passage("file", part.media_type, (piece,)))
    return found


def _of_text(text: str, tag: str, room: int) -> Iterator[Piece]:
    """Yield some pieces of a text, and the rest; blanks have no features."""
    words = room // 2
    # With maxsplit=0, `split` would split at all blanks.
    pieces = _BLANKS.split(text, maxsplit=words) if words > 0 else [text]
    rest = pieces.pop() if len(pieces) == 2 * max(words, 0) + 1 else ""
    for piece in filter(None, pieces):
        yield Piece(piece, () if piece.isspace() else _spans(piece, tag))
    if rest:
        yield Piece(rest)


def _spans(piece: str, tag: str) -> tuple[Span, ...]:
    """Return the words of a piece of text, with its tricks."""
    # Spaced-out and random words can be found only in the whole text.
    found = () if tag else tricks.of_characters(piece)
    return ((tag, piece, TEXT), *[("", name, WHOLE) for name in found])


def _of_header(header: Header, *, as_text: bool) -> Iterator[Piece]:
    """Yield the pieces of a header's value, optionally also read as text."""
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
        # As in `app.features.headers`: without text before the semicolon, the date is
        # read.
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
    """The features of a view with their places, with repeats.

    Parameters
    ----------
    piece : ndarray of int64, shape (n,)
        Number of a piece, counted over all passages.
    ids : ndarray of int64, shape (n,)
        Id of a feature in that piece.
    """

    piece: Ints
    ids: Ints


def placed(found: Sequence[Passage]) -> dict[str, Placed]:
    r"""Return the features of passages with their places, by view.

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
        places[view] = _tokens(read)
    owner = np.repeat(np.arange(len(found)), [len(each.pieces) for each in found])
    # Only passages read word by word, not links, files or texts outside the body.
    text = _tokens(
        [
            tuple(span for span in piece.words[:1] if not span[0] and span[2] == TEXT)
            for piece in pieces
        ]
    )
    places["pairs"] = _pairs(text, owner)
    return places


def _tokens(read: Sequence[tuple[Span, ...]]) -> Placed:
    """Return the tokens of each piece."""
    tokens = tokens_of([span for spans in read for span in spans])
    of_span = np.repeat(np.arange(len(read)), [len(spans) for spans in read])
    sizes = np.diff(tokens.ends, prepend=0)
    return Placed(np.repeat(of_span, sizes), tokens.ids)


def _pairs(text: Placed, owner: Ints) -> Placed:
    """Return the pairs of neighbouring words, each in both of its pieces.

    Parameters
    ----------
    text : Placed
        The tokens by piece.
    owner : ndarray of int64
        The passage of each piece; pairs do not span passages.

    Notes
    -----
    The parts of dotted words come at the end of a text, so it is unknown which token of
    a piece is the neighbour of the next piece.  All are paired with its first token;
    pairs that the message does not have are dropped later.
    """
    piece, ids = text.piece, text.ids
    inside = (piece[1:] == piece[:-1]).nonzero()[0]
    # For each token, the first token of the next piece that has any.
    first = np.flatnonzero(np.diff(piece, prepend=-1))
    following = np.append(first, -1)[
        np.searchsorted(first, np.arange(ids.size), "right")
    ]
    left = np.flatnonzero(following >= 0)
    right = following[left]
    same = owner[piece[left]] == owner[piece[right]]
    left, right = left[same], right[same]
    made = np.empty(inside.size + left.size, np.int64)
    id_kernel.joined(
        ids[np.concatenate((inside, left))],
        ids[np.concatenate((inside + 1, right))],
        made,
    )
    between = made[inside.size :]
    return Placed(
        np.concatenate((piece[inside], piece[left], piece[right])),
        np.concatenate((made, between)),
    )
