"""Mailboxes: messages in files, Maildir and mbox, and the use of folders by name.

Contract of this file: mail is never written, moved or flagged.  Messages are read one
by one on demand, in a reproducible order, and each takes at most `MESSAGE_LIMIT` of
memory.
"""

from __future__ import annotations

import binascii
import json
import os
import re
from base64 import b64decode
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from unicodedata import normalize

from app.errors import UnreadableSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


# Precedent for a limit on one message: rspamd 50 MiB (max_message), Exim 50 MB
# (message_size_limit), Postfix 10 MB.  Mail that a server accepted fits, and a disk
# image that is in a mail folder by mistake does not fill the memory.
MESSAGE_LIMIT: Final = 50 * 2**20
"""Longest part of one message that is read.  Unit: bytes."""
# A longer line is read in pieces.  Unit: bytes.
_PIECE: Final = 65_536
_BLOCK: Final = 4 * _PIECE


class CorpusMessage(NamedTuple):
    """One message of a stream.

    Parameters
    ----------
    label : str or None
        The label from the source; None if it gives none.
    raw : bytes
        The stored message, at most its first `MESSAGE_LIMIT` bytes.
    where : str
        The location for people: a path, and a position in the file.
    """

    label: str | None
    raw: bytes
    where: str


def read_file(path: Path, *, label: str | None) -> CorpusMessage:
    """Return the file at `path` as one message.

    Raises
    ------
    UnreadableSource
        If the file cannot be read.
    """
    with reading(path), path.open("rb") as file:
        return CorpusMessage(label, _whole(file.read(_BLOCK), file), str(path))


def _whole(begun: bytes, file: BinaryIO) -> bytes:
    """Return a partly read file, at most its first `MESSAGE_LIMIT` bytes."""
    # Allocating this many at once takes twice as long as reading most messages.
    if len(begun) == _BLOCK:
        begun += file.read(MESSAGE_LIMIT)
    return begun[:MESSAGE_LIMIT]


def list_folder(folder: Path) -> list[Path]:
    """Return the paths in `folder` sorted by name, so that two runs agree.

    Raises
    ------
    UnreadableSource
        If the folder cannot be read.
    """
    with reading(folder):
        return sorted(folder.iterdir())


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise the operating system's errors as `UnreadableSource`, with the reason."""
    try:
        yield
    except OSError as error:
        # Drivers of stores raise their own errors, which contain only the path.
        absent = isinstance(error, FileNotFoundError) and error.strerror is None
        reason = os.strerror(ENOENT) if absent else error.strerror or error
        raise UnreadableSource(f"cannot read {path}: {reason}") from error


PARTS: Final = frozenset({"cur", "new", "tmp"})
"""Folders of a Maildir that are no folders of mail."""


@dataclass(frozen=True, slots=True)
class MailFolder:
    """A folder or a mailbox, and the label of its messages.

    Parameters
    ----------
    path : Path
        The folder, or the file of an mbox.
    use : str or None
        Its use according to its name (`app.corpora.mailbox`); None if it has no special
        use, or was given by its path.
    files : list of Path
        Its files, sorted by name.
    maildir : bool
        Whether each file is a message that a mail client may rename.
    label : str or None
        That of its messages; None if it has none.
    """

    path: Path
    use: Use | None
    files: list[Path]
    maildir: bool = False
    label: str | None = None

    @property
    def left_out(self) -> bool:
        """Whether its messages do not show the judgement of their reader.

        Deleted mail may be spam or ham, and drafts and sent messages were never
        received.
        """
        return self.use not in {None, "junk"}


def is_maildir(folder: Path) -> bool:
    """Return whether `folder` is laid out as a Maildir."""
    return (folder / "cur").is_dir() and (folder / "new").is_dir()


def maildir_files(folder: Path) -> list[Path]:
    """Return the messages of the Maildir at `folder`, in the order of their names.

    Without `tmp`, and without messages flagged as deleted (``:2,...T``).

    Raises
    ------
    UnreadableSource
        If the folder cannot be read.
    """
    return [
        path
        for part in ("cur", "new")
        for path in list_folder(folder / part)
        if not path.name.startswith(".") and "T" not in path.name.partition(":2,")[2]
    ]


def inherited(use: Use | None, name: str) -> Use | None:
    """Return the use of a folder inside another; junk in the trash is trash."""
    return use if use not in {None, "junk"} else use_of(name) or use


