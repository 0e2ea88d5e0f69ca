"""Tokens by regular expressions: the plain reference of `app.kernels.text`."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from app.features.tricks import READ_AS
from app.kernels.text import TEXT, WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from app.features.tokens import Span

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
)
MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
LETTERS = rf"(?>(?:[^\W{UNSPACED}{MARKS}]++|[$!%'{MARKS}-]++)+)"
WORD = re.compile(rf"[{UNSPACED}]++|{LETTERS}(?>(?:\.{LETTERS})*)")
TOKEN = re.compile(rf"{WORD.pattern}|[^\w\s]++")
STACKED = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
STYLED = str.maketrans(
    "\ua7ae\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d"
    "\u0274\u1d0f\u1d18\ua7af\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22"
    "🅐🅑🅒🅓🅔🅕🅖🅗🅘🅙🅚🅛🅜🅝🅞🅟🅠🅡🅢🅣🅤🅥🅦🅧🅨🅩"
    "🅰🅱🅲🅳🅴🅵🅶🅷🅸🅹🅺🅻🅼🅽🅾🅿🆀🆁🆂🆃🆄🆅🆆🆇🆈🆉"
    "\ua4ee\ua4d0\ua4da\ua4d3\ua4d2\ua4f0\ua4dd\ua4d6\ua4e7\ua4f2\ua4d9\ua4d7"
    "\ua4e1\ua4df\ua4e0\ua4f3\ua4d1\ua4e3\ua4e2\ua4d4\ua4f4\ua4e6\ua4ea\ua4eb\ua4ec\ua4dc",
    "iabcdefghijklmnopqrstuvwyz"
    + 2 * "abcdefghijklmnopqrstuvwxyz"
    + "abcddefghijklmnoprstuvwxyz",
)
UNSEEN = (
    "\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffc"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
REVERSED = "\u202e([^\u202a-\u202e\n\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]+)"
SCRIPTS = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af",
    "\u0370-\u037d\u037f-\u0386\u0388-\u03ff",
    "\u0400-\u052f", "\u0531-\u0559\u0560-\u0587",
    "\u13a0-\u13ff", "\u1400-\u167f",
)  # fmt: skip
MIXED = "|".join(f"[{one}][{other}]" for one, other in permutations(SCRIPTS, 2))
UNREAD = (
    "\u02b0-\u02ff\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0640\u064b-\u065f\u0670_'-"
)
IPA = dict(zip("ɑəɛʄɧɩƖʍŋɔʃʂʊʒɮ", "aeefhilmnossuzb", strict=True))
DIGITS = str.maketrans("013457", "oieast")
SIGNS = str.maketrans("013457$!", "oieastsi")


def fold(text: str) -> str:
    """Fold a text, in pieces that do not grow far beyond twice their length."""
    if text.isascii():
        return text.lower()
    text = re.sub(f"[{UNSEEN}]", "", text)
    text = re.sub("[\u115f\u1160\u3164\uffa0]", " ", text)
    pieces = [text[i : i + 2_000] for i in range(0, len(text), 2_000)]
    folded = [unicodedata.normalize("NFKC", piece) for piece in pieces]
    whole = "".join(
        new if len(new) <= 2 * len(piece) + 200 else piece
        for piece, new in zip(pieces, folded, strict=True)
    )
    plain = re.sub(f"[{STACKED}]", "", whole).translate(STYLED)
    return plain.casefold().replace("i\u0307", "i").replace("\u0131", "i")


def words(text: str, how: int) -> list[str]:
    """Split a text."""
    found: list[str] = []
    if how == TEXT:
        text = re.sub(REVERSED, lambda turned: turned[1][::-1], text)
        if re.search(MIXED, text):
            text = re.sub(r"\w+", lambda word: in_latin(word[0]), text)
    for word in (TOKEN if how == TEXT else WORD).findall(fold(text)):
        if not re.match(f"[{UNSPACED}]", word) or len(word) == 1:
            found.append(word)
        else:
            found += map("".join, pairwise(word))
    if how == TEXT:
        for word in [*found]:
            begins = word[0] in "_$!%'-" or word[0].isalnum()
            found += word.split(".") if "." in word and begins else []
    return [word if len(word) <= 40 else "long:" + word[:4] for word in found]


def in_latin(word: str) -> str:
    """Return a word, in Latin letters if it has three or more, of several scripts."""
    scripts = [script for script in SCRIPTS if re.search(f"[{script}]", word)]
    mixed = len(scripts) > 1 and len(re.sub(r"\d", "", word)) > 2
    return word.translate(READ_AS) if mixed else word


def tokens(span: Span) -> list[str]:
    """Return the tokens of a span."""
    tag, text, how = span
    return [tag + word for word in ([text] if how == WHOLE else words(text, how))]


def plain(name: str) -> str:
    """Return a word for people without accents, hyphens and the like, and with letters.

    Digits and signs between letters are letters; names for programs are as they are.
    """
    tag, colon, _ = name.partition(":")
    tagged = colon and re.fullmatch("[a-z-]+", tag)
    if tagged and tag not in {"subject", "alt", "hidden", "long"}:
        return name
    found = []
    for c in name:
        words = unicodedata.name(c, "").split(" ")
        size, letter, what = words[1:2], words[3:4], words[4:5]
        if c in IPA:
            found.append(IPA[c])
        elif words[0] == "LATIN" and len(*letter or [""]) == 1 and what == ["WITH"]:
            found.append(letter[0].lower() if size == ["SMALL"] else letter[0])
        elif not re.match(f"[{UNREAD}]", c):
            found.append(c)
    word = "".join(found) or name
    between = re.compile("([^\0-`])([013457$!]{1,2})(?=[^\0-`])")
    turned = between.sub(lambda found: found[1] + found[2].translate(SIGNS), word)
    return word if turned == word else turned.translate(DIGITS)


def ids(names: Iterable[str]) -> NDArray[np.int64]:
    """Return the ids of names, by the library that defines them."""
    digests = [xxhash.xxh3_64_intdigest(plain(name).encode()) for name in names]
    return np.array(digests, np.uint64).view(np.int64)
