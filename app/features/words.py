"""Which words does a message show its reader?

A word of the text is a feature by itself (``money``); one that stands in for
an image or points elsewhere is tagged by its place (``alt:money``,
``link:example.com``).  A word never holds a colon next to a letter, so no word
looks like a tagged one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.features.tokens import of_name, of_text

if TYPE_CHECKING:
    from app.mail.message import Message


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
    found += [of_text(text.content) for text in message.texts if text.place != "alt"]
    return found


def marked_words(message: Message) -> list[str]:
    """Return the words that do not stand in the text itself, tagged by place."""
    found: list[str] = []
    for text in message.texts:
        if text.place == "alt":
            found += ["alt:" + word for word in of_text(text.content)]
    for link in message.links:
        found += ["link:" + word for word in of_name(link.url)]
    return found