def read_moving(path: Path, *, label: str | None) -> Iterator[CorpusMessage]:
    """Yield the message of a file of a Maildir, unless it was moved or removed.

    The next run finds a message that was moved.

    Raises
    ------
    UnreadableSource
        If the message cannot be read.
    """
    try:
        yield read_file(path, label=label)
    except UnreadableSource as error:
        # A mail client may rename a message to flag it after it was listed. This is the
        # only error of a healthy Maildir.
        if not isinstance(error.__cause__, FileNotFoundError):
            raise


# RFC 4155, appendix A: `From `, the sender and a date as of asctime().  The time and
# the year are required, as in Dovecot and mutt, since "From " alone begins many
# unquoted sentences.  Senders may be empty, `-` (Mozilla) or contain blanks; a zone may
# come before or after the year.  Recent Thunderbird omits sender and date.
_SEPARATOR: Final = re.compile(
    rb"From (?:-?\s*\Z|.{0,900}?\b\d\d?:\d\d.{0,40}?\b\d{4}\b)"
)
# The form that exports and scripts write instead: only the sender, or a date in another
# format (RFC 5322, ISO 8601).  Sentences may look like this too, so a header must
# follow.
_LOOSE: Final = re.compile(
    rb"From (?:[^\s@]{1,300}@[^\s@]{1,300}\s*\Z"
    rb"|[^\s@]{1,300}@.{0,300}?\b\d{4}\b.{0,40}?[ T]\d\d?:\d\d)"
)
_HEADER: Final = re.compile(rb"[!-9;-~]{1,100}:")
_MOST_NAME: Final = 101
# Editors on Windows insert it before the first line.
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# After an empty line, which is checked last, so that the search is for a fixed text.
_START: Final = re.compile(rb"From (?:(?<=\n\nFrom )|(?<=\n\r\nFrom ))")
# Bytes of its lookbehind.
_BEFORE: Final = 3
# First bytes, by the formats' own specifications; those of a tar's first entry are at
# byte 257 (POSIX.1-1988, ustar).
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
# Version, size of the headers and time of the creation (dbox_file_header_write in
# lib-storage/index/dbox-common/dbox-file.c of Dovecot), then the magic of a message.
_DBOX: Final = re.compile(
    rb"\d{1,2} M[0-9a-f]{1,8} C[0-9a-f]{1,16}[^\n]{0,80}\n\x01\x02"
)


def is_mbox(path: Path) -> bool:
    """Return whether the file at `path` begins as an mbox does.

    Raises
    ------
    UnreadableSource
        If the file cannot be read.
    """
    with reading(path), path.open("rb") as file:
        return _begins_mbox(file.read(_BLOCK))


def read_mailbox(
    path: Path, *, label: str | None, begin: int = 0, end: int | None = None
) -> Iterator[CorpusMessage]:
    """Yield the messages of the mbox at `path`, or the file as one message.

    Parameters
    ----------
    begin, end : int
        The range of bytes of an mbox in which messages begin; the last one may end
        after it. Adjacent ranges together yield each message once.

    Raises
    ------
    UnreadableSource
        If the file cannot be read, or is an archive.

    Notes
    -----
    A mailbox of any size is read block by block, with the memory of one message.  The
    rest of a message beyond `MESSAGE_LIMIT` is skipped, up to the next message.

    A message begins after a `From ` line at the start of the file or after an empty
    line.  That line and the empty line before the next one belong to the mailbox and
    are left out.  Quoted lines (``>From``) are not changed: it is unknown which of the
    four mbox dialects wrote them, and unquoting a line that the sender wrote like this
    would change the message.
    """
    with reading(path), path.open("rb") as file:
        raw = b"" if begin else file.read(_BLOCK)
        if begin or _begins_mbox(raw):
            after = f" after byte {begin}" if begin else ""
            for number, message in enumerate(_messages(file, begin, end), 1):
                where = f"{path}, message {number}{after}"
                yield CorpusMessage(label, message, where)
            return
        raw = _whole(raw, file)
    if _DBOX.match(raw):
        raise UnreadableSource(
            f"cannot read {path}: it is in Dovecot's dbox format; `doveadm "
            "backup` copies a user's mail into a Maildir"
        )
    for at, magic, kind in _ARCHIVES:
        if raw.startswith(magic, at):
            msg = f"cannot read {path}: it is a {kind} archive; unpack it first"
            raise UnreadableSource(msg)
    if raw:
        yield CorpusMessage(label, raw, str(path))


def _begins_mbox(content: bytes) -> bool:
    """Return whether the first line separates messages."""
    return _separates(*_lines(content.removeprefix(_BYTE_ORDER_MARK), 0))


