"""IMAP account: a mailbox read in bounded pieces and never changed."""

from __future__ import annotations

import logging
import re
import ssl
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from imapclient import IMAPClient, SocketTimeout
from imapclient.exceptions import IMAPClientError, LoginError, ProtocolError
from imapclient.imapclient import ARCHIVE, JUNK

from app.errors import InvalidSetting, MailboxUnavailable, reason
from app.mail.limits import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)
Security = Literal["tls", "starttls", "none"]
PORTS: Final = {"tls": 993, "starttls": 143, "none": 143}
# Time-out of the connection and of each answer.  Unit: seconds.
CONNECT: Final = 15.0
ANSWER: Final = 60.0
# Bytes of a message that are read; Postfix accepts 100 kB of headers.
HEADER_BYTES: Final = 128 * 1024
# Headers are requested for this many messages at a time, so the first look at a large
# folder takes only some megabytes of memory.
AT_ONCE: Final = 50
# The name in most servers and programs.
_USUAL_JUNK: Final = "Junk"
SPAM: Final = "spam"
"""The label of Junk."""
HAM: Final = "ham"
"""The label of the inbox; its messages are feedback only if they were elsewhere."""
# A Junk folder that is emptied after a month rarely has more; about 500 kB.
CAPACITY: Final = 10_000
# RFC 9051 section 2.3.2; mail programs set the other two as well, or instead.
MARKS: Final = {SPAM: ("$Junk", "Junk"), HAM: ("$NotJunk", "NonJunk")}
# A user name that needs no quotes; before 3.14, imaplib sends LOGIN without any.
_UNQUOTED: Final = re.compile(r'[^\s"%()*\\{]+')
_HEADERS: Final = b"BODY[HEADER]<0>"
_MESSAGE: Final = b"BODY[]<0>"


class Folder(NamedTuple):
    """The present numbering of a folder on the server."""

    name: str
    validity: int
    next_uid: int
    messages: int


