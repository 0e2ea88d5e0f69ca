"""Memory of a mailbox: the messages seen, kept in a file.

A message is known by its headers, which moving it does not change, and a folder
by how far it was read (UIDVALIDITY and UID, RFC 9051 section 2.3.1.1).  Nothing
else is remembered, and the text of no message.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ValidationError

from app.errors import InvalidSetting, reason

Place = Literal["junk", "inbox"]
Word = Literal["spam", "ham", "filed"]
"""The label of a message; *filed* where it was in Junk already."""
# A Junk folder that is emptied after a month rarely has more; about 500 kB.
CAPACITY: Final = 10_000
KEY_BYTES: Final = 16
_DECISION: Final = re.compile(
    rb"^X-Postbayes:[ \t]*(\w+)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE
)


class _Stored(BaseModel):
    """The file's form."""

    version: Literal[1]
    read: dict[str, tuple[int, int]]
    known: list[tuple[str, Word]]


class Memory:
    """The messages that were seen in one mailbox.

    Parameters
    ----------
    capacity : int
        Messages remembered at most; the oldest is forgotten for a new one.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._known: OrderedDict[str, Word] = OrderedDict()
        self._read: dict[str, tuple[int, int]] = {}

    def first_unread(self, folder: str, validity: int) -> int | None:
        """Return the UID from which on a folder is new.

        Parameters
        ----------
        folder : str
            Its name.
        validity : int
            Its UIDVALIDITY now.

        Returns
        -------
        int or None
            None where nothing was read, or the server has renumbered the folder.
        """
        validity_before, uid = self._read.get(folder, (None, 1))
        return uid if validity_before == validity else None

    def mark_read(self, folder: str, validity: int, uid: int) -> None:
        """Remember that the messages below a UID have been read."""
        self._read[folder] = (validity, uid)

    def note(self, headers: bytes) -> None:
        """Remember a message that was in Junk before the first look."""
        self._remember(key(headers), "filed")

    def says(self, place: Place, headers: bytes) -> Word | None:
        r"""Return the label of a new message in a folder; None if it gives none.

        In Junk it is spam, unless the filter itself marked it so: a verdict is
        no evidence for itself.  In the inbox it is ham if it was in Junk.

        Examples
        --------
        >>> memory, marked = Memory(), b"Subject: x\nX-Postbayes: spam\n\n"
        >>> memory.says("junk", marked)
        >>> memory.says("inbox", marked)
        'ham'
        >>> memory.taught(marked, "ham")
        >>> memory.says("junk", marked)
        'spam'
        """
        name = key(headers)
        label_before = self._known.get(name)
        if place == "inbox":
            return "ham" if label_before in {"spam", "filed"} else None
        if label_before is None and decision(headers) == "spam":
            self._remember(name, "filed")
            return None
        return None if label_before in {"spam", "filed"} else "spam"

    def taught(self, headers: bytes, word: Word) -> None:
        """Remember the label of a message that was taught."""
        self._remember(key(headers), word)

    def _remember(self, name: str, word: Word) -> None:
        self._known.pop(name, None)
        self._known[name] = word
        if len(self._known) > self._capacity:
            self._known.popitem(last=False)

    def dump(self) -> str:
        """Return the memory as text, for a file."""
        stored = _Stored(version=1, read=self._read, known=list(self._known.items()))
        return stored.model_dump_json()

    @classmethod
    def load(cls, text: str, *, file: str, capacity: int = CAPACITY) -> Memory:
        """Return the memory of a text that `dump` returned.

        Raises
        ------
        InvalidSetting
            If the text is something else.
        """
        memory = cls(capacity)
        try:
            stored = _Stored.model_validate_json(text)
        except ValidationError as error:
            msg = f"{file} is not a state file of `postbayes imap`; remove it"
            raise InvalidSetting(msg) from error
        memory._read = stored.read
        memory._known = OrderedDict(stored.known[-capacity:])
        return memory


def key(headers: bytes) -> str:
    """Return the identity of a message: 32 hex digits."""
    return blake2b(headers, digest_size=KEY_BYTES).hexdigest()


def decision(headers: bytes) -> str | None:
    """Return the decision that the filter wrote into a message, if any."""
    found = _DECISION.search(headers)
    return None if found is None else found[1].decode("ascii", "replace").lower()


@dataclass(frozen=True, slots=True)
class File:
    """A file that holds a memory; it is replaced as a whole.

    Parameters
    ----------
    path : Path
        Where; its folder is made.
    """

    path: Path

    def load(self) -> Memory:
        """Return the stored memory, or an empty one.

        Raises
        ------
        InvalidSetting
            If the file holds something else, or cannot be read.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Memory()
        except (OSError, UnicodeDecodeError) as error:
            msg = f"POSTBAYES_IMAP_STATE, {self.path}, cannot be read: {reason(error)}"
            raise InvalidSetting(msg) from error
        return Memory.load(text, file=str(self.path))

    def keep(self, memory: Memory) -> None:
        """Write it, so that a crash leaves the old or the new one.

        Raises
        ------
        InvalidSetting
            If it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(dir=self.path.parent, prefix=".imap-")
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(memory.dump())
            Path(name).replace(self.path)
        except OSError as error:
            msg = (
                f"POSTBAYES_IMAP_STATE, {self.path}, cannot be written: {reason(error)}"
            )
            raise InvalidSetting(msg) from error
