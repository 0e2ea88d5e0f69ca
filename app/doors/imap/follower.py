"""Follower of a mailbox: teaches messages that its owner moves."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from app.doors.imap.memory import CAPACITY, HAM, SPAM, Memory
from app.errors import OF_ONE_MESSAGE, Inconsistent, InvalidInput, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from app.doors.imap.account import Account, Folder

log = logging.getLogger(__name__)
# A server notifies of the open folder only: other moves have to be looked for. RFC
# 2177 wants IDLE again within 29 minutes, and routers forget connections before.
# Unit: seconds.
LOOK_AGAIN: Final = 300.0
# A server need not notify of changes between the look and IDLE: Dovecot 2.3 never
# notified of a message that came right before it, and missed 4 of 300 that came
# within 6 ms of it; all showed at the next look. People move several messages in
# a row, so after a change the next look comes soon. Unit: seconds.
LOOK_SOON: Final = 5.0
# Where the server does not know IDLE. Unit: seconds.
POLL: Final = 60.0
# The first and the longest wait after a failure. Unit: seconds.
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0


class Store(Protocol):
    """Where a memory is kept, as text."""

    @property
    def path(self) -> Path:
        """The file, for people."""
        ...

    def read(self) -> str | None:
        """Return the text; None if there is none yet."""
        ...

    def write(self, text: str, /) -> None:
        """Keep the text in place of the one before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """Teaches the moves of messages in one mailbox.

    Parameters
    ----------
    connect : callable
        Opens the mailbox.
    folders : tuple of (str, str or None)
        Label and name of each folder, beside that which the server marks as archive;
        the follower waits in the last one. None is the one that it marks as junk.
    teach : callable
        Teaches a message.
    store : Store
        Where the memory is stored.
    marks : bool
        Whether messages that are marked as junk or not junk are taught, too.
    passed_over : Counter of str
        How many messages were passed over, by the name of the error.
    """

    connect: Callable[[], AbstractContextManager[Account]]
    folders: tuple[tuple[str, str | None], ...]
    teach: Callable[[bytes, str], None]
    store: Store
    marks: bool = False
    passed_over: Counter[str] = field(default_factory=Counter)

    def memory(self) -> Memory:
        """Return the stored state of the mailbox."""
        return Memory.load(self.store.read(), file=self.store.path)

    def look(self, account: Account, memory: Memory) -> int:
        """Teach the messages that are new in folders or marked; return their number."""
        number = 0
        for label, folder in self._opened(account):
            first = memory.first_unread(folder.name, folder.validity)
            if first is None:
                self._begin(account, memory, label, folder)
            elif first < folder.next_uid:
                number += self._new(account, memory, label, folder, first)
            if self.marks:
                number += self._marked(account, memory, folder)
        return number

    def follow(self) -> Iterator[int]:
        """Follow the mailbox for ever; yield the number of messages of each look.

        Raises
        ------
        InvalidSetting
            If the settings do not open the mailbox.
        """
        memory, pause, opened = self.memory(), FIRST_PAUSE, False
        while True:
            try:
                with self.connect() as account:
                    seen: list[Folder] = []
                    while True:
                        yield self.look(account, memory)
                        pause, opened = FIRST_PAUSE, True
                        folders = self._settled(account, memory)
                        if not folders:
                            continue
                        account.wait(LOOK_AGAIN if folders == seen else LOOK_SOON)
                        seen = folders
                        if not account.idles:
                            time.sleep(POLL)
            except (Unavailable, Inconsistent, InvalidInput) as error:
                # A password that was right may be right again, and a damaged database
                # is restored; a password that never was right ends the command.
                if not opened and isinstance(error, InvalidInput):
                    raise
                log.warning("%s; trying again in %.0f s", error, pause)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _opened(self, account: Account) -> Iterator[tuple[str, Folder]]:
        """Open each folder in turn, with its label; the archive is one of ham."""
        *others, last = self.folders
        archive = account.archive
        if archive is not None and archive not in (name for _, name in self.folders):
            others.append((HAM, archive))
        for label, name in (*others, last):
            yield label, account.open(name)

    def _settled(self, account: Account, memory: Memory) -> list[Folder]:
        """Open the folders; return them, or none if something happened meanwhile.

        The last one is opened before and after the others, so that what moves between
        them meanwhile shows in one of the numbers.
        """
        last = self.folders[-1][1]
        before = account.open(last)
        folders = [folder for _, folder in self._opened(account)]
        settled = before == folders[-1] and all(
            memory.first_unread(folder.name, folder.validity) == folder.next_uid
            for folder in folders
        )
        return folders if settled else []

    def _begin(
        self, account: Account, memory: Memory, label: str, folder: Folder
    ) -> None:
        """Take a folder as it is: nothing in it is feedback yet."""
        if label != HAM:
            for _, headers in account.newest(folder, CAPACITY):
                memory.note(headers, label)
        memory.forget_marks(folder.name)
        memory.mark_read(folder.name, folder.validity, folder.next_uid)
        self.store.write(memory.dump())

    def _new(
        self,
        account: Account,
        memory: Memory,
        label: str,
        folder: Folder,
        first: int,
    ) -> int:
        """Teach the new messages of a folder; return their number."""
        number = 0
        unread = folder.next_uid
        for uid, headers in account.headers(first):
            word = memory.says(label, headers)
            number += self._taught(account, memory, folder, uid, headers, word)
            unread = max(unread, uid + 1)
            memory.mark_read(folder.name, folder.validity, uid + 1)
            # After each message: a taught message is not taught again.
            self.store.write(memory.dump())
        memory.mark_read(folder.name, folder.validity, unread)
        self.store.write(memory.dump())
        return number

    def _marked(self, account: Account, memory: Memory, folder: Folder) -> int:
        """Teach the messages that were marked since; return their number."""
        number = 0
        for label in (SPAM, HAM):
            uids = account.marked(folder, label)
            before = memory.marked(folder.name, label)
            # What was marked before the first look is no feedback yet.
            new = set() if before is None else uids - before
            for uid, headers in account.headers_of(sorted(new)):
                word = memory.says_mark(label, headers)
                number += self._taught(account, memory, folder, uid, headers, word)
            if uids != before:
                memory.mark(folder.name, label, uids)
                self.store.write(memory.dump())
        return number

    def _taught(
        self,
        account: Account,
        memory: Memory,
        folder: Folder,
        uid: int,
        headers: bytes,
        word: str | None,
    ) -> bool:
        """Teach a message; pass over one that the service will never take."""
        raw = None if word is None else account.message(uid)
        if word is None or raw is None:
            return False
        try:
            self.teach(raw, word)
        except OF_ONE_MESSAGE as error:
            where = f"message {uid} of {folder.name}"
            log.warning("%s was skipped: %s", where, error)
            self.passed_over[type(error).__name__] += 1
            return False
        memory.taught(headers, word)
        return True
