"""Dumps of rspamd (`rspamadm statistics_dump dump`), which name no words.

A line per Redis key, ``"key": {...}``.  A token's key ends in the 64-bit hash
of a pair of words up to four apart (OSB), each cut to its stem: without the
messages they cannot be made again, and no view here has such pairs.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NoReturn

from app.errors import MalformedDump
from app.exchange.dumps.tally import numbered

if TYPE_CHECKING:
    from typing import BinaryIO

_ENTRY: Final = re.compile(r'"([^"]{1,300})": (\{.{0,60000}\}|\[.{0,60000}\])')


def refuse(file: BinaryIO) -> NoReturn:
    """Refuse a dump of rspamd's statistics, with its numbers and the way out.

    Raises
    ------
    MalformedDump
        Always.
    """
    tokens = ham = spam = 0
    for number, line in numbered(file):
        entry = _ENTRY.fullmatch(line.rstrip(","))
        if entry is None:
            msg = (
                f"line {number} is not one of `rspamadm statistics_dump dump`: "
                f"{line[:60]!r}"
            )
            raise MalformedDump(msg)
        values = _values(entry[2])
        if values.keys() & {"learns_ham", "learns_spam"}:
            ham += _number(values.get("learns_ham"))
            spam += _number(values.get("learns_spam"))
        elif values.keys() & {"H", "S"}:
            tokens += 1
    msg = (
        f"the dump has {tokens:,} tokens of {spam:,} spam and {ham:,} ham, but a token "
        "of rspamd is a hash of two stems, and nothing can be read from it. Learn from "
        "the mail folders instead: postbayes learn --label ham --junk spam Maildir"
    )
    raise MalformedDump(msg)


def _values(text: str) -> dict[str, object]:
    """Return the fields of a key; a value that is no hash has none."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _number(value: object) -> int:
    """Return a number that Redis keeps as text."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0  # noqa: PLR2004
