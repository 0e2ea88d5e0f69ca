"""How is a dump read line by line, whatever it holds?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.errors import MalformedDump
from app.foreign.tally import LARGEST_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

LONGEST_LINE: Final = 65_536
"""Bytes of a line, at most.  A token of bogofilter has 30 characters, one of
SpamBayes' headers may be as long as a header."""


def numbered(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """Give the lines of a dump and their numbers, without line ends.

    Raises
    ------
    MalformedDump
        If a line is too long, the last one has no end, or there are bytes
        that no text has.
    """
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            msg = f"line {number} is longer than {LONGEST_LINE} bytes; this is no dump"
            raise MalformedDump(msg)
        if b"\0" in line:
            msg = f"line {number} holds a NUL byte; give the dump, not the database"
            raise MalformedDump(msg)
        if not line.endswith(b"\n"):
            msg = f"line {number} has no end: the dump was cut short"
            raise MalformedDump(msg)
        yield number, _text(line.rstrip(b"\r\n"))


def count(text: str, number: int) -> int:
    """Return a count of messages in line `number`.

    Raises
    ------
    MalformedDump
        If it is not a number from 0 to `LARGEST_COUNT`.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(LARGEST_COUNT)):
        msg = f"line {number} has {text[:40]!r} where a number of messages belongs"
        raise MalformedDump(msg)
    value = int(text)
    if value > LARGEST_COUNT:
        msg = f"line {number} says {value} messages, more than {LARGEST_COUNT}"
        raise MalformedDump(msg)
    return value


def _text(line: bytes) -> str:
    """Return a line as text: UTF-8, or else one character per byte."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")
