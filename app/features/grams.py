"""Grams: runs of four symbols of the text, for `app.bayes.models.chain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.models.chain import runs_of, symbols_of
from app.features.words import sequences

if TYPE_CHECKING:
    from app.bayes.models.chain import Runs
    from app.mail.message import Message

MAX_GRAM_TEXT: Final = 500
"""Most bytes of text from which grams are taken; a letter of any script is one.

Spammers append text that looks like ham, which few readers reach. Precedent: Bratko et
al., "Spam filtering using statistical data compression models", JMLR 7, 2006, section
5.6, cut messages at 2,500 bytes.  Here, 350 to 2,000 rank alike (experiment 0096).
"""
# Letters are symbols of their own, in both cases: 32 symbols gain less (experiment
# 0088).  Of all other bytes, those of one kind are one symbol; two more
# are the rest of ASCII, and bytes beyond it.  Each has a character for people.
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_KINDS: Final = (
    b"0123456789",
    b" \t",
    b"\n\r",
    b".",
    b",",
    b"!?",
    b"$%",
    b"-_*=",
    b"/:@",
    b"\"'()<>[]",
)
_REST: Final = len(_LETTERS) + len(_KINDS)
_SYMBOLS: Final = {
    byte: symbol
    for symbol, kind in enumerate([*zip(_LETTERS, strict=True), *_KINDS])
    for byte in kind
}
_SHOWN: Final = f"{_LETTERS.decode()}0_|.,!$-/(&~"
_SYMBOL_OF: Final = bytes(
    [_SYMBOLS.get(byte, _REST + (byte > 127)) for byte in range(256)]  # noqa: PLR2004
)
"""The symbol of each byte."""
# From the first to before the second, and so on: the scripts from Greek on, without
# punctuation, signs and emoji.  By blocks, because the category of a character depends
# on the version of Python.
_SCRIPTS: Final = np.array(
    [0x370, 0x2000, 0x2C00, 0x2E00, 0x3040, 0xD800, 0xF900, 0xFE00, 0x20000], "<u4"
)
# Capitals, because few texts have many: foreign scripts stay apart from the text of
# other mail.
_CAPITALS: Final = np.array([*_LETTERS[26:]], "<u4")


def grams(message: Message) -> Runs:
    r"""Return the runs of four symbols in subject and text, each once.

    Notes
    -----
    They are taken from the decoded text in UTF-8, not from the raw message: grams of
    headers gain nothing and double the number (experiment 0021), and those of base64 do
    not recur.  A letter of another script counts as a Latin capital, and its neighbours
    in the script as others (experiment 0113).

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> grams(parse(b"Subject: ab\n\ncd")).numbers.size
    6
    """
    text = ""
    for _, part, _ in sequences(message):
        if len(text) >= MAX_GRAM_TEXT:
            break
        text += part[:MAX_GRAM_TEXT] + "\n"
    text = text[:MAX_GRAM_TEXT]
    if not text.isascii():
        points = np.array(np.frombuffer(text.encode("utf-32-le"), "<u4"))
        letters = _SCRIPTS.searchsorted(points, "right") % 2 == 1
        points[letters] = _CAPITALS[points[letters] % _CAPITALS.size]
        text = points.tobytes().decode("utf-32-le")
    content = text.encode()[:MAX_GRAM_TEXT].translate(_SYMBOL_OF)
    return runs_of(np.frombuffer(content, np.uint8))


def shown(number: int) -> str:
    r"""Return a run for people, with one character for all bytes of a kind.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> x = grams(parse(b"Subject: Only $99!\n\nBuy"))
    >>> [shown(number) for number in x.ids[-3:].tolist()]
    ['|Onl', '!|Bu', '$00!']
    """
    return "".join(_SHOWN[symbol] for symbol in symbols_of(number))
