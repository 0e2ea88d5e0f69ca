"""Tricks: text written so that a person reads it and a filter does not.

The words themselves are read as the person reads them (`app.features.tokens`
drops invisible characters and folds compatibility forms); here the trick itself
becomes a feature, because few messages other than spam play it.

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
from itertools import islice
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

# Soft hyphens, zero-width characters and the byte order mark.
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
# Unicode Technical Report 36, section 2.7: text that runs against its order.
_BIDI: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Cyrillic and Greek letters that stand beside Latin ones in one word:
# Unicode Technical Standard 39, section 5.1, "mixed-script confusables". The search
# goes from one of those to the next: from Latin letter to Latin letter it takes five
# times as long in the mail that has neither.
_MIXED: Final = re.compile("[\u0370-\u04ff](?:(?<=[a-zA-Z].)|(?=[a-zA-Z]))")
# Confusables that NFKC leaves apart: the Cyrillic and Greek letters that look
# like Latin ones (Unicode Technical Standard 39, confusables.txt).
_LOOKALIKES: Final = str.maketrans(
    "аеорсухіјѕһԁԛԝкмтвн" + "αορντκυιχ", "aeopcyxijshdqwkmtbh" + "aopvtkuix"
)
# A letter and one or two blanks or marks, again and again: never a digit, as
# tables and telephone numbers look so.
_SPACED: Final = re.compile(
    r"(?<![^\W_])(?:[^\W\d_][ .*-]{1,2}){3,30}[^\W\d_](?![^\W_])"
)
_MARKS: Final = re.compile(r"[ .*-]+")
# Every consonant as one and the same byte, all else as another: to look for five
# of them takes an eighth of the time of an expression.
_CONSONANTS: Final = b"ccccc"
_AS_CONSONANTS: Final = bytes(
    ord("c") if chr(byte) in "bcdfghjklmnpqrstvwxz" else ord(".") for byte in range(256)
)
# The one word of five consonants that every mail has.
_NO_RANDOM: Final = b"https"
_MAX_FOUND: Final = 100
_LETTERS: Final = 4


def of_text(text: str) -> list[str]:
    """Return the tricks that characters play, and the words behind them.

    Examples
    --------
    >>> of_text("vi\u200bagra and p\u0430ypal")
    ['trick:invisible', 'trick:mixed', 'paypal']
    """
    found: list[str] = []
    if not text.isascii():
        if _INVISIBLE.search(text):
            found.append("trick:invisible")
        if _BIDI.search(text):
            found.append("trick:bidi")
        if is_mixed(text):
            found += ["trick:mixed", *_latin(text)]
    return found


def spaced_out(text: str) -> list[str]:
    """Return the words that are written letter by letter, as they are read.

    Examples
    --------
    >>> spaced_out("buy V i a g r a now")
    ['trick:spaced', 'viagra']
    """
    found: list[str] = []
    for spaced in islice(_SPACED.finditer(text), _MAX_FOUND):
        found += ["trick:spaced", _MARKS.sub("", spaced[0]).lower()]
    return found


def may_be_spaced(words: Container[str]) -> bool:
    """Return whether a text of these words may have words letter by letter.

    Four different letters by themselves: to look for them takes a hundredth of
    the time of `spaced_out`, and most mail has fewer.
    """
    return sum(map(words.__contains__, ascii_lowercase)) >= _LETTERS


def is_mixed(text: str) -> bool:
    """Return whether Latin letters stand beside Cyrillic or Greek ones."""
    return _MIXED.search(text) is not None


def as_latin(word: str) -> str:
    """Return a word, lower case, with letters of other scripts as they look.

    Examples
    --------
    >>> as_latin("p\u0430yp\u0430l")
    'paypal'
    """
    return word.translate(_LOOKALIKES)


def of_words(words: Iterable[str]) -> list[str]:
    """Return the shapes of words that no language has.

    Five consonants in a row make a word a random string, or a German one; its
    length in steps of four is what comes again (experiment 0023).

    Examples
    --------
    >>> of_words(["hello", "xkqzvfpt"])
    ['random:2']
    """
    # One search in all words: most messages have no such word.
    joined = "\n".join(words).encode()
    letters = joined.translate(_AS_CONSONANTS)
    found = []
    at = letters.find(_CONSONANTS)
    while at >= 0:
        if joined.startswith(_NO_RANDOM, at):
            at = letters.find(_CONSONANTS, at + 1)
            continue
        begin = joined.rfind(b"\n", 0, at) + 1
        end = joined.find(b"\n", at)
        end = len(joined) if end < 0 else end
        size = len(joined[begin:end].decode())
        found.append(f"random:{min(size // 4, 8)}")
        at = letters.find(_CONSONANTS, end)
    return found


def _latin(text: str) -> list[str]:
    """Return the words of mixed scripts as they look."""
    words = (word for word in text.split() if len(word) <= _MAX_FOUND)
    mixed = [word for word in words if is_mixed(word)][:_MAX_FOUND]
    return [as_latin(word.lower()).strip(".,;:!?()\"'") for word in mixed]
