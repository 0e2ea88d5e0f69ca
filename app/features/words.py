"""Which words are in a message, and where do they stand?

A word of the body is a feature by itself (``money``); any other is tagged by
its place (``subject:money``, ``from:bob``, ``link:example.com``).
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.mail.message import Message

MAX_WORD_CHARS: Final = 40
"""Characters of a word that is kept as it is."""

# Scripts written without blanks between words.
_UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3041-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uac00-\ud7af"  # Hangul
    "\U00020000-\U0003ffff"
)
_ASCII_WORD: Final = re.compile(r"[a-z0-9$!%'_-]+")
_RUN: Final = re.compile(rf"[{_UNSPACED}]+")
_WORD: Final = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+")

HEADERS: Final = ("subject", "from", "to", "cc", "reply-to", "received", "x-mailer",
   "user-agent", "message-id", "content-type", "return-path", "sender", "organization")


def words(message: Message) -> list[str]:
    """Return the words of a message, in reading order, with repeats."""
    found: list[str] = []
    for header in message.headers:
        if header.name in HEADERS:
            tag = header.name + ":"
            found += [tag + word for word in split(header.value)]
    for text in message.texts:
        found += split(text.content)
    for link in message.links:
        found += ["link:" + word for word in split(link.url)]
    return found


def split(text: str) -> list[str]:
    """Split a text into words."""
    if text.isascii():
        return [w if len(w) <= MAX_WORD_CHARS else _long(w) for w in _ASCII_WORD.findall(text.lower())]
    text = unicodedata.normalize("NFKC", text).casefold()
    found: list[str] = []
    for word in _WORD.findall(text):
        if _RUN.match(word):
            found += bigrams(word)
        else:
            found.append(word if len(word) <= MAX_WORD_CHARS else _long(word))
    return found


def bigrams(run: str) -> Iterable[str]:
    """Return the character pairs of a run, or the run if it is one character."""
    if len(run) == 1:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]


def _long(word: str) -> str:
    return f"long:{word[:4]}"
