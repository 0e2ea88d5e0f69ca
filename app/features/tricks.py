"""Tricks: text that people can read but simple filters cannot.

`app.features.tokens` reads the words as people do, by dropping invisible characters and
folding compatibility forms.  Here the trick itself becomes a feature, because few
messages other than spam use one.

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

import numpy as np

from app.kernels import text as kernel
from app.kernels.text import BIDI, INVISIBLE, MIXED, SPACED

# Confusables that NFKC leaves apart: the Cyrillic and Greek letters that look
# like Latin ones (Unicode Technical Standard 39, confusables.txt).
_LOOKALIKES: Final = {
    **str.maketrans("аеорсухіјѕһԁԛԝкмтвн", "aeopcyxijshdqwkmtbh"),
    **str.maketrans("аеорсухіјѕһкмтвн".upper(), "AEOPCYXIJSHKMTBH"),
    **str.maketrans("αορντκυιχ", "aopvtkuix"),
    **str.maketrans("αβεζηικμνορτυχ".upper(), "ABEZHIKMNOPTYX"),
}
# What senders write for each letter of Latin: these confusables, and the letters that
# generators of "fancy text" offer (experiment 0123).  Only words of several scripts are
# read by this table: by it, "привет" would be a host that looks Latin.
_LOOKS: Final = {
    "a": "αΑλΛΔаАдДᎪᗅᗩ",
    "b": "βΒбвВъЪьЬҍᏏᏴᑲᖯᗷ",
    "c": "ςϲϹсСҫҪᏟᑕ",
    "d": "δԁժᎠᎴᏧᑯᗞᗪ",
    "e": "εΕξΞΣеЕєЄҽҾҿᎬᗴᕮ",
    "f": "ϝϜғҒᖴ",
    "g": "ԌԍցᎶᏀᏳᘜ",
    "h": "ΗΉнНђћһҺհᎻᏂᕼ",
    "i": "ιΙіІїЇᎥᏆ",
    "j": "ϳͿјЈյᎫᒍ",
    "k": "κΚкКќӄқҝҟҡᏦ",
    "l": "ӀӏԼլᏞᒪ",
    "m": "ΜϺмМӍӎᎷᗰ",
    "n": "ηήΝΠиИйЙпПղռոᏁᑎ",
    "o": "οΟθΘσφΦоОөӨօՕᎾᗝ",
    "p": "þρϱΡрРքᏢᑭ",
    "q": "Ԛԛգզҩᑫ",
    "r": "гГяЯրᎡᏒᖇ",
    "s": "ѕЅտֆՏᏕᏚᔕ",
    "t": "τΤтТҭէᎢ",
    "u": "υύμцЦսՍմᑌ",
    "v": "νѵѴᏉᏙᐯ",
    "w": "ψωшШщЩѡԜԝաᎳᏇᏔᗯ",
    "x": "χΧхХжЖҲҳӼӽᕁ",
    "y": "γΥϒуУүҮұҰўӳվᎩᎽᖻ",
    "z": "ζΖҀՀᏃᘔ",
}
READ_AS: Final = {
    ord(look): letter.upper() if look.isupper() else letter
    for letter, looks in _LOOKS.items()
    for look in looks
}
"""The Latin letters that people read in words of several scripts."""
_SCRIPTS: Final = [f"{first:c}-{last:c}" for first, last in kernel.SCRIPTS]
_SCRIPTS[0] += "A-Za-z"
# Without the letters of all scripts but one.
_OF_ONE: Final = [
    rf"[^\W{''.join(_SCRIPTS[:at] + _SCRIPTS[at + 1 :])}]++"
    for at in range(len(_SCRIPTS))
]
# Of three letters or more: "ΔT", "50μm" and "kΩ" are what they seem.
_MIXED_WORD: Final = re.compile(
    rf"\b(?=(?:\d*[^\W\d]){{3}})(?!(?:{'|'.join(_OF_ONE)})\b)\w+"
)
# Shown from right to left, up to another mark of direction (Unicode Standard Annex 9);
# without letters of Hebrew and Arabic, which are always.
_REVERSED: Final = re.compile(
    "\u202e([^\u202a-\u202e\n\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]++)"
)
# Blanks of any width; U+2800 is a Braille pattern without dots.
_BETWEEN: Final = (
    f"[ .*\u00a0\u2000-\u200a\u202f\u205f\u2800{''.join(map(chr, kernel.FILLERS))}-]"
)
# A letter and one or two blanks or marks, repeated. Never a digit, because tables and
# telephone numbers look like this.
_SPACED: Final = re.compile(
    rf"(?<![^\W_])(?:[^\W\d_]{_BETWEEN}{{1,2}}){{3,30}}[^\W\d_](?![^\W_])"
)
_MARKS: Final = re.compile(f"{_BETWEEN}+")
# Maps consonants to one byte and all other characters to another: finding five in a row
# takes an eighth of the time of a regular expression.
_CONSONANTS: Final = b"ccccc"
_AS_CONSONANTS: Final = bytes(
    ord("c") if chr(byte) in "bcdfghjklmnpqrstvwxz" else ord(".") for byte in range(256)
)
# The only word with five consonants in a row that every mail has.
_NO_RANDOM: Final = b"https"
_MAX_FOUND: Final = 100
# Of different ones: tables have rows of the same two, such as "Y N Y Y".
_LEAST_LETTERS: Final = 3


def of_text(text: str) -> list[str]:
    """Return the tricks with characters, and the words written letter by letter.

    Examples
    --------
    >>> of_text("buy V i a g r a now"), of_text("F R E E")
    (['trick:spaced', 'viagra'], ['trick:spaced', 'free'])
    """
    seen = _seen(text)
    if not seen:
        return []
    found = _named(seen)
    # A quick check: the expression takes a hundred times as long.
    if seen & SPACED:
        for spaced in islice(_SPACED.finditer(text), _MAX_FOUND):
            word = _MARKS.sub("", spaced[0]).lower()
            if len({*word}) >= _LEAST_LETTERS:
                found += ["trick:spaced", word]
    return found


def of_characters(text: str) -> list[str]:
    """Return the tricks with characters alone.

    Examples
    --------
    >>> of_characters("vi\u200bagra and p\u0430ypal")
    ['trick:invisible', 'trick:mixed']
    """
    return [] if text.isascii() else _named(_seen(text))


def _named(seen: int) -> list[str]:
    """Return the names of tricks with characters."""
    names = {INVISIBLE: "invisible", BIDI: "bidi", MIXED: "mixed"}
    return [f"trick:{name}" for bit, name in names.items() if seen & bit]


def is_mixed(text: str) -> bool:
    """Return whether letters of several scripts that look alike are side by side."""
    return bool(_seen(text) & MIXED)


def _seen(text: str) -> int:
    """Return the disguises that `app.kernels.text.disguises` finds in a text."""
    return kernel.disguises(np.frombuffer(text.encode(), np.uint8))


def as_latin(word: str) -> str:
    """Return a word with look-alike letters replaced by Latin ones.

    Examples
    --------
    >>> as_latin("p\u0430yp\u0430l")
    'paypal'
    """
    return word.translate(_LOOKALIKES)


def undisguised(text: str) -> str:
    """Return a text with the letters of its words, and their order, as people read it.

    Words of mixed scripts have Latin letters, and what is shown backwards is turned.

    Examples
    --------
    >>> undisguised("P\u0430ypal, \u043e\u043d\u0430, \u202elapyap")
    'Paypal, она, paypal'
    """
    seen = 0 if text.isascii() else _seen(text)
    if seen & BIDI:
        text = _REVERSED.sub(lambda found: found[1][::-1], text)
    if seen & MIXED:
        text = _MIXED_WORD.sub(_as_read, text)
    return text


def _as_read(word: re.Match[str]) -> str:
    """Return a word of several scripts with Latin letters, if they are side by side.

    So a word is read alike whatever stands beside it.
    """
    return word[0].translate(READ_AS) if is_mixed(word[0]) else word[0]


def of_words(words: bytes) -> list[str]:
    """Return the shapes of random strings among words.

    A word with five consonants in a row is a random string, or German.  Only its length
    in steps of four recurs (experiment 0023).

    Parameters
    ----------
    words : bytes
        Each followed by a blank; repeated words count once.

    Examples
    --------
    >>> of_words(b"hello xkqzvfpt ")
    ['random:2']
    """
    letters = words.translate(_AS_CONSONANTS)
    at = letters.find(_CONSONANTS)
    if at < 0:
        return []
    # Not a set, whose order differs between processes: perhaps only the first are used.
    found = {}
    while at >= 0:
        if words.startswith(_NO_RANDOM, at):
            at = letters.find(_CONSONANTS, at + 1)
            continue
        end = words.index(b" ", at)
        found[words[words.rfind(b" ", 0, at) + 1 : end].decode()] = True
        at = letters.find(_CONSONANTS, end)
    return [f"random:{min(len(word) // 4, 8)}" for word in found]
