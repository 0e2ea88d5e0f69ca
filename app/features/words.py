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
from app.features.tokens import of_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from app.mail.message import Message

# Texts that are not read where they stand.
_APART: Final = frozenset({"alt", "hidden"})


def sequences(message: Message) -> list[list[str]]:
    r"""Return what is read, word by word: the subject, then each text.

    The subject is read with the text, and its words are words of the text too,
    beside those that its header has (experiment 0020).

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> sequences(parse(b"Subject: Lunch\n\nAt noon?\n"))
    [['lunch'], ['at', 'noon', '?']]
    """
    found = [of_text(message.header("subject"))]
    found += [
        of_text(text.content) for text in message.texts if text.place not in _APART
    ]
    return found


def marked_words(message: Message, read: Collection[str]) -> list[str]:
    """Return what does not stand in the text as it is, tagged by place.

    Parameters
    ----------
    message : Message
        The message.
    read : collection of str
        The different words of `sequences`.
    """
    found = tricks.of_words(read)
    spaced = tricks.may_be_spaced(read)
    for text in message.texts:
        if text.place in _APART:
            tag = text.place + ":"
            found += [tag + word for word in of_text(text.content)]
        else:
            found += tricks.of_text(text.content)
            if spaced:
                found += tricks.spaced_out(text.content)
    subject = message.header("subject")
    found += tricks.of_text(subject)
    if spaced:
        found += tricks.spaced_out(subject)
    for link in message.links:
        found += links.of_link(link)
    found += file_words(message)
    return found
