"""Mbox files.

A mailbox is read line by line, so that its size does not matter: the memory
in use is one message's, `ENTRY_LIMIT` at most.  What follows the limit within
one message is skipped, and the next message is found again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.corpora.entry import ENTRY_LIMIT, Entry, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

# RFC 4155, appendix A: `From `, the sender and a date as of asctime().  The
# time and the year are asked for, as Dovecot and mutt do, since "From "
# alone begins many a sentence that no one quoted.  Senders may be empty, `-`
# (Mozilla) or hold blanks; a zone may stand before the year or after it.
# Thunderbird of late leaves sender and date out.
_SEPARATOR: Final = re.compile(
    rb"From (?:-?\s*\Z|.{0,900}?\b\d\d?:\d\d.{0,40}?\b\d{4}\b)"
)
# What exports and scripts write instead: the sender alone, or a date that is not
# of asctime() (RFC 5322, ISO 8601).  Sentences look so too, so that a header has
# to follow.
_LOOSE: Final = re.compile(
    rb"From (?:[^\s@]{1,300}@[^\s@]{1,300}\s*\Z"
    rb"|[^\s@]{1,300}@.{0,300}?\b\d{4}\b.{0,40}?[ T]\d\d?:\d\d)"
)
_HEADER: Final = re.compile(rb"[!-9;-~]{1,100}:")
# Editors on Windows put it before the first line.
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Lines of any length are taken in pieces of this size.  Unit: bytes.
_PIECE: Final = 65_536


def is_mbox(path: Path) -> bool:
    """Return whether the file at `path` begins as an mbox does.

    Raises
    ------
    UnreadableSource
        If the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            first = file.readline(_PIECE).removeprefix(_BYTE_ORDER_MARK)
            return _separates(first, file.readline(_PIECE))
    except OSError as error:
        raise unreadable(path, error) from error


def read_mbox(path: Path, *, label: str | None) -> Iterator[Entry]:
    """Yield the messages of the mbox at `path`, in its order.

    Parameters
    ----------
    path : Path
        The mailbox.
    label : str or None
        The label of all its messages.

    Raises
    ------
    UnreadableSource
        If the file cannot be read.

    Notes
    -----
    A message begins after a `From ` line at the start of the file or after an
    empty line.  That line and the empty line before the next one belong to
    the mailbox and are left out.  Quoted lines (``>From``) are left as they
    are: which of the four mbox dialects wrote them cannot be told, and
    unquoting a line that its sender wrote so would change the message.
    Lines before the first separator are taken as a message without one.
    """
    number = 0
    try:
        with path.open("rb") as file:
            for raw in _messages(file):
                number += 1
                yield Entry(label, raw, f"{path}, message {number}")
    except OSError as error:
        raise unreadable(path, error) from error


def _messages(file: BinaryIO) -> Iterator[bytes]:
    """Yield the messages of an mbox; empty ones are left out."""
    message = bytearray()
    line_starts = after_blank = True
    piece = file.readline(_PIECE)
    following = file.readline(_PIECE)
    if _separates(piece.removeprefix(_BYTE_ORDER_MARK), following):
        piece = piece.removeprefix(_BYTE_ORDER_MARK)
    while piece:
        if line_starts and after_blank and _separates(piece, following):
            yield from _whole(message)
            message = bytearray()
            after_blank = False
        else:
            message += piece[: max(0, ENTRY_LIMIT - len(message))]
            after_blank = line_starts and piece in {b"\n", b"\r\n"}
        line_starts = piece.endswith(b"\n")
        piece, following = following, file.readline(_PIECE)
    yield from _whole(message)


def _separates(line: bytes, following: bytes) -> bool:
    """Return whether a line stands between two messages."""
    if _SEPARATOR.match(line):
        return True
    return bool(_LOOSE.match(line) and _HEADER.match(following))


def _whole(message: bytearray) -> Iterator[bytes]:
    """Yield the message without the empty line that the mailbox added, if any."""
    raw = bytes(message)
    for ending in (b"\r\n", b"\n"):
        if raw == ending or raw.endswith(ending * 2):
            raw = raw[: -len(ending)]
            break
    if raw:
        yield raw
