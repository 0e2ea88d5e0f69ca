"""Sources: the messages at a path, and the order in which they arrived.

The content of a path decides how it is read, not its name: a folder with `cur` and
`new` is a Maildir, a file that begins with a `From ` line and a date is an mbox, any
other file is one message.  Archives are refused: as one message they would teach their
bytes, which nobody means.  Nothing marks an index but its name, so it is read only
where the caller asks for one (`app.corpora.index`).
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final

from app.corpora.index import read_index
from app.corpora.mailbox import (
    is_maildir,
    is_mbox,
    list_folder,
    read_file,
    read_maildir,
    read_mbox,
    unreadable,
)
from app.errors import (
    MissingLabel,
    UnreadableMessage,
    UnreadableSource,
    reading_one_of_many,
)
from app.features.headers import read_date
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from app.corpora.mailbox import CorpusMessage

# First bytes, by the formats' own specifications; those of a tar's first entry
# stand at byte 257 (POSIX.1-1988, ustar).
_ARCHIVES: Final = (
    (0, b"PK\x03\x04", "zip"),
    (0, b"\x1f\x8b\x08", "gzip"),
    (0, b"BZh91AY&SY", "bzip2"),
    (0, b"\xfd7zXZ\x00", "xz"),
    (0, b"\x28\xb5\x2f\xfd", "zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z"),
    (0, b"Rar!\x1a\x07", "rar"),
    (257, b"ustar", "tar"),
)


def read_path(
    path: Path, *, label: str | None, junk_label: str | None = None
) -> Iterator[CorpusMessage]:
    """Yield the messages at `path`, in an order that is the same every time.

    Parameters
    ----------
    path : Path
        A message, an mbox, a Maildir, or a folder with any of these in it.
    label : str or None
        The label of the messages.
    junk_label : str or None
        The label of those in the junk folders of a Maildir, see
        `app.corpora.mailbox.read_maildir`.

    Raises
    ------
    UnreadableSource
        If `path`, or something in it, cannot be read.

    Notes
    -----
    Folders are read by name, hidden files (`.DS_Store`, editors' locks) and
    empty ones left out.  Messages are read as they are asked for.
    """
    if is_maildir(path):
        yield from read_maildir(path, label=label, junk_label=junk_label)
    elif path.is_dir():
        for inner in list_folder(path):
            # A link to a folder above would be followed for ever.
            if not inner.name.startswith(".") and (
                inner.is_file() or (inner.is_dir() and not inner.is_symlink())
            ):
                yield from read_path(inner, label=label, junk_label=junk_label)
    elif path.is_file():
        yield from _read_any(path, label=label)
    else:
        try:
            path.stat()
        except OSError as error:
            raise unreadable(path, error) from error
        msg = f"cannot read {path}: it is neither a file nor a folder"
        raise UnreadableSource(msg)


def _read_any(path: Path, *, label: str | None) -> Iterator[CorpusMessage]:
    """Yield the messages of a mailbox, or the one message that a file is."""
    if is_mbox(path):
        yield from read_mbox(path, label=label)
        return
    entry = read_file(path, label=label)
    for at, magic, kind in _ARCHIVES:
        if entry.raw.startswith(magic, at):
            msg = f"cannot read {path}: it is a {kind} archive; unpack it first"
            raise UnreadableSource(msg)
    if entry.raw:
        yield entry


_HEADER_END: Final = re.compile(rb"\r?\n\r?\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSource:
    """The messages that a TREC-style index names, in its order."""

    sorts: ClassVar[bool] = False

    index: Path
    limit: int | None = None

    @property
    def name(self) -> str:
        """The folder of the index, as it is in TREC's corpora; else the file."""
        folder = self.index.absolute().parent.name
        return (folder if self.index.stem == "index" else "") or self.index.stem

    def entries(self) -> Iterator[CorpusMessage]:
        """Yield the messages."""
        return islice(read_index(self.index), self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource:
    """Mail in folders and mailboxes, ham in some and spam in others."""

    # All ham before all spam is no stream.
    sorts: ClassVar[bool] = True
    # The reader of the figures knows which mail was given.
    name: ClassVar[str] = "your mail"

    ham: tuple[Path, ...]
    spam: tuple[Path, ...]
    ham_label: str
    spam_label: str

    def entries(self) -> Iterator[CorpusMessage]:
        """Yield the messages; those in junk folders of a Maildir are spam."""
        for path in self.ham:
            yield from read_path(path, label=self.ham_label, junk_label=self.spam_label)
        for path in self.spam:
            yield from read_path(path, label=self.spam_label)


MailSource = IndexSource | FolderSource
"""A stream of labelled mail that can be read again and again, in one order.

`name` is for people; `sorts` is whether its messages must be put in the order of their
arrival.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSurvey:
    """The labels, order and digest of a stream, before it is parsed.

    Parameters
    ----------
    labels : tuple of str
        Gold labels, in the order of reading.
    where : tuple of str
        Location of each message, for people.
    order : tuple of int
        The messages in the order of their arrival.
    digest : str
        SHA-256 of all bytes in the order of reading, in hex.
    moments : tuple of int or None
        Arrival of each message by its own header, in the order of reading; empty
        unless it was asked for.  Unit: seconds since 1970.
    """

    labels: tuple[str, ...]
    where: tuple[str, ...]
    order: tuple[int, ...]
    digest: str
    moments: tuple[int | None, ...] = ()


def survey(
    source: MailSource,
    *,
    dated: bool = False,
    tick: Callable[[], object] = lambda: None,
) -> StreamSurvey:
    """Read a stream once, without parsing more than dates.

    Parameters
    ----------
    source : MailSource
        The stream.
    dated : bool, default False
        Whether the dates are needed of a stream that is in order.
    tick : callable
        Called after each message.

    Raises
    ------
    UnreadableSource
        If it cannot be read, or holds no message.
    MalformedIndex
        If a line of its index is not a label and a path.
    MissingLabel
        If a message has no label.
    """
    labels: list[str] = []
    where: list[str] = []
    moments: list[int | None] = []
    places: list[int] = []
    digest = sha256()
    place = 0
    for number, entry in enumerate(source.entries(), 1):
        if entry.label is None:
            msg = f"message {number} of {source.name} has no label: {entry.where}"
            raise MissingLabel(msg)
        labels.append(entry.label)
        where.append(entry.where)
        digest.update(entry.raw)
        arrived = arrival(entry.raw) if source.sorts or dated else None
        if source.sorts and arrived is not None:
            place = arrived
        # A message without a date stays by the one that lies before it.
        places.append(place)
        moments.append(arrived)
        tick()
    if not labels:
        msg = f"there is no message in {source.name}"
        raise UnreadableSource(msg)
    # A stable sort: an index, whose places are all 0, stays as it is.
    order = sorted(range(len(labels)), key=places.__getitem__)
    return StreamSurvey(
        labels=tuple(labels),
        where=tuple(where),
        order=tuple(order),
        digest=digest.hexdigest(),
        moments=tuple(moments) if dated else (),
    )


def arrival(raw: bytes) -> int | None:
    r"""Return when a message arrived, in seconds since 1970; None if no header says it.

    The topmost Received field is the own server's, and only its clock can be
    trusted; spam dates itself years ahead.  Mail that lacks it has its Date.

    Examples
    --------
    >>> arrival(b"Date: Thu, 1 Jan 1970 01:00:10 +0100\n\nHello")
    10
    """
    end = _HEADER_END.search(raw)
    fields: list[tuple[str, str]] = []
    # Whoever reads the message whole names it.
    with suppress(UnreadableMessage), reading_one_of_many():
        header = parse(raw[: end.start()] if end else raw[:65_536])
        fields = [(field.name, field.value) for field in header.headers]
    for wanted in ("received", "date"):
        for name, value in fields:
            if name == wanted and (date := read_date(value.rpartition(";")[2])):
                return date.seconds
    return None