class Account:
    """A connection to one mailbox."""

    def __init__(self, client: IMAPClient) -> None:
        self._client = client
        self.idles = bool(client.has_capability("IDLE"))
        """Whether the server notifies of changes (IDLE)."""

    def open(self, name: str | None) -> Folder:
        """Open a folder read-only.

        Parameters
        ----------
        name : str or None
            Its name; None for the folder that the server marks as junk.

        Raises
        ------
        InvalidSetting
            If no such folder exists.
        ProtocolError
            If the server does not state its numbers.
        """
        name = self._junk if name is None else name
        if not self._client.folder_exists(name):
            raise InvalidSetting(
                f"the mailbox has no folder {name!r}; POSTBAYES_IMAP_JUNK, "
                "POSTBAYES_IMAP_INBOX and POSTBAYES_IMAP_FOLDERS set the folders to "
                "follow"
            )
        found = self._client.select_folder(name, readonly=True)
        numbers = (b"UIDVALIDITY", b"UIDNEXT", b"EXISTS")
        try:
            if b"UIDNEXT" not in found:
                # Courier tells it only with STATUS (RFC 3501 section 6.3.1 lets it).
                # Asked before the folder is opened: a message that comes between is
                # read later.
                status = self._client.folder_status(name, [b"UIDNEXT"])
                found = {**self._client.select_folder(name, readonly=True), **status}
            return Folder(name, *(int(found[number]) for number in numbers))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            msg = f"{name!r} has no UIDVALIDITY, UIDNEXT or number of messages"
            raise ProtocolError(msg) from error

    @cached_property
    def archive(self) -> str | None:
        """The folder that the server marks as archive, if any."""
        return self._special(ARCHIVE)

    @cached_property
    def _junk(self) -> str:
        junk = self._special(JUNK)
        if junk is None:
            log.info(
                "following %r, because the server marks no folder as junk", _USUAL_JUNK
            )
            return _USUAL_JUNK
        log.info("following the folder %r, which the server marks as junk", junk)
        return junk

    def _special(self, attribute: bytes) -> str | None:
        """Return the first folder with an attribute (RFC 6154 section 2)."""
        marked = (
            name
            for attributes, _, name in self._folders
            if attribute.lower() in (each.lower() for each in attributes)
        )
        return next(marked, None)

    @cached_property
    def _folders(self) -> list[tuple[tuple[bytes, ...], bytes, str]]:
        """Attributes, delimiter and name of each folder."""
        found: list[tuple[tuple[bytes, ...], bytes, str]]
        if self._client.has_capability("SPECIAL-USE"):
            # A plain LIST need not return the attributes then (section 3), and
            # IMAPClient lacks LIST with options.
            names = [b'""', b'"*"', b"RETURN (SPECIAL-USE)"]
            answer = self._client._raw_command_untagged(  # noqa: SLF001
                b"LIST", names, uid=False
            )
            found = self._client._proc_folder_list(answer)  # noqa: SLF001
        else:
            found = self._client.list_folders()
        return found

    def headers(self, first: int) -> Iterator[tuple[int, bytes]]:
        """Yield UID and headers of the messages from a UID on, in order."""
        # "first:*" always includes the last message, even if its UID is below `first`.
        found = self._client.search(["UID", f"{first}:*"])
        yield from self.headers_of(sorted(uid for uid in found if uid >= first))

    def newest(self, folder: Folder, number: int) -> Iterator[tuple[int, bytes]]:
        """Yield UID and headers of the newest messages, in order.

        Not from all UIDs of the folder: they would come in one line, and imaplib
        accepts at most a million bytes (158,000 UIDs from 1 on).
        """
        if not folder.messages:
            return
        start = max(1, folder.messages - number + 1)
        yield from self.headers_of(sorted(self._client.search([f"{start}:*"])))

    def headers_of(self, uids: list[int]) -> Iterator[tuple[int, bytes]]:
        """Yield UID and headers of some messages, in the order of their UIDs."""
        asked = f"BODY.PEEK[HEADER]<0.{HEADER_BYTES}>"
        for start in range(0, len(uids), AT_ONCE):
            answer = self._client.fetch(uids[start : start + AT_ONCE], [asked])
            for uid in sorted(answer):
                if _HEADERS in answer[uid]:
                    yield uid, answer[uid][_HEADERS]

    def marked(self, folder: Folder, label: str) -> set[int]:
        """Return the messages with a mark and without its opposite, by UID.

        Only of the last `CAPACITY` messages of the open folder, for the same reason as
        in `newest`.
        """
        if not folder.messages:
            return set()
        one, same = MARKS[label]
        other, opposite = MARKS[HAM if label == SPAM else SPAM]
        start = max(1, folder.messages - CAPACITY + 1)
        return set(
            self._client.search(
                [
                    *(f"{start}:*", "OR", "KEYWORD", one, "KEYWORD", same),
                    *("UNKEYWORD", other, "UNKEYWORD", opposite),
                ]
            )
        )

    def message(self, uid: int) -> bytes | None:
        """Return the beginning of a message, up to the limit; None if it is gone."""
        asked = f"BODY.PEEK[]<0.{MAX_BYTES}>"
        answer = self._client.fetch([uid], [asked])
        found: bytes | None = answer.get(uid, {}).get(_MESSAGE)
        return found

    def wait(self, seconds: float) -> None:
        """Wait for a change in the open folder, or until the time is over.

        The folder must be opened just before: a server notifies of a change once, and
        may do so in the answer to any command.
        """
        if not self.idles:
            # NOOP keeps the connection (RFC 9051 section 6.1.2).
            self._client.noop()
        else:
            self._client.idle()
            self._client.idle_check(timeout=seconds)
            self._client.idle_done()


@contextmanager
def logged_in(
    *, host: str, port: int | None, security: Security, user: str, password: str
) -> Iterator[Account]:
    """Open a mailbox for the duration of the context.

    Raises
    ------
    InvalidSetting
        If the server refuses the password.
    MailboxUnavailable
        If the server does not answer, or stops answering.
    """
    try:
        client = IMAPClient(
            host,
            port or PORTS[security],
            ssl=security == "tls",
            ssl_context=ssl.create_default_context() if security == "tls" else None,
            timeout=SocketTimeout(CONNECT, ANSWER),
        )
        with client:
            if security == "starttls":
                client.starttls(ssl.create_default_context())
            # RFC 9051 section 6.2.3: LOGIN has neither UTF-8 nor control characters.
            text = user + password
            simple = text.isascii() and text.isprintable() and _UNQUOTED.fullmatch(user)
            log_in = client.login if simple else client.plain_login
            try:
                log_in(user, password)
            except LoginError as error:
                msg = f"{host} refuses the login of {user!r}: {_said(error)}"
                raise InvalidSetting(msg) from error
            yield Account(client)
    except (IMAPClientError, OSError) as error:
        msg = f"the IMAP server {host} does not answer: {_said(error)}"
        raise MailboxUnavailable(msg) from error


def _said(error: Exception) -> str:
    """Return the words of an error; imaplib puts in the repr of what a server sent."""
    return re.sub(r"\bb'(.*?)'", r"\1", reason(error))
