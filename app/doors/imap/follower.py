"""Follower of a mailbox: teaches messages that its owner moves.

A file stores what was seen: a hash of the headers of each message, which do not change
when it is moved, and the UIDVALIDITY and last UID read of each folder (RFC 9051 section
2.3.1.1).  The text of messages is not stored.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)

from app.doors.imap.account import CAPACITY, HAM, SPAM
from app.errors import (
    OF_ONE_MESSAGE,
    Inconsistent,
    InvalidInput,
    InvalidSetting,
    TooManyRequests,
    Unavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from app.doors.imap.account import Account, Folder


KEY_BYTES: Final = 16
# mbsync and OfflineIMAP move by uploading, and give each copy another one of the first
# two (isync 1.4.4; OfflineIMAP 8.0.0 on servers without UIDPLUS); Thunderbird 153 adds
# the third, and neomutt 20220429 the others, to what comes out of a local folder.
_COPY: Final = re.compile(
    rb"^(X-TUID|X-OfflineIMAP|X-Mozilla-Keys|Content-Length|Lines):.*\n",
    re.MULTILINE | re.IGNORECASE,
)


_PAIRS: Final = TypeAdapter(list[tuple[str, str]])


class Memory(BaseModel):
    """The messages that were seen in one mailbox, as they stand in the file.

    Of `CAPACITY` remembered messages a new one replaces the oldest.
    """

    version: Literal[1]
    read: dict[str, tuple[int, int]] = {}
    known: Annotated[
        dict[str, str],
        BeforeValidator(lambda pairs: dict(_PAIRS.validate_python(pairs))),
        PlainSerializer(lambda known: [*known.items()]),
    ] = {}
    marked: dict[str, dict[str, list[int]]] = {}

    def first_unread(self, folder: str, validity: int) -> int | None:
        """Return the first UID of a folder that was not read.

        Returns
        -------
        int or None
            None if nothing was read, or the server has renumbered the folder.
        """
        validity_before, uid = self.read.get(folder, (None, 1))
        return uid if validity_before == validity else None

    def mark_read(self, folder: str, validity: int, uid: int) -> None:
        """Remember that the messages below a UID were read."""
        self.read[folder] = (validity, uid)

    def note(self, headers: bytes, label: str) -> None:
        """Remember a message that was in a folder at the first look."""
        self._remember(key(headers), _filed(label))

    def says(self, label: str, headers: bytes) -> str | None:
        r"""Return the label for a message new in a folder; None if it is no feedback.

        It is the label of the folder, unless the filter itself marked the message so: a
        verdict is not evidence for itself.  In a folder of ham, it is ham only if the
        message was in a folder with another label.

        Examples
        --------
        >>> memory, marked = Memory(version=1), b"Subject: x\nX-Postbayes: spam\n\n"
        >>> memory.says("spam", marked)
        >>> memory.says("ham", marked)
        'ham'
        >>> memory.taught(marked, "ham")
        >>> memory.says("spam", marked)
        'spam'
        """
        name = key(headers)
        before = self.known.get(name)
        if label == HAM:
            return None if before in {None, HAM} else HAM
        if before is None and verdict(headers, label):
            self._remember(name, _filed(label))
            return None
        return None if before in {label, _filed(label)} else label

    def says_mark(self, label: str, headers: bytes) -> str | None:
        """Return the label of a message that was marked with it, as `says` does.

        The message need not have been moved before.
        """
        if label == HAM:
            return None if self.known.get(key(headers)) == HAM else HAM
        return self.says(label, headers)

    def taught(self, headers: bytes, label: str) -> None:
        """Remember the label of a message that was taught."""
        self._remember(key(headers), label)

    def _remember(self, name: str, word: str) -> None:
        self.known.pop(name, None)
        self.known[name] = word
        if len(self.known) > CAPACITY:
            del self.known[next(iter(self.known))]

    @classmethod
    def load(cls, text: str | None, *, file: object) -> Self:
        """Return the memory in a file's text; an empty memory if there is none.

        Raises
        ------
        InvalidSetting
            If the text is not that of a memory.
        """
        try:
            return cls(version=1) if text is None else cls.model_validate_json(text)
        except ValidationError as error:
            msg = f"{file} is not a state file of `postbayes imap`; remove it"
            raise InvalidSetting(msg) from error


def key(headers: bytes) -> str:
    """Return the identity of a message: 32 hex digits."""
    return blake2b(_COPY.sub(b"", headers), digest_size=KEY_BYTES).hexdigest()


def verdict(headers: bytes, label: str) -> bool:
    """Return whether the headers have the filter's own verdict with a label."""
    name = rb"X-Postbayes" if label == SPAM else rb"X-Postbayes-Label"
    wanted = rb"^%b:[ \t]*%b[ \t]*\r?$" % (name, re.escape(label.encode()))
    return re.search(wanted, headers, re.MULTILINE | re.IGNORECASE) is not None