def _messages(file: BinaryIO, begin: int, end: int | None) -> Iterator[bytes]:
    """Yield the messages of an mbox that begin in some bytes; empty ones are left out.

    Lines before the first separator of a file form a message.
    """
    message = bytearray()
    file.seek(max(begin - _BEFORE, 0))
    window, at = file.read(_BLOCK), _BEFORE
    inside = begin == 0
    if inside:
        mark = len(_BYTE_ORDER_MARK) if _begins_mbox(window) else 0
        begin = mark if window.startswith(_BYTE_ORDER_MARK) else 0
        # The file begins as if after an empty line.
        window, at = b"\n\n" + window[begin:], 2
    # Position in the file of the first byte of the window.
    base = begin - at
    while at < len(window):
        known = len(window)
        # A line that begins in one block may end in the next.
        window += file.read(_BLOCK)
        for found in _START.finditer(window, at, known + 4):
            line, following = _lines(window, found.start())
            if _separates(line, following):
                if inside:
                    room = MESSAGE_LIMIT - len(message)
                    message += window[at : found.start()][:room]
                    yield from _without_separator(message)
                if end is not None and base + found.start() >= end:
                    return
                inside, message = True, bytearray()
                at = found.start() + len(line)
        if inside:
            message += window[at:known][: MESSAGE_LIMIT - len(message)]
        elif end is not None and base + known >= end:
            return
        at = max(at, known) - known + _BEFORE
        window, base = window[known - _BEFORE :], base + known - _BEFORE
    if inside:
        yield from _without_separator(message)


def _lines(window: bytes, at: int) -> tuple[bytes, bytes]:
    """Return the line at a place, and the field name after it, if any."""
    end = window.find(b"\n", at, at + _PIECE) + 1 or at + _PIECE
    return window[at:end], window[end : end + _MOST_NAME]


def _separates(line: bytes, following: bytes) -> bool:
    """Return whether a line separates two messages."""
    if _SEPARATOR.match(line):
        return True
    return bool(_LOOSE.match(line) and _HEADER.match(following))


def _without_separator(message: bytearray) -> Iterator[bytes]:
    """Yield the message without the empty line that the mailbox added, if any."""
    raw = bytes(message)
    for ending in (b"\r\n", b"\n"):
        if raw == ending or raw.endswith(ending * 2):
            raw = raw[: -len(ending)]
            break
    if raw:
        yield raw


# RFC 6154 has attributes for these uses, but IMAP servers store them in their own
# files; the mail has only the name.  Whole names are compared, decoded from modified
# UTF-7 (RFC 3501 section 5.1.3), ignoring case.

Use = Literal["junk", "sent", "drafts", "trash", "outbox"]


def _key(name: str) -> str:
    # The Turkish capital of "i" has a dot, which folding its case keeps.
    return normalize("NFC", name).casefold().replace("i\u0307", "i").strip()


# The default names in Dovecot, Exchange and Outlook, Gmail, Yahoo, Apple Mail,
# Thunderbird, Roundcube and GMX.
_USES: Final[dict[str, Use]] = {
    _key(name): use
    for use, names in json.loads(
        Path(__file__).with_name("folders.json").read_bytes()
    ).items()
    for name in names
}
_ENCODED: Final = re.compile(r"&([A-Za-z0-9+,]*)-")


def use_of(name: str) -> Use | None:
    """Return the use of the folder with a name, or of a folder that contains it.

    Examples
    --------
    >>> use_of(".INBOX.Unerw&APw-nscht"), use_of("Sent Items.2024"), use_of(".Junkyard")
    ('junk', 'sent', None)
    """
    keys = (_key(decoded(part)) for part in name.split("."))
    uses = [_USES[key] for key in keys if key in _USES]
    # Junk in the trash counts as trash.
    return min(uses, key=lambda use: use == "junk", default=None)


def decoded(name: str) -> str:
    """Decode the name of a folder from modified UTF-7.

    Examples
    --------
    >>> decoded("Entw&APw-rfe"), decoded("R&-D"), decoded("Müll"), decoded("&x-")
    ('Entwürfe', 'R&D', 'Müll', '&x-')
    """
    return _ENCODED.sub(_decoded, name)


def _decoded(found: re.Match[str]) -> str:
    letters = found[1].replace(",", "/")
    if not letters:
        return "&"
    try:
        return b64decode(letters + "=" * (-len(letters) % 4)).decode("utf-16-be")
    except (binascii.Error, UnicodeDecodeError):
        return found[0]
