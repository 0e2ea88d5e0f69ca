"""Entries: labelled messages of a stream, read within a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import UnreadableSource

if TYPE_CHECKING:
    from pathlib import Path

# Precedent for a limit on one message: rspamd 50 MiB (max_message), Exim
# 50 MB (message_size_limit), Postfix 10 MB.  Mail that a server took in fits,
# and a disk image in a mail folder by mistake does not fill the memory.
ENTRY_LIMIT: Final = 50 * 2**20
"""What is read of one message at most.  Unit: bytes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a stream.

    Parameters
    ----------
    label : str or None
        What the source says the message is; None where it says nothing.
    raw : bytes
        The message as it is stored, its first `ENTRY_LIMIT` bytes at most.
    where : str
        Where it lies, for people: a path, and a position in it.
    """

    label: str | None
    raw: bytes
    where: str


def read_entry(path: Path, *, label: str | None) -> Entry:
    """Return the file at `path` as one message.

    Raises
    ------
    UnreadableSource
        If the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return Entry(label, file.read(ENTRY_LIMIT), str(path))
    except OSError as error:
        raise unreadable(path, error) from error


def list_folder(folder: Path) -> list[Path]:
    """Return what is in `folder`, by name, so that two runs agree.

    Raises
    ------
    UnreadableSource
        If the folder cannot be read.
    """
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from error


def unreadable(path: Path, error: OSError) -> UnreadableSource:
    """Return the error that says what the operating system said of `path`."""
    return UnreadableSource(f"cannot read {path}: {error.strerror or error}")
