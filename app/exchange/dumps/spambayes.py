"""Dumps of SpamBayes (`sb_dbexpimp.py -e`).

A CSV file: first the messages of ham and of spam, then a line per token with
the messages of ham and of spam that had it.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final, NamedTuple

from app.errors import MalformedDump
from app.exchange.dumps.tally import (
    Learned,
    Tally,
    count,
    name_word,
    numbered,
    text_word,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

_FIELDS: Final = 3


class _Rule(NamedTuple):
    """What becomes of the tokens of a tag."""

    word: Callable[[str], str | None]
    kind: str
    view: str
    tag: str


_TEXT: Final = _Rule(text_word, "words of the text", "words", "")
_LINK: Final = _Rule(name_word, "words of links", "words", "link:")
_RULES: Final = {
    "email name": _TEXT,
    "email addr": _TEXT,
    "subject": _Rule(text_word, "words of subjects", "headers", "subject:"),
    "url": _LINK,
    "proto": _LINK,
    **{
        f"{header}:{part}": _Rule(
            name_word, "words of addresses", "headers", f"{header}:"
        )
        for header in ("from", "to", "cc", "reply-to", "sender")
        for part in ("name", "addr")
    },
    **{
        header: _Rule(name_word, "words of other headers", "headers", f"{header}:")
        for header in ("message-id", "x-mailer", "received")
    },
}
_ADDRESSED: Final = frozenset(tag.partition(":")[0] for tag in _RULES if ":" in tag)
_LONG: Final = "lengths of long words, which are no features here"
_FACTS: Final = "facts of a message, which are another view here"
_SPLIT: Final = "tokens that are split in another way here"
_UNSEEN: Final = "tokens with no message left"


def read(file: BinaryIO) -> Tally:
    """Return what an exported database of SpamBayes says.

    Raises
    ------
    MalformedDump
        If it is not such an export, or it was cut short.
    """
    tally = Tally(program="SpamBayes")
    rows = _rows(file)
    _, first = next(rows, (0, []))
    if len(first) != 2:  # noqa: PLR2004  (ham and spam)
        msg = (
            "the first line is not the two numbers of messages that "
            "`sb_dbexpimp.py -e` writes"
        )
        raise MalformedDump(msg)
    tally.messages = Learned(count(first[0], 1), count(first[1], 1))
    for number, row in rows:
        if len(row) != _FIELDS:
            msg = f"line {number} is not a token and two counts, but {len(row)} fields"
            raise MalformedDump(msg)
        learned = Learned(count(row[1], number), count(row[2], number))
        if any(learned):
            _carry(tally, row[0], learned)
        else:
            tally.leave(_UNSEEN)
    return tally


def _rows(file: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """Give the rows of the file, and the number of the line each begins in."""
    at = 0

    def lines() -> Iterator[str]:
        nonlocal at
        for number, line in numbered(file):
            at = number
            yield line + "\n"

    reader = csv.reader(lines(), strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            msg = f"line {at} is not CSV: {error}"
            raise MalformedDump(msg) from error
        yield at, row


def _carry(tally: Tally, token: str, learned: Learned) -> None:
    """Count a token under the name that it has here."""
    tag, _, rest = token.partition(":")
    if tag in _ADDRESSED:
        part, _, rest = rest.partition(":")
        tag = f"{tag}:{part}"
    if tag in {"skip", "8bit%"}:
        tally.leave(_LONG)
        return
    rule = _RULES.get(tag)
    # A word of the text may have a colon too, as in "note:".
    word = _TEXT.word(token) if rule is None else rule.word(rest)
    if word is None:
        tally.leave(_FACTS if rule is None and ":" in token else _SPLIT)
        return
    rule = rule or _TEXT
    tally.carry(rule.view, rule.tag + word, learned, kind=rule.kind)
    if tag == "subject":
        # Words of the subject are words of the text as well here.
        tally.add("words", word, learned)
