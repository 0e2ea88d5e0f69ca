"""Maildir folders.

Both layouts are read: Maildir++ (`.Junk/cur`, Courier and Dovecot) and
folders in folders (`Junk/cur`, Dovecot's LAYOUT=fs).  Nothing is written,
moved or flagged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.corpora.entry import list_folder, read_entry
from app.errors import UnreadableSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.corpora.entry import Entry

# Names under which mail clients keep these folders: Dovecot's and Apple
# Mail's `Junk`, Outlook's `Junk E-mail` and `Junk Email`, Gmail's and
# Roundcube's `Spam`, Yahoo's `Bulk Mail`; likewise for the others.
_JUNK: Final = frozenset({"bulk mail", "junk", "junk e-mail", "junk email", "spam"})
# What was thrown away may be either, and a draft was never received.
_UNTOLD: Final = frozenset(
    {"deleted items", "deleted messages", "drafts", "outbox", "templates", "trash"}
)
_PARTS: Final = frozenset({"cur", "new", "tmp"})


def is_maildir(folder: Path) -> bool:
    """Return whether `folder` is laid out as a Maildir."""
    return (folder / "cur").is_dir() and (folder / "new").is_dir()


def read_maildir(
    folder: Path, *, label: str | None, junk_label: str | None
) -> Iterator[Entry]:
    """Yield the messages of the Maildir at `folder` and of its subfolders.

    Parameters
    ----------
    folder : Path
        The Maildir.
    label : str or None
        The label of its messages.
    junk_label : str or None
        The label of those in its junk folders (`Junk`, `Spam` and other
        clients' names for them, in upper or lower case, and folders in
        them).  None: all messages of the Maildir have `label`.

    Raises
    ------
    UnreadableSource
        If a folder or message cannot be read.

    Notes
    -----
    Folder by folder and file by file in the order of their names, so that
    two runs agree.  Left out are `tmp`, the folders for drafts and deleted
    mail, and messages flagged as deleted (``:2,...T``), since they tell
    nothing of what their reader thinks of them.  A message that is moved
    while its folder is read is left out too; the next run finds it.
    """
    for place, names in _folders(folder):
        if names & _UNTOLD:
            continue
        junk = junk_label is not None and bool(names & _JUNK)
        for part in ("cur", "new"):
            yield from _part(place / part, label=junk_label if junk else label)


def _part(folder: Path, *, label: str | None) -> Iterator[Entry]:
    """Yield the messages of one `cur` or `new`."""
    for path in list_folder(folder):
        _, _, flags = path.name.partition(":2,")
        if not path.name.startswith(".") and "T" not in flags:
            yield from _message(path, label=label)


def _message(path: Path, *, label: str | None) -> Iterator[Entry]:
    """Yield the message at `path`, if it is still there."""
    try:
        yield read_entry(path, label=label)
    except UnreadableSource as error:
        # A mail client renames a message to flag it, between our listing
        # and our reading: the one error that a healthy Maildir gives.
        if not isinstance(error.__cause__, FileNotFoundError):
            raise


def _folders(
    folder: Path, names: frozenset[str] = frozenset()
) -> Iterator[tuple[Path, frozenset[str]]]:
    """Yield every Maildir in `folder` with its folder names in lower case."""
    if is_maildir(folder):
        yield folder, names
    for path in list_folder(folder):
        # A link to a folder above would be followed for ever.
        if path.name in _PARTS or path.is_symlink() or not path.is_dir():
            continue
        inner = frozenset(path.name.casefold().split("."))
        yield from _folders(path, names | inner)
