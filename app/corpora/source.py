"""Sources: the messages at a path, and the order in which they arrived.

The content of a path decides how it is read, not its name: a folder with `cur` and
`new` is a Maildir, a file that begins with a `From ` line and a date is an mbox, any
other file is one message.  The names of folders and mailboxes below it decide which are
junk and which are left out.  Archives and Dovecot's own files are refused: as one
message they would teach their bytes, which nobody means; the files that Cyrus keeps
beside its messages are left out.  Nothing marks an index but its name, so it is read
only where the caller asks for one.

The format of an index is that of the TREC spam track: one line per message in stream
order, a label, blanks and a path relative to the folder of the index::

    spam ../data/inmail.1
    ham ../data/inmail.2

Labels are taken as they stand, so that an index can hold more than two.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, cast

from app.corpora.mailbox import (
    PARTS,
    MailFolder,
    inherited,
    is_maildir,
    is_mbox,
    list_folder,
    maildir_files,
    read_file,
    read_mailbox,
    read_moving,
    reading,
    use_of,
)
from app.corpora.parallel import CHUNK_BYTES, chunks
from app.errors import (
    MalformedIndex,
    MissingLabel,
    UnreadableMessage,
    UnreadableSource,
    reading_one_of_many,
)
from app.features.headers import read_date
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from app.corpora.mailbox import CorpusMessage, Use

    # The size of some mail, and its reader.
    Place = tuple[int, Callable[[], Iterable[CorpusMessage]]]

# Longer than any path that Linux opens (PATH_MAX, 4,096 bytes) with a label
# before it: without a limit, a mailbox given as an index by mistake may be
# one line of gigabytes.
LINE_LIMIT: Final = 8_192
"""The longest line of an index.  Unit: bytes."""
# Share of the changes of label that chance would make.  Six streams of mail in the
# order of its arrival have 1.13 to 1.28 of them, and one that begins with a year of
# spam 0.30.
_MIXED: Final = 0.1


class IndexSummary(NamedTuple):
    """The labels and paths in the lines of an index."""

    messages: int
    """How many it names."""
    mixed: bool
    """Whether its labels come by turns, as in a mailbox, not one after the other."""


def read_path(
    path: Path, *, label: str | None, junk_label: str | None = None
) -> Iterator[CorpusMessage]:
    """Yield the messages of the folders at `path`, see `mail_folders`.

    Raises
    ------
    UnreadableSource
        If `path`, or something in it, cannot be read.

    Notes
    -----
    Messages are read as they are asked for; empty files are left out.
    """
    for _, read in _places(mail_folders(path, label=label, junk_label=junk_label)):
        yield from read()


@dataclass(frozen=True, slots=True)
class ArchivePart:
    """Some mail of an archive by reference: its files are opened where it is read.

    Parameters
    ----------
    reads : tuple of callable
        Each reads the messages of one place, such as a file or some bytes of an mbox.
        Other processes and machines have to see the file under the same path.
    """

    reads: tuple[Callable[[], Iterable[CorpusMessage]], ...]

    def __iter__(self) -> Iterator[CorpusMessage]:
        """Read the messages one by one, each time anew."""
        for read in self.reads:
            yield from read()


def folder_parts(folders: Iterable[MailFolder], *, most: int) -> Iterator[ArchivePart]:
    """Yield the mail of folders in parts, in the order of `read_path`.

    Parameters
    ----------
    folders : iterable of MailFolder
        From `mail_folders`.
    most : int
        Files of a part at most.  A large mbox is cut into parts by its bytes.

    Raises
    ------
    UnreadableSource
        If a mailbox cannot be read.
    """
    return _in_parts(_places(folders), most=most)


def index_parts(index: Path, *, most: int) -> Iterator[ArchivePart]:
    """Yield the mail that an index names in parts of some messages.

    Raises
    ------
    MalformedIndex, UnreadableSource
        As `read_index`.
    """
    places = (
        (_size(path), partial(_read_named, index, number, label, path))
        for number, label, path in _index_lines(index)
    )
    return _in_parts(places, most=most)


def _in_parts(places: Iterable[Place], *, most: int) -> Iterator[ArchivePart]:
    for chunk in chunks(places, itemgetter(0), most=most):
        yield ArchivePart(tuple(read for _, read in chunk))


def _size(path: Path) -> int:
    """Return the bytes of a message; 0 where to ask takes a request, or it is away.

    A part that is larger than a batch ends in a small one, whose sum takes more room.
    """
    with suppress(OSError):
        return path.stat().st_size if isinstance(path, Path) else 0
    return 0


def _places(folders: Iterable[MailFolder]) -> Iterator[Place]:
    """Yield the places of mail in folders, the size of each with its reader."""
    for folder in folders:
        if folder.left_out:
            continue
        for file in folder.files:
            if folder.maildir:
                yield _size(file), partial(read_moving, file, label=folder.label)
                continue
            read = partial(read_mailbox, file, label=folder.label)
            with reading(file):
                size = file.stat().st_size
            if size <= CHUNK_BYTES or not is_mbox(file):
                yield size, read
                continue
            for begin in range(0, size, CHUNK_BYTES):
                end = begin + CHUNK_BYTES
                # What is appended meanwhile belongs to the last one.
                last = end if end < size else None
                yield CHUNK_BYTES, partial(read, begin=begin, end=last)


def mail_path(text: str) -> Path:
    """Return the path that somebody names: of this machine, or the URL of a store.

    Raises
    ------
    UnreadableSource
        If no driver for such a URL is installed.
    """
    if "://" not in text:
        return Path(text)
    try:
        from upath import UPath  # noqa: PLC0415  an extra

        path = UPath(text)
        path.fs.protocol  # noqa: B018  the driver is looked for here
    except (ImportError, ValueError) as error:
        raise UnreadableSource(
            f"cannot read {text}: {error}; on each machine that reads mail, a "
            "URL needs pip install '.[cluster]' in the folder of the source, and the "
            "fsspec driver for its scheme"
        ) from error
    # Of the same methods, as far as mail is read by them.
    return cast("Path", path)


def mail_folders(
    path: Path, *, label: str | None, junk_label: str | None = None
) -> Iterator[MailFolder]:
    """Yield the messages at `path`, always in the same order.

    Parameters
    ----------
    path : Path
        A message, an mbox, a Maildir, or a folder with any of these in it.
    junk_label : str or None
        The label of those in junk folders (`Junk`, `Spam` and other clients' names for
        them, and folders in them), and in an mbox that is called as one.  None: all
        messages have `label`.

    Raises
    ------
    UnreadableSource
        If a path cannot be read.

    Notes
    -----
    Hidden files (`.DS_Store`, editors' locks) are left out.
    """
    # Who names the trash by its path means it; who says what junk is means that too.
    use = use_of(path.name)
    for folder in _folders(path, use if use == "junk" else None):
        junk = folder.use == "junk" and junk_label is not None
        yield replace(folder, label=junk_label if junk else label)


# What Cyrus keeps beside the messages of a folder (imap/mailbox.h).
_OF_CYRUS: Final = frozenset(
    f"cyrus.{name}"
    for name in ("annotations", "cache", "dav", "expunge", "header", "index", "squat")
)


def _folders(
    path: Path, use: Use | None, *, inside: bool = False
) -> Iterator[MailFolder]:
    """Yield a file, or a folder and all in it; inside a Maildir, only Maildirs.

    In either layout: Maildir++ (`.Junk/cur`, Courier and Dovecot) or folders in folders
    (`Junk/cur`, Dovecot's LAYOUT=fs).
    """
    if path.is_file():
        yield MailFolder(path, use, [path])
        return
    if not path.is_dir():
        with reading(path):
            path.stat()
        raise UnreadableSource(f"cannot read {path}: it is neither a file nor a folder")
    inner = list_folder(path)
    if is_maildir(path):
        inside = True
        yield MailFolder(path, use, maildir_files(path), maildir=True)
    elif not inside:
        inner = [x for x in inner if x.name[0] != "." and x.name not in _OF_CYRUS]
        yield from _boxes(path, use, [each for each in inner if each.is_file()])
    for each in inner:
        # A link to a folder above would be followed for ever.
        part = inside and each.name in PARTS
        if not part and not each.is_symlink() and each.is_dir():
            yield from _folders(each, inherited(use, each.name), inside=inside)


def _boxes(path: Path, use: Use | None, files: list[Path]) -> Iterator[MailFolder]:
    """Yield the files of a folder; a mailbox with a use of its own by itself."""
    named = {file: _use_of_file(use, file) for file in files}
    boxes = {file for file, own in named.items() if own != use and is_mbox(file)}
    if others := [file for file in files if file not in boxes]:
        yield MailFolder(path, use, others)
    for box in sorted(boxes):
        yield MailFolder(box, named[box], [box])


def _use_of_file(use: Use | None, file: Path) -> Use | None:
    """Return the use of a file if it is an mbox."""
    # Not of one message among many: `spam.00001`.
    name = file.name.removesuffix(".mbox")
    return use if "." in name else inherited(use, name)


# Fields of which every message that was ever sent has one.
_FIELD: Final = re.compile(
    rb"(?:from|to|cc|subject|date|received|return-path|message-id|delivered-to|sender"
    rb"|reply-to|mime-version|content-type|x-[a-z-]+)[ \t]*:",
    re.IGNORECASE,
)
# Lines of its beginning that are looked at: mail that passed many servers still has a
# field among the first.
_LINES: Final = 32


def looks_like_mail(raw: bytes) -> bool:
    r"""Return whether bytes begin with the header of a message.

    Examples
    --------
    >>> looks_like_mail(b"Subject: hello\n\nworld"), looks_like_mail(b"root:x:0:0")
    (True, False)
    """
    lines = raw[:65_536].lstrip().splitlines()[:_LINES]
    return any(_FIELD.match(line) for line in lines)


def require_mail(paths: Collection[Path], *, tried: int) -> None:
    """Raise where nothing at some paths looks like mail.

    Parameters
    ----------
    tried : int
        Messages of each path that are looked at.

    Raises
    ------
    UnreadableSource
        If a path cannot be read, none has a message, or among the first messages
        of a path none has a header.
    """
    found = False
    for path in paths:
        first: CorpusMessage | None = None
        for entry in islice(read_path(path, label=None), tried):
            found = True
            first = first or entry
            if looks_like_mail(entry.raw):
                break
        else:
            if first is not None:
                begins = first.raw[:40].decode(errors="replace")
                raise UnreadableSource(
                    f"nothing at {path} looks like mail: {first.where} begins "
                    f"with {begins!r}. With --index, texts without headers can "
                    "be read"
                )
    if not found:
        raise UnreadableSource(f"there is no message at {', '.join(map(str, paths))}")


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
        """Yield the messages; those in junk folders of a Maildir are spam.

        A file that several paths reach is read once, as spam if one of `spam` does: to
        find the second copy of a message is no achievement.
        """
        seen: set[tuple[str, str]] = set()
        labels = {"label": self.ham_label, "junk_label": self.spam_label}
        spam = (mail_folders(path, label=self.spam_label) for path in self.spam)
        ham = (mail_folders(path, **labels) for path in self.ham)
        first = [*_unseen(chain.from_iterable(spam), seen)]
        for _, read in _places(chain(_unseen(chain.from_iterable(ham), seen), first)):
            yield from read()


def _unseen(
    folders: Iterable[MailFolder], seen: set[tuple[str, str]]
) -> Iterator[MailFolder]:
    """Yield the folders whose mail counts without the files seen; add theirs."""
    where = cache(os.path.realpath)
    for folder in folders:
        if not folder.left_out:
            files = [f for f in folder.files if (where(f.parent), f.name) not in seen]
            seen.update((where(f.parent), f.name) for f in files)
            yield replace(folder, files=files)


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
    spread : bool, default False
        Whether no message has a date, so those of each label are spread evenly.
    """

    labels: tuple[str, ...]
    where: tuple[str, ...]
    order: tuple[int, ...]
    digest: str
    moments: tuple[int | None, ...] = ()
    spread: bool = False


def survey(
    source: MailSource,
    *,
    dated: bool = False,
    tick: Callable[[], object] = lambda: None,
) -> StreamSurvey:
    """Read a stream once, without parsing more than dates.

    Parameters
    ----------
    dated : bool, default False
        Whether the dates are needed of a stream that is in order.

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
    places: list[float] = []
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
        raise UnreadableSource(f"there is no message in {source.name}")
    spread = source.sorts and set(moments) == {None}
    if spread:
        places = _evenly(labels)
    # A stable sort: an index, whose places are all 0, stays as it is.
    order = sorted(range(len(labels)), key=places.__getitem__)
    return StreamSurvey(
        labels=tuple(labels),
        where=tuple(where),
        order=tuple(order),
        digest=digest.hexdigest(),
        moments=tuple(moments) if dated else (),
        spread=spread,
    )


def _evenly(labels: Sequence[str]) -> list[float]:
    """Return places from 0 to 1 that spread the messages of each label.

    Examples
    --------
    >>> _evenly(["ham", "ham", "ham", "spam"])
    [0.16666666666666666, 0.5, 0.8333333333333334, 0.5]
    """
    total, before = Counter(labels), Counter[str]()
    places = []
    for label in labels:
        places.append((before[label] + 0.5) / total[label])
        before[label] += 1
    return places


def arrival(raw: bytes) -> int | None:
    r"""Return the arrival of a message, in seconds since 1970; None if unknown.

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
    dates = (
        read_date(value.rpartition(";")[2])
        for wanted in ("received", "date")
        for name, value in fields
        if name == wanted
    )
    return next((each for each in dates if each is not None), None)


def read_index(index: Path) -> Iterator[CorpusMessage]:
    """Yield the messages that `index` names, in its order.

    Parameters
    ----------
    index : Path
        The index file.  Paths in it are relative to its folder, or absolute.

    Raises
    ------
    MalformedIndex
        If a line is not a label and a path; the sentence has its number.
    UnreadableSource
        If the index or a file that it names cannot be read.

    Notes
    -----
    Messages are read one by one as they are asked for, and nothing is kept.
    """
    for line in _index_lines(index):
        yield from _read_named(index, *line)


def _read_named(
    index: Path, number: int, label: str, path: Path
) -> Iterator[CorpusMessage]:
    """Yield the message that a line of an index names."""
    try:
        yield read_file(path, label=label)
    except UnreadableSource as error:
        raise UnreadableSource(f"{index}, line {number}: {error}") from error


def summarise_index(index: Path) -> IndexSummary:
    """Return a summary of the messages that `index` names, having checked its lines.

    Raises
    ------
    MalformedIndex
        If a line is not a label and a path.
    UnreadableSource
        If the index cannot be read twice, or names no message.
    """
    counted: Counter[str] = Counter()
    changes, last = 0, ""
    for _, label, _ in _index_lines(index):
        changes += last not in ("", label)
        counted[label] += 1
        last = label
    n = counted.total()
    if not n:
        raise UnreadableSource(f"{index} lists no message")
    by_chance = n - sum(count * count for count in counted.values()) / n
    return IndexSummary(n, mixed=changes > max(1.0, _MIXED * by_chance))


def _index_lines(index: Path) -> Iterator[tuple[int, str, Path]]:
    """Yield line number, label and path of every line that is not blank."""
    with reading(index), index.open("rb") as file:
        # A pipe is empty when it is read for the second time.
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnreadableSource(
                f"{index} is not a regular file, and an index is read twice; "
                "save it to a file"
            )
        number = 0
        while line := file.readline(LINE_LIMIT + 1):
            number += 1
            # Paths are bytes to the operating system, in no encoding.
            text = os.fsdecode(line).rstrip("\r\n")
            if not text.strip():
                continue
            label, path = [*text.split(None, 1), ""][:2]
            if not path or len(line) > LINE_LIMIT or "\0" in path:
                raise MalformedIndex(
                    f"{index}, line {number}: expected a label and a path, "
                    f"such as `spam data/1.eml`, got {text[:60]!r}"
                )
            yield number, label, _named(index, path)


def _named(index: Path, path: str) -> Path:
    """Return the path that an index names: a URL, or a file beside the index."""
    if "://" in path:
        return mail_path(path)
    return Path(os.path.normpath(index.parent / path))
