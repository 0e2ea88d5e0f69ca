"""Words: the words that a message shows its reader.

A word of the text is a feature by itself (``money``); a word that stands in for
an image or points elsewhere is tagged by its place (``alt:money``,
``link:example.com``).  A word never holds a colon next to a letter, so no word
looks like a tagged one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.features import links, tricks
from app.features.structure import file_words
from app.kernels.text import TEXT, WHOLE

if TYPE_CHECKING:
    from app.features.tokens import Span
    from app.mail.message import Message

# Texts that are not read where they stand.
APART: Final = frozenset({"alt", "hidden"})
# Different letters by themselves, in what may have words letter by letter.
_SPACED_LETTERS: Final = 4


def sequences(message: Message) -> list[Span]:
    r"""Return the readable text, word by word: the subject, then each text.

    The subject is read with the text, and its words are words of the text too,
    beside those that its header has (experiment 0020).

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> [text for _, text, _ in sequences(parse(b"Subject: Lunch\n\nAt noon?\n"))]
    ['Lunch', 'At noon?\n']
    """
    return [
        ("", message.header("subject"), TEXT),
        *[("", x.content, TEXT) for x in message.texts if x.place not in APART],
    ]


def marked_words(message: Message) -> list[Span]:
    """Return the words outside the visible text, tagged by place."""
    # Files and links first: whoever takes only some takes these, not a flood of the
    # others.
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
        What is read.
    words : bytes
        Its words, with a blank behind each.
    alone : int
        Bit by bit, which small letters are words.
    """
    found = tricks.of_words(words)
    for _, text, _ in read:
        found += tricks.of_text(text)
        if alone.bit_count() >= _SPACED_LETTERS:
            found += tricks.spaced_out(text)
    return [("", name, WHOLE) for name in found]