def _filed(label: str) -> str:
    """Return the entry for a message that nobody put into its folder."""
    return "filed" if label == SPAM else f"filed {label}"


log = logging.getLogger(__name__)
# A server notifies only of the open folder, so other folders must be polled. RFC 2177
# wants IDLE repeated within 29 minutes, and routers drop idle connections earlier.
# Unit: seconds.
LOOK_AGAIN: Final = 300.0
# A server need not notify of changes between a look and IDLE: Dovecot 2.3 never
# notified of a message that came just before IDLE, and missed 4 of 300 that came within
# 6 ms of it; the next look found them all. People move several messages in a row, so
# after a change the next look comes soon. Unit: seconds.
LOOK_SOON: Final = 5.0
# Pause if the server lacks IDLE, or notifies of another folder than Junk: a message
# that comes into Junk and leaves it during a pause teaches nothing.  Unit: seconds.
POLL: Final = 60.0
# The first and the longest wait after a failure. Unit: seconds.
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """Teaches the messages that are moved in one mailbox.

    Parameters
    ----------
    folders : tuple of (str, str or None)
        Label and name of each folder.  The name None means the folder that the server
        marks as junk; the archive is added.  The follower waits in the last folder.
    memory : Memory
        What was seen before.
    keep : callable
        Stores the memory, as JSON.
    marks : bool
        Whether messages that are marked as junk or not junk are taught too.
    passed_over : Counter of str
        Number of skipped messages, by the name of the error.
    """

    connect: Callable[[], AbstractContextManager[Account]]
    folders: tuple[tuple[str, str | None], ...]
    teach: Callable[[bytes, str], None]
    memory: Memory
    keep: Callable[[str], None]
    marks: bool = False
    passed_over: Counter[str] = field(default_factory=Counter)

    def look(self, account: Account) -> int:
        """Teach messages that are newly moved or marked; return their number."""
        number = 0
        for label, folder in self._opened(account):
            first = self.memory.first_unread(folder.name, folder.validity)
            # A mailbox that was restored from a backup issues its numbers again.
            if first is None or first > folder.next_uid:
                self._begin(account, label, folder)
            elif first < folder.next_uid:
                number += self._new(account, label, folder, first)
            if self.marks:
                number += self._marked(account, folder)
        return number

    def follow(self) -> Iterator[int]:
        """Follow the mailbox for ever; yield the number of messages of each look.

        Raises
        ------
        InvalidSetting
            If the mailbox cannot be opened with the settings.
        """
        pause, opened = FIRST_PAUSE, False
        again = LOOK_AGAIN if self.folders[-1][0] == SPAM else POLL
        while True:
            try:
                with self.connect() as account:
                    seen: list[Folder] = []
                    while True:
                        yield self.look(account)
                        pause, opened = FIRST_PAUSE, True
                        folders = self._settled(account)
                        if not folders:
                            # Some servers number a folder anew whenever it is opened.
                            time.sleep(FIRST_PAUSE)
                            continue
                        account.wait(again if folders == seen else LOOK_SOON)
                        seen = folders
                        if not account.idles:
                            time.sleep(POLL)
            except (Unavailable, TooManyRequests, Inconsistent, InvalidInput) as error:
                # A password that worked may work again, and a damaged database may be
                # restored. A password that never worked ends the command.
                if not opened and isinstance(error, InvalidInput):
                    raise
                log.warning("%s; trying again in %.0f s", error, pause)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _opened(self, account: Account) -> Iterator[tuple[str, Folder]]:
        """Open each folder in turn, with its label; the archive counts as ham."""
        *others, last = self.folders
        archive = account.archive
        if archive is not None and archive not in (name for _, name in self.folders):
            others.append((HAM, archive))
        for label, name in (*others, last):
            yield label, account.open(name)

    def _settled(self, account: Account) -> list[Folder]:
        """Open the folders; return them, or none if a message was moved meanwhile.

        The last one is opened before and after the others, so that a move between
        folders shows in one of their numbers.
        """
        last = self.folders[-1][1]
        before = account.open(last)
        folders = [folder for _, folder in self._opened(account)]
        settled = before == folders[-1] and all(
            self.memory.first_unread(folder.name, folder.validity) == folder.next_uid
            for folder in folders
        )
        return folders if settled else []

    def _store(self) -> None:
        self.keep(self.memory.model_dump_json())

    def _begin(self, account: Account, label: str, folder: Folder) -> None:
        """Note the messages that are in a folder at first; they are not feedback."""
        if folder.name in self.memory.read:
            log.warning(
                "the server has renumbered the folder %r: what was moved into it since "
                "the last look is not taught",
                folder.name,
            )
        if label != HAM:
            for _, headers in account.newest(folder, CAPACITY):
                self.memory.note(headers, label)
        self.memory.marked.pop(folder.name, None)
        self.memory.mark_read(folder.name, folder.validity, folder.next_uid)
        self._store()

    def _new(self, account: Account, label: str, folder: Folder, first: int) -> int:
        """Teach the new messages of a folder; return their number."""
        number = 0
        unread = folder.next_uid
        for uid, headers in account.headers(first):
            word = self.memory.says(label, headers)
            number += self._taught(account, folder, uid, headers, word)
            unread = max(unread, uid + 1)
            self.memory.mark_read(folder.name, folder.validity, uid + 1)
            # Stored after each message, so that none is taught twice.
            self._store()
        self.memory.mark_read(folder.name, folder.validity, unread)
        self._store()
        return number

    def _marked(self, account: Account, folder: Folder) -> int:
        """Teach messages that were newly marked; return their number."""
        number, marks = 0, self.memory.marked.setdefault(folder.name, {})
        for label in (SPAM, HAM):
            uids = account.marked(folder, label)
            # Marks from before the first look are not feedback.
            new = uids.difference(marks.get(label, uids))
            for uid, headers in account.headers_of(sorted(new)):
                word = self.memory.says_mark(label, headers)
                number += self._taught(account, folder, uid, headers, word)
            if sorted(uids) != marks.get(label):
                marks[label] = sorted(uids)
                self._store()
        return number

    def _taught(
        self,
        account: Account,
        folder: Folder,
        uid: int,
        headers: bytes,
        word: str | None,
    ) -> bool:
        """Teach a message; skip one that the service will never accept."""
        if word is None:
            return False
        where = f"message {uid} of {folder.name}"
        raw = account.message(uid)
        if raw is None:
            log.warning(
                "%s was skipped: it was deleted meanwhile, or the server does not "
                "return its text",
                where,
            )
            return False
        try:
            self.teach(raw, word)
        except OF_ONE_MESSAGE as error:
            log.warning("%s was skipped: %s", where, error)
            self.passed_over[type(error).__name__] += 1
            return False
        self.memory.taught(headers, word)
        return True
