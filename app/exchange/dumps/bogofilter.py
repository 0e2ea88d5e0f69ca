"""Dumps of bogofilter (`bogoutil -d wordlist.db`).

One token per line: the token, the messages of spam and of ham that had it, and
the day that it was last seen.  Names that begin with a dot are about the list
itself; ``.MSG_COUNT`` has the numbers of messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    from typing import BinaryIO

_MESSAGES: Final = ".MSG_COUNT"
# bogofilter's tag -> our header.  Cc and Bcc have the tag of To there.
_NAMES: Final = {"from": "from", "to": "to", "rtrn": "return-path", "rcvd": "received"}
_HEAD: Final = "words of other headers: bogofilter does not keep which one"
_MIME: Final = "words of the headers of parts, which are no features here"
_SPLIT: Final = "tokens that are split in another way here"
_UNSEEN: Final = "tokens with no message left"


def read(file: BinaryIO) -> Tally:
    """Return what a dump of bogofilter's word list says.

    Raises
    ------
    MalformedDump
        If it is not such a dump, or it was cut short.
    """
    tally = Tally(program="bogofilter")
    found = False
    for number, line in numbered(file):
        token, learned = _entry(line, number)
        if token == _MESSAGES:
            tally.messages, found = learned, True
        elif token.startswith("."):
            continue
        elif not any(learned):
            tally.leave(_UNSEEN)
        else:
            _carry(tally, token, learned)
    if not found:
        msg = (
            f"there is no line {_MESSAGES}, so this is not what "
            "`bogoutil -d wordlist.db` writes"
        )
        raise MalformedDump(msg)
    return tally


def _entry(line: str, number: int) -> tuple[str, Learned]:
    """Return the token of a line and its counts."""
    fields = line.split(" ")
    if len(fields) not in {3, 4} or not fields[0]:
        msg = (
            f"line {number} is not a token, two counts and a date: {line[:60]!r}; "
            "write the dump with `bogoutil -d wordlist.db`"
        )
        raise MalformedDump(msg)
    spam, ham = count(fields[1], number), count(fields[2], number)
    return fields[0], Learned(ham, spam)


def _carry(tally: Tally, token: str, learned: Learned) -> None:
    """Count a token under the name that it has here."""
    tag, colon, word = token.partition(":")
    if not colon:
        name = text_word(token)
        if name is None:
            tally.leave(_SPLIT)
        else:
            tally.carry("words", name, learned, kind="words of the text")
    elif tag == "subj":
        name = text_word(word)
        if name is None:
            tally.leave(_SPLIT)
        else:
            tally.carry("headers", f"subject:{name}", learned, kind="words of subjects")
            # Words of the subject are words of the text as well here.
            tally.add("words", name, learned)
    elif tag in _NAMES:
        name = name_word(word)
        if name is None:
            tally.leave(_SPLIT)
        else:
            header = _NAMES[tag]
            kind = f"words of {header.title()}"
            tally.carry("headers", f"{header}:{name}", learned, kind=kind)
    elif tag == "head":
        tally.leave(_HEAD)
    elif tag == "mime":
        tally.leave(_MIME)
    else:
        tally.leave(_SPLIT)
