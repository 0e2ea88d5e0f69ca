"""Which messages lie at a path? A file, a mailbox, a Maildir or a folder of them.

What a path holds is told by what is there, not by its name: a folder with
`cur` and `new` is a Maildir, a file that begins with a `From ` line and a date
is an mbox, any other file is one message.  Archives are refused: as one message
they would teach their bytes, and nobody means that.  An index says more than its path
could, and is asked for by name (`app.evaluation.index`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.errors import UnreadableSource
from app.evaluation.entry import list_folder, read_entry, unreadable
from app.evaluation.maildir import is_maildir, read_maildir
from app.evaluation.mbox import is_mbox, read_mbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.evaluation.entry import Entry

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
        `app.evaluation.maildir.read_maildir`.

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
