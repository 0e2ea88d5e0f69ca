"""Grams: runs of four symbols of the text, for `app.bayes.models.chain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.models.chain import runs_of, symbols_of
from app.features.tokens import as_read
from app.features.tricks import undisguised
from app.features.words import APART, UNREAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.bayes.models.chain import Runs
    from app.mail.message import Message

MAX_GRAM_TEXT: Final = 500
"""Most bytes of text from which grams are taken; a letter of any script is one.

Spammers append text that looks like ham, which few readers reach. Precedent: Bratko et
al., "Spam filtering using statistical data compression models", JMLR 7, 2006, section
5.6, cut messages at 2,500 bytes.  Here, 350 to 2,000 rank alike (experiment 0096).
"""
# Each letter may have a mark, or a character behind it that is not shown.
_MOST_MARKED: Final = 2 * MAX_GRAM_TEXT
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
# Letters from the first to before the second, and so on: not punctuation, signs and
# emoji.  By blocks, because the category of a character depends on the version of
# Python.
_BEYOND: Final = np.array(
    [0xC0, 0x2000, 0x2C00, 0x2E00, 0x3040, 0xD800, 0xF900, 0xFE00, 0x20000], "<u4"
)
# Capitals, because few texts have many: other scripts stay apart from Latin text.
_CAPITALS: Final = np.array([*_LETTERS[26:]], "<u4")


def grams(message: Message) -> Runs:
    r"""Return the runs of four symbols in subject and text, each once.

    Notes
    -----
    They are taken from the decoded text in UTF-8, not from the raw message: grams of
    headers gain nothing and double the number (experiment 0021), and those of base64 do
    not recur.  A letter beyond ASCII counts as a Latin capital, and its neighbours in
    Unicode as others (experiment 0113).

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> grams(parse(b"Subject: ab\n\ncd")).numbers.size
    6
    """
    text = message.header("subject")[:_MOST_MARKED] + "\n"
    for each in message.texts:
        if len(text) >= _MOST_MARKED:
            break
        if each.place in APART or each.place in UNREAD:
            continue
        part = each.content
        if each.place == "html":
            # A page shows a run of blanks as one, and templates are full of them.
            part = " ".join(part.split(maxsplit=MAX_GRAM_TEXT))
        text += part[:_MOST_MARKED] + "\n"
    if not text.isascii():
        text = as_read(undisguised(text[:_MOST_MARKED]))
        text = _in_latin(text[:MAX_GRAM_TEXT])
    content = text.encode()[:MAX_GRAM_TEXT]
    return runs_of(np.frombuffer(content.translate(_SYMBOL_OF), np.uint8))


def _in_latin(text: str) -> str:
    """Return a text with each letter beyond ASCII as a Latin capital."""
    if text.isascii():
        return text
    points = np.array(np.frombuffer(text.encode("utf-32-le"), "<u4"))
    letters = _BEYOND.searchsorted(points, "right") % 2 == 1
    points[letters] = _CAPITALS[points[letters] % _CAPITALS.size]
    return points.tobytes().decode("utf-32-le")


def shown(numbers: Sequence[int], words: str = "") -> list[str]:
    r"""Return runs for people, with one character for all bytes of a kind.

    Parameters
    ----------
    words : str
        Words of the message, with a blank after each.  If they have letters beyond
        ASCII, a run of them is shown as it is there; if it is not, with ``~`` for the
        capitals that may be one of these letters.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> x = grams(parse(b"Subject: Only $99!\n\nBuy"))
    >>> shown(x.ids[-3:].tolist())
    ['|Onl', '!|Bu', '$00!']
    >>> x = grams(parse("приз".encode()))
    >>> shown(x.ids[-4:].tolist(), "обед приз ")
    ['приз', '~~~|', '|~~~', '||~~']
    >>> shown(grams(parse(b"Buy!")).ids[-4:-2].tolist(), "für ")
    ['Buy!', '|Buy']
    """
    latin = _in_latin(words)
    runs = ["".join([_SHOWN[at] for at in symbols_of(number)]) for number in numbers]
    return runs if latin == words else [_as_in(words, latin, run) for run in runs]


def _as_in(words: str, latin: str, run: str) -> str:
    """Return a run as it is in some words, by the same words in Latin letters."""
    at = latin.find(run.replace("_", " "))
    if at >= 0:
        return words[at : at + len(run)].replace(" ", "_")
    # A capital of which there are more now was perhaps another letter.
    return "".join([c if words.count(c) == latin.count(c) else "~" for c in run])
