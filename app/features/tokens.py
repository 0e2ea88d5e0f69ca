"""Tokens: where a word begins and ends, and how it is folded.

Contract of this file: every expression is linear in its input.  Repeats stand
side by side only where what they match is disjoint, or are possessive.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Precedent: Stalwart cuts at 16 bytes, SpamAssassin at 15, SpamBayes and
# Thunderbird at 12. Here 12 misses a little more spam, and 20 to 80 are alike
# (experiment 0002); 40 keeps names of hosts and files whole.
MAX_WORD_CHARS: Final = 40
"""Characters of a word that is a feature as it is."""
_LONG_PREFIX: Final = 4
_PIECE_CHARS: Final = 2_000
_EXPANSION_CHARS: Final = 200
_UNSPACED: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3041-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uac00-\ud7af"  # Hangul
    "\U00020000-\U0003ffff"  # Han, supplementary planes
)
# Vowels and points that stand inside words; \w takes them for punctuation.
_MARKS: Final = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff"
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
# Punctuation that says something as a part of a word ("$100", "free!!!",
# "don't", "opt-out") belongs to it; a run of any other is a word of its own;
# a dot inside keeps hosts, versions and prices whole (experiment 0002).
_ASCII_LETTER: Final = r"[a-z0-9_$!%'-]++"
_ANY_LETTER: Final = rf"(?:[^\W{_UNSPACED}{_MARKS}]++|[$!%'{_MARKS}-]++)++"
_RUN: Final = rf"[{_UNSPACED}]++"
_ASCII_WORD: Final = re.compile(rf"{_ASCII_LETTER}(?:\.{_ASCII_LETTER})*+")
_ANY_WORD: Final = re.compile(rf"{_RUN}|{_ANY_LETTER}(?:\.{_ANY_LETTER})*+")
_ASCII_TOKEN: Final = re.compile(
    rf"{_ASCII_LETTER}(?:\.{_ASCII_LETTER})*+|[^a-z0-9_\s]++"
)
_ANY_TOKEN: Final = re.compile(rf"{_RUN}|{_ANY_LETTER}(?:\.{_ANY_LETTER})*+|[^\w\s]++")
_INNER: Final = frozenset("_$!%'-")
_UNSPACED_LETTER: Final = re.compile(rf"[{_UNSPACED}]")


def of_text(text: str) -> list[str]:
    """Split what people read: words, runs of punctuation, parts of dotted words.

    Examples
    --------
    >>> of_text("FREE!!! See www.example.com")
    ['free!!!', 'see', 'www.example.com', 'www', 'example', 'com']
    """
    found = _split(text, _ASCII_TOKEN, _ANY_TOKEN)
    dotted = [word for word in found if "." in word and word[-1] != "."]
    for word in dotted:
        # A run of punctuation may hold dots too.
        if word[0] in _INNER or word[0].isalnum():
            found += word.split(".")
    return _bounded(found)


def of_name(text: str) -> list[str]:
    """Split what programs read: addresses, hosts, versions; dotted words whole.

    Examples
    --------
    >>> of_name("Bob <bob@mail.example.com>")
    ['bob', 'bob', 'mail.example.com']
    """
    return _bounded(_split(text, _ASCII_WORD, _ANY_WORD))


def _split(text: str, in_ascii: re.Pattern[str], in_any: re.Pattern[str]) -> list[str]:
    """Fold case and compatibility forms, then find the words."""
    if text.isascii():
        return in_ascii.findall(text.lower())
    folded = _normalized(_INVISIBLE.sub("", text)).casefold()
    words: list[str] = in_any.findall(folded)
    if not _UNSPACED_LETTER.search(folded):
        return words
    found: list[str] = []
    for word in words:
        if _UNSPACED_LETTER.match(word):
            found += _bigrams(word)
        else:
            found.append(word)
    return found


def _normalized(text: str) -> str:
    """Return the compatibility form NFKC, in time linear in the text."""
    # In pieces, because normalising is quadratic in a run of combining marks:
    # 200,000 of them after one letter take 21 s, in pieces 0.2 s. A mark that
    # begins a piece stays apart from its letter; such a run is no word anyway.
    pieces = (text[i : i + _PIECE_CHARS] for i in range(0, len(text), _PIECE_CHARS))
    return "".join(map(_normalized_piece, pieces))


def _normalized_piece(piece: str) -> str:
    """Return the compatibility form of a piece, unless it is far longer."""
    # One letter may stand for eighteen (U+FDFA), so that a text within its limit
    # becomes 3.6 million characters; text that people write does not double.
    folded = unicodedata.normalize("NFKC", piece)
    return folded if len(folded) <= 2 * len(piece) + _EXPANSION_CHARS else piece


def _bigrams(run: str) -> list[str]:
    """Return the pairs of characters of a run without blanks.

    Pairs stand in for words where finding words takes a dictionary: most Han
    words have two characters.
    """
    if len(run) == 1:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]


def _bounded(found: list[str]) -> list[str]:
    """Return the words with what is too long for a word made short."""
    # Most texts have no long word, and to know takes a third of the time.
    if max(map(len, found), default=0) <= MAX_WORD_CHARS:
        return found
    return [
        word if len(word) <= MAX_WORD_CHARS else "long:" + word[:_LONG_PREFIX]
        for word in found
    ]
