"""Dumps of bogofilter (`bogoutil -d wordlist.db`).

One token per line: the token, the messages of spam and of ham that had it, and
the day that it was last seen.  Names that begin with a dot are about the list
itself; ``.MSG_COUNT`` has the numbers of messages.
"""

from __future__ import annotations

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
    from typing import BinaryIO

_MESSAGES: Final = ".MSG_COUNT"
# bogofilter's tag -> our header.  Cc and Bcc have the tag of To there.
_HEADERS: Final = {
    "from": "from",
    "to": "to",
    "rtrn": "return-path",
    "rcvd": "received",
}
_RULES: Final = {
    "subj": SUBJECT,
    **{
        tag: Rule(name_word, f"words of {name.title()}", "headers", f"{name}:")
        for tag, name in _HEADERS.items()
    },
}
_LEFT: Final = {
    "head": "words of other headers: bogofilter does not keep which one",
    "mime": "words of the headers of parts, which are no features here",
}


def read(file: BinaryIO) -> DumpTally:
    """Return the counts of a dump of bogofilter's word list.

    Raises
    ------
    MalformedDump
        If it is not such a dump, or it was cut short.
    """
    tally = DumpTally(program="bogofilter")
    found = False
    for number, line in numbered(file):
        fields = line.split(" ")
        if len(fields) not in {3, 4} or not fields[0]:
            msg = (
                f"line {number} is not a token, two counts and a date: {line[:60]!r}; "
                "write the dump with `bogoutil -d wordlist.db`"
            )
            raise MalformedDump(msg)
        token, spam, ham = fields[0], count(fields[1], number), count(fields[2], number)
        counts = TokenCounts(ham, spam)
        if token == _MESSAGES:
            tally.messages, found = counts, True
        elif not token.startswith("."):
            tag, colon, word = token.partition(":")
            if colon:
                reason = _LEFT.get(tag, SPLIT)
                tally.carry(_RULES.get(tag), word, counts, otherwise=reason)
            else:
                tally.carry(TEXT, token, counts)
    if not found:
        msg = (
            f"there is no line {_MESSAGES}, so this is not what "
            "`bogoutil -d wordlist.db` writes"
        )
        raise MalformedDump(msg)
    return tally
