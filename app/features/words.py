"""Words: the visible words of a message.

A word of the text is a feature by itself (``money``).  A word that replaces an image or
belongs to a link is tagged by its place (``alt:money``, ``link:example.com``).  A word
never has a colon next to a letter, so it cannot look like a tagged one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.features import links, tricks
from app.features.files import file_words
from app.kernels.text import TEXT, WHOLE

if TYPE_CHECKING:
    from app.features.tokens import Span
    from app.mail.message import Message

# Texts that are not read in sequence.
APART: Final = frozenset({"alt", "hidden"})
# Mail programs show another rendering of these.  With the words of ham in it, spam was
# taken for ham (experiment 0109).
UNREAD: Final = frozenset({"alternative"})
# Least number of distinct single letters in a text with spaced-out words.
_SPACED_LETTERS: Final = 4


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
        found += links.of_link(link)
    return found + [
        (x.place + ":", x.content, TEXT) for x in message.texts if x.place in APART
    ]


def disguised_words(read: list[Span], words: bytes, alone: int) -> list[Span]:
    """Return the tricks in the readable text, and the words behind them.

    Parameters
    ----------
    read : list of Span
        The readable text.
    words : bytes
        Its words, each followed by a blank.
    alone : int
        Bit mask of the letters that occur as words.
    """
    found = tricks.of_words(words)
    for _, text, _ in read:
        found += tricks.of_text(text)
        if alone.bit_count() >= _SPACED_LETTERS:
            found += tricks.spaced_out(text)
    return [("", name, WHOLE) for name in found]
