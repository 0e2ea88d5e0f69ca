"""Dumps of SpamBayes (`sb_dbexpimp.py -e`).

A CSV file: first the messages of ham and of spam, then a line per token with
the messages of ham and of spam that had it.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

from app.errors import MalformedDump
from app.exchange.dumps.tally import (
    SPLIT,
    SUBJECT,
    TEXT,
    DumpTally,
    Rule,
    TokenCounts,
    count,
    name_word,
    numbered,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_FIELDS: Final = 3


_LINK: Final = Rule(name_word, "words of links", "words", "link:")
_RULES: Final = {
    "email name": TEXT,
    "email addr": TEXT,
    "subject": SUBJECT,
    "url": _LINK,
    "proto": _LINK,
    **{
        f"{header}:{part}": Rule(
            name_word, "words of addresses", "headers", f"{header}:"
        )
        for header in ("from", "to", "cc", "reply-to", "sender")
        for part in ("name", "addr")
    },
    **{
        header: Rule(name_word, "words of other headers", "headers", f"{header}:")
        for header in ("message-id", "x-mailer", "received")
    },
}
_ADDRESSED: Final = frozenset(tag.partition(":")[0] for tag in _RULES if ":" in tag)
_LONG: Final = "lengths of long words, which are no features here"
_FACTS: Final = "facts of a message, which are another view here"


def read(file: BinaryIO) -> DumpTally:
    """Return the counts of an exported database of SpamBayes.

    Raises
    ------
    MalformedDump
        If it is not such an export, or it was cut short.
    """
    tally = DumpTally(program="SpamBayes")
    rows = _rows(file)
    _, first = next(rows, (0, []))
    if len(first) != 2:  # noqa: PLR2004  (ham and spam)
        msg = (
            "the first line is not the two numbers of messages that "
            "`sb_dbexpimp.py -e` writes"
        )
        raise MalformedDump(msg)
    tally.messages = TokenCounts(count(first[0], 1), count(first[1], 1))
    for number, row in rows:
        if len(row) != _FIELDS:
            msg = f"line {number} is not a token and two counts, but {len(row)} fields"
            raise MalformedDump(msg)
        counts = TokenCounts(count(row[1], number), count(row[2], number))
        token = row[0]
        tag, _, rest = token.partition(":")
        if tag in _ADDRESSED:
            part, _, rest = rest.partition(":")
            tag = f"{tag}:{part}"
        if tag in {"skip", "8bit%"}:
            tally.carry(None, rest, counts, otherwise=_LONG)
        elif tag in _RULES:
            tally.carry(_RULES[tag], rest, counts)
        else:
            # A word of the text may have a colon too, as in "note:".
            reason = _FACTS if ":" in token else SPLIT
            tally.carry(TEXT, token, counts, otherwise=reason)
    return tally


def _rows(file: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """Give the rows of the file, each with the number of its last line."""
    reader = csv.reader((line + "\n" for _, line in numbered(file)), strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        msg = f"line {reader.line_num} is not CSV: {error}"
        raise MalformedDump(msg) from error
