"""Sources: the messages at a path, and the order in which they arrived.

What a path holds is told by what is there, not by its name: a folder with
`cur` and `new` is a Maildir, a file that begins with a `From ` line and a date
is an mbox, any other file is one message.  Archives are refused: as one message
they would teach their bytes, and nobody means that.  An index says more than its path
could, and is asked for by name (`app.corpora.index`).
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from app.corpora.entry import list_folder, read_entry, unreadable
from app.corpora.index import read_index
from app.corpora.maildir import is_maildir, read_maildir
from app.corpora.mbox import is_mbox, read_mbox
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

    from app.corpora.entry import Entry

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
) -> Iterator[Entry]:
    """Yield the messages at `path`, in an order that is the same every time.

    Parameters
    ----------
    path : Path
        A message, an mbox, a Maildir, or a folder with any of these in it.
    label : str or None
        The label of the messages.
    junk_label : str or None
        The label of those in the junk folders of a Maildir, see
        `app.corpora.maildir.read_maildir`.

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
        for inner in _visible(path):
            yield from read_path(inner, label=label, junk_label=junk_label)
    elif path.is_file():
        yield from _read_file(path, label=label)
    else:
        try:
            path.stat()
        except OSError as error:
            raise unreadable(path, error) from error
        msg = f"cannot read {path}: it is neither a file nor a folder"
        raise UnreadableSource(msg)


def _read_file(path: Path, *, label: str | None) -> Iterator[Entry]:
    """Yield the messages of a mailbox, or the one message that a file is."""
    if is_mbox(path):
        yield from read_mbox(path, label=label)
        return
    entry = read_entry(path, label=label)
    for at, magic, kind in _ARCHIVES:
        if entry.raw.startswith(magic, at):
            msg = f"cannot read {path}: it is a {kind} archive; unpack it first"
            raise UnreadableSource(msg)
    if entry.raw:
        yield entry


def _visible(folder: Path) -> list[Path]:
    """Return the files and folders in `folder` that are not hidden, by name."""
    return [
        path
        for path in list_folder(folder)
        # A link to a folder above would be followed for ever.
        if not path.name.startswith(".")
        and (path.is_file() or (path.is_dir() and not path.is_symlink()))
    ]


_HEADER_END: Final = re.compile(rb"\r?\n\r?\n")


class Source(Protocol):
    """A stream of labelled mail that can be read again and again."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def sorts(self) -> bool:
        """Whether its messages must be put in the order of their arrival."""
        ...

    def entries(self) -> Iterator[Entry]:
        """Yield its messages, in the same order every time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSource:
    """The messages that a TREC-style index names, in its order."""

    index: Path
    limit: int | None = None

    @property
    def name(self) -> str:
        """The folder of the index, as it is in TREC's corpora; else the file."""
        if self.index.stem == "index" and self.index.absolute().parent.name:
            return self.index.absolute().parent.name
        return self.index.stem

    @property
    def sorts(self) -> bool:
        """An index is in order."""
        return False

    def entries(self) -> Iterator[Entry]:
        """Yield the messages."""
        return islice(read_index(self.index), self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource:
    """Mail in folders and mailboxes, ham in some and spam in others."""

    ham: tuple[Path, ...]
    spam: tuple[Path, ...]
    ham_label: str
    spam_label: str

    @property
    def name(self) -> str:
        """Who reads the figures knows which mail he gave."""
        return "your mail"

    @property
    def sorts(self) -> bool:
        """All ham before all spam is no stream."""
        return True

    def entries(self) -> Iterator[Entry]:
        """Yield the messages; those in junk folders of a Maildir are spam."""
        for path in self.ham:
            yield from read_path(path, label=self.ham_label, junk_label=self.spam_label)
        for path in self.spam:
            yield from read_path(path, label=self.spam_label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a stream holds, before it is parsed.

    Parameters
    ----------
    labels : tuple of str
        Gold labels, in the order of reading.
    where : tuple of str
        Where each message lies, for people.
    order : tuple of int
        The messages in the order of their arrival.
    digest : str
        SHA-256 of all bytes in the order of reading, in hex.
    moments : tuple of int or None
        When each message says that it arrived, in the order of reading; empty if
        nobody asked.  Unit: seconds since 1970.
    """

    labels: tuple[str, ...]
    where: tuple[str, ...]
    order: tuple[int, ...]
    digest: str
    moments: tuple[int | None, ...] = ()


def survey(
    source: Source, *, dated: bool = False, tick: Callable[[], object] = lambda: None
) -> Survey:
    """Read a stream once, without parsing more than dates.

    Parameters
    ----------
    source : Source
        The stream.
    dated : bool, default False
        Whether somebody needs the dates of a stream that is in order.
    tick : callable
        Called after each message.

    Raises
    ------
    UnreadableSource
        If it cannot be read, or holds no message.
    MalformedIndex
        If its index has a line that is none.
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
    return Survey(
        labels=tuple(labels),
        where=tuple(where),
        order=tuple(order),
        digest=digest.hexdigest(),
        moments=tuple(moments) if dated else (),
    )


def arrival(raw: bytes) -> int | None:
    r"""Return when a message arrived, in seconds since 1970; None if it is not told.

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
