"""Where do the messages of a stream come from, and in which order did they arrive?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from app.errors import MissingLabel, UnreadableSource
from app.evaluation.index import read_index
from app.evaluation.streams import read_path
from app.features.dates import read_date
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from app.evaluation.entry import Entry

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
    header = parse(raw[: end.start()] if end else raw[:65_536])
    fields = [(field.name, field.value) for field in header.headers]
    for wanted in ("received", "date"):
        for name, value in fields:
            if name == wanted and (date := read_date(value.rpartition(";")[2])):
                return date.seconds
    return None
