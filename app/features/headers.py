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

    from app.mail.message import Message

# What stands before the first digit is asked behind it, so that the search goes
# from digit to digit.
_IP_PREFIX: Final = re.compile(
    r"(\d(?<![\d.]\d)\d{0,4}\.\d{1,5}\.\d{1,5})\.\d{1,5}(?![\d.])", re.ASCII
)


def header_words(message: Message) -> list[str]:
    r"""Return the words of the headers, tagged by header, with repeats.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> header_words(parse(b"Subject: Lunch\nFrom: bob@example.com\n\nAt noon?\n"))
    ['subject:lunch', 'from:bob', 'from:example.com', 'from:shape:a']
    """
    values: dict[str, list[str]] = {}
    for header in message.headers:
        if header.name in HEADERS:
            values.setdefault(header.name, []).append(header.value)
    found: list[str] = []
    for name, given in values.items():
        found += [f"{name}:{word}" for word in HEADERS[name](given)]
    found += address_words(message)
    found += ["defect:" + defect for defect in message.defects]
    return found


def _subject(values: list[str]) -> list[str]:
    """Return the words of the subject, split as the text that it is."""
    return of_text("\n".join(values))


def _names(values: list[str]) -> list[str]:
    """Return the words of headers that name people, programs or types."""
    return of_name("\n".join(values))


def _received(values: list[str]) -> list[str]:
    """Return hosts, programs and networks of the hops, without their dates."""
    # The date behind the semicolon only tells when the mail was collected.
    hops = "\n".join([value.rpartition(";")[0] or value for value in values])
    return of_name(hops) + _IP_PREFIX.findall(hops)


def _zone(values: list[str]) -> list[str]:
    """Return the time zones: the rest of a date does not come again."""
    zones = [word for value in values for word in value.split(" ")[5:7]]
    return [word.lower() for word in zones if len(word) <= MAX_WORD_CHARS]


# Received gains most after the subject, List-Id and the sum of all headers lose,
# the others are alike with and without on the one corpus that has headers, and
# are kept for mail that differs from it (experiment 0003).
HEADERS: Final[dict[str, Callable[[list[str]], list[str]]]] = {
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
"""The headers whose words are features, and how the values of one are split."""
