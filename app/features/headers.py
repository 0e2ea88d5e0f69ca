"""Which words are in the headers of a message, and in which one each?

Every word is tagged by its header (``subject:money``, ``from:bob``,
``received:10.1.2``).

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.features.addresses import address_words
from app.features.tokens import MAX_WORD_CHARS, of_name, of_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.mail.message import Header, Message

_IP_PREFIX: Final = re.compile(
    r"(?<![\d.])(\d{1,5}\.\d{1,5}\.\d{1,5})\.\d{1,5}(?![\d.])", re.ASCII
)


def header_words(message: Message) -> list[str]:
    r"""Return the words of the headers, tagged by header, with repeats.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> header_words(parse(b"Subject: Lunch\nFrom: bob@example.com\n\nAt noon?\n"))
    ['subject:lunch', 'from:bob', 'from:example.com', 'from:shape:a']
    """
    found: list[str] = []
    for header in message.headers:
        rule = HEADERS.get(header.name)
        if rule is not None:
            found += rule(header)
    found += address_words(message)
    found += ["defect:" + defect for defect in message.defects]
    return found


def _subject(header: Header) -> list[str]:
    """Return the words of the subject, split as the text that it is."""
    return ["subject:" + word for word in of_text(header.value)]


def _names(header: Header) -> list[str]:
    """Return the words of a header that names people, programs or types."""
    tag = header.name + ":"
    return [tag + word for word in of_name(header.value)]


def _received(header: Header) -> list[str]:
    """Return hosts, programs and networks of one hop, without its date."""
    # The date behind the semicolon only tells when the mail was collected.
    hop = header.value.rpartition(";")[0] or header.value
    found = of_name(hop)
    found += _IP_PREFIX.findall(hop)
    return ["received:" + word for word in found]


def _zone(header: Header) -> list[str]:
    """Return the time zone: the rest of the date does not come again."""
    zone = header.value.split(" ")
    return ["date:" + word.lower() for word in zone[5:7] if len(word) <= MAX_WORD_CHARS]


# Received gains most after the subject, List-Id and the sum of all headers lose,
# the others are alike with and without on the one corpus that has headers, and
# are kept for mail that differs from it (experiment 0003).
HEADERS: Final[dict[str, Callable[[Header], list[str]]]] = {
    "subject": _subject,
    "received": _received,
    "from": _names,
    "to": _names,
    "cc": _names,
    "reply-to": _names,
    "sender": _names,
    "return-path": _names,
    "message-id": _names,
    "in-reply-to": _names,
    "date": _zone,
    "content-type": _names,
    "x-mailer": _names,
    "user-agent": _names,
    "organization": _names,
}
"""The headers whose words are features, and how each is split."""
