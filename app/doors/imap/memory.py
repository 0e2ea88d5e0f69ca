"""Memory of a mailbox: the messages seen, as text that is kept in a file.

A message is known by its headers, which moving it does not change, and a folder
by how far it was read (UIDVALIDITY and UID, RFC 9051 section 2.3.1.1).  Nothing
else is remembered, and the text of no message.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ValidationError

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable

SPAM: Final = "spam"
"""The label of Junk."""
HAM: Final = "ham"
"""The label of the inbox; what lies there says nothing unless it lay elsewhere."""
# A Junk folder that is emptied after a month rarely has more; about 500 kB.
CAPACITY: Final = 10_000
KEY_BYTES: Final = 16


class _Stored(BaseModel):
    """The file's form."""

    version: Literal[1]
    read: dict[str, tuple[int, int]]
    known: list[tuple[str, str]]
    marked: dict[str, dict[str, list[int]]] = {}


class Memory:
    """The messages that were seen in one mailbox.

    Parameters
    ----------
    capacity : int
        Messages remembered at most; the oldest is forgotten for a new one.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._known: OrderedDict[str, str] = OrderedDict()
        self._read: dict[str, tuple[int, int]] = {}
        self._marked: dict[str, dict[str, list[int]]] = {}

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

    def note(self, headers: bytes, label: str) -> None:
        """Remember a message that was in a folder before the first look."""
        self._remember(key(headers), _filed(label))

    def says(self, label: str, headers: bytes) -> str | None:
        r"""Return the label of a new message in a folder; None if it gives none.

        It is that of the folder, unless the filter itself marked the message so: a
        verdict is no evidence for itself.  In a folder of ham it is ham if it was in
        one of another label.

        Examples
        --------
        >>> memory, marked = Memory(), b"Subject: x\nX-Postbayes: spam\n\n"
        >>> memory.says("spam", marked)
        >>> memory.says("ham", marked)
        'ham'
        >>> memory.taught(marked, "ham")
        >>> memory.says("spam", marked)
        'spam'
        """
        name = key(headers)
        before = self._known.get(name)
        if label == HAM:
            return None if before in {None, HAM} else HAM
        if before is None and verdict(headers, label):
            self._remember(name, _filed(label))
            return None
        return None if before in {label, _filed(label)} else label

    def says_mark(self, label: str, headers: bytes) -> str | None:
        """Return the label of a message that somebody marked with it, as `says` does.

        Nobody has to have moved it before.
        """
        if label == HAM:
            return None if self._known.get(key(headers)) == HAM else HAM
        return self.says(label, headers)

    def marked(self, folder: str, label: str) -> set[int] | None:
        """Return the messages of a folder that had a mark; None before a first look."""
        found = self._marked.get(folder, {}).get(label)
        return None if found is None else set(found)

    def mark(self, folder: str, label: str, uids: Iterable[int]) -> None:
        """Remember the messages of a folder that have a mark."""
        self._marked.setdefault(folder, {})[label] = sorted(uids)

    def forget_marks(self, folder: str) -> None:
        """Forget the marks of a folder, whose messages have new numbers."""
        self._marked.pop(folder, None)

    def taught(self, headers: bytes, label: str) -> None:
        """Remember the label of a message that was taught."""
        self._remember(key(headers), label)

    def _remember(self, name: str, word: str) -> None:
        self._known.pop(name, None)
        self._known[name] = word
        if len(self._known) > self._capacity:
            self._known.popitem(last=False)

    def dump(self) -> str:
        """Return the memory as text, for a file."""
        stored = _Stored(
            version=1,
            read=self._read,
            known=list(self._known.items()),
            marked=self._marked,
        )
        return stored.model_dump_json()

    @classmethod
    def load(
        cls, text: str | None, *, file: object, capacity: int = CAPACITY
    ) -> Memory:
        """Return the memory of a text that `dump` returned, empty if there is none.

        Raises
        ------
        InvalidSetting
            If it is another text.
        """
        memory = cls(capacity)
        if text is None:
            return memory
        try:
            stored = _Stored.model_validate_json(text)
        except ValidationError as error:
            msg = f"{file} is not a state file of `postbayes imap`; remove it"
            raise InvalidSetting(msg) from error
        memory._read = stored.read
        memory._known = OrderedDict(stored.known[-capacity:])
        memory._marked = stored.marked
        return memory


def key(headers: bytes) -> str:
    """Return the identity of a message: 32 hex digits."""
    return blake2b(headers, digest_size=KEY_BYTES).hexdigest()


def verdict(headers: bytes, label: str) -> bool:
    """Return whether the filter wrote into a message that it has a label."""
    name = rb"X-Postbayes" if label == SPAM else rb"X-Postbayes-Label"
    wanted = rb"^%b:[ \t]*%b[ \t]*\r?$" % (name, re.escape(label.encode()))
    return re.search(wanted, headers, re.MULTILINE | re.IGNORECASE) is not None


def _filed(label: str) -> str:
    """Return what is remembered of a message that nobody put where it lies."""
    return "filed" if label == SPAM else f"filed {label}"
