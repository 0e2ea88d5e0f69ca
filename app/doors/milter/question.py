"""Question of the milter door: a message, its envelope, and the possible answers.

RFC 8601 defines a header field in which a receiving server records results of sender
authentication for programs.  Other filters add their verdict on the content as a method
that begins with ``x-`` (Fastmail: ``x-vs=clean score=0``), and so does Postbayes.

Postfix and Sendmail add their own Received header before delivery, but do not pass it
to a filter (Postfix, MILTER_README, "Limitations").  Mail learned from a mailbox has
this header, and its features are learned.  The same header is therefore made here from
the envelope, only for the classifier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.doors.milter import codec
from app.doors.milter.codec import Actions
from app.errors import InvalidSetting
from app.mail.authentication import is_server_name
from app.mail.headers import OUR_METHOD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.services.classify import Classified


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The data that come with a message but are not in its text.

    Parameters
    ----------
    client, address, helo : str
        The client's name in the DNS, its address, and the name in its HELO.
    sender : str
        Sender of the SMTP envelope.
    recipients : tuple of str
        Recipients of the SMTP envelope, in order.
    queue_id, host, program, tls, user : str
        The mail server's id of the message, its name and program, the version of TLS,
        and the authenticated user; empty if unknown.
    """

    client: str = ""
    address: str = ""
    helo: str = ""
    sender: str = ""
    recipients: tuple[str, ...] = ()
    queue_id: str = ""
    host: str = ""
    program: str = ""
    tls: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Headers to add to a message, as names and folded values.

    Parameters
    ----------
    below, above : sequence of (str, str)
        To add below and above the present headers.
    """

    below: Sequence[tuple[str, str]] = ()
    above: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A complete message, and the possible answers to the mail server.

    Parameters
    ----------
    envelope : Envelope
        The data from the mail server.
    content : bytes
        The message as received, without the mail server's own header.
    forged : tuple of (bytes, int)
        Headers in the message that only this filter may write: name, and number among
        those with the name.  `content` does not have them.
    actions : Actions
        The changes that the mail server offers.
    leading_space : bool
        Whether the blank after a colon belongs to the value.
    """

    envelope: Envelope
    content: bytes
    forged: tuple[tuple[bytes, int], ...]
    actions: Actions
    leading_space: bool

    def accept(self, marks: Marks) -> bytes:
        """Let the message pass with some headers, without the forged ones."""
        return self._changed(marks) + codec.CONTINUE

    def quarantine(self, marks: Marks, *, reason: str) -> bytes:
        """Have the message held if the mail server can; otherwise only mark it."""
        held = Actions.QUARANTINE in self.actions
        return (
            self._changed(marks)
            + (codec.quarantine(reason) if held else b"")
            + codec.CONTINUE
        )

    def reject(self, reason: str) -> bytes:
        """Refuse the message permanently."""
        return codec.reply(f"550 5.7.1 {reason}")

    def _changed(self, marks: Marks) -> bytes:
        changes: list[bytes] = []
        if Actions.CHANGE_HEADERS in self.actions:
            # From the last one up, so it does not matter whether a mail server still
            # counts deleted headers.
            changes += (codec.delete_header(*each) for each in reversed(self.forged))
        if Actions.ADD_HEADERS in self.actions:
            blank = " " if self.leading_space else ""
            changes += (
                codec.add_header(name, blank + value) for name, value in marks.below
            )
            # At the top, as a trace header (RFC 8601 section 4.1).
            changes += (
                codec.insert_header(0, name, blank + value)
                for name, value in marks.above
            )
        return b"".join(changes)


NAME: Final = "Authentication-Results"
# Comments and blanks before the id (RFC 5322 section 3.2.2), and the id, with or
# without quotes.
_BLANKS: Final = b" \t\r\n"
_WORD: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"|([^\s;()"]*)', re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)


def parse_authserv_id(text: str | None) -> str | None:
    """Parse the name under which results are written; None for an empty text.

    Raises
    ------
    InvalidSetting
        If it is not a host name.

    Examples
    --------
    >>> parse_authserv_id(" mail.example.org ")
    'mail.example.org'
    """
    if text is None or not text.strip():
        return None
    if not is_server_name(text.strip()):
        msg = (
            f"POSTBAYES_MILTER_AUTHSERV_ID is {text!r}; give a name such as "
            "mail.example.org, of letters, digits, dots and hyphens"
        )
        raise InvalidSetting(msg)
    return text.strip()


def result(classified: Classified, authserv_id: str) -> str:
    """Return the header value for an answer, folded with LF."""
    verdict = classified.verdict
    return (
        f"{authserv_id};\n"
        f"\t{OUR_METHOD}={verdict.decision} policy.log-odds={verdict.log_odds:+.2f}\n"
        f"\tpolicy.id={classified.observation.id}"
    )


def claims(value: bytes, authserv_id: str) -> bool:
    r"""Return whether a header claims to be written by a server with this name.

    Parameters
    ----------
    value : bytes
        The value of an Authentication-Results header.
    authserv_id : str
        The name.

    Examples
    --------
    >>> claims(b" (by) MX.example.org; spf=pass", "mx.example.org")
    True
    >>> claims(b" mx.example.org.evil.example; spf=pass", "mx.example.org")
    False
    """
    start = _after_comments(value)
    found = _WORD.match(value, start)
    if found is None:
        return False
    quoted, plain = found.groups()
    name = plain if quoted is None else _ESCAPED.sub(rb"\1", quoted)
    # Names of hosts, and so compared as they are.
    return name.lower() == authserv_id.lower().encode()


def _after_comments(value: bytes) -> int:
    """Return the end of the comments and blanks at the beginning of a value."""
    depth = at = 0
    while at < len(value):
        sign = value[at : at + 1]
        if sign == b"(":
            depth += 1
        elif depth and sign == b")":
            depth -= 1
        elif depth and sign == b"\\":
            at += 1
        elif not depth and sign not in _BLANKS:
            break
        at += 1
    return at


MAX_NAME_CHARS: Final = 255
"""Most characters of a host name (RFC 1035 section 2.3.4); longer ones are cut."""
_STRANGE: Final = re.compile(r"[^!-~]")


def received(envelope: Envelope, date: str) -> bytes:
    r"""Return the Received header, with its line end.

    Parameters
    ----------
    envelope : Envelope
        The data from the mail server.
    date : str
        The present time in the format of RFC 5322.

    Examples
    --------
    >>> from app.doors.milter.question import Envelope
    >>> client = Envelope(client="mx.example.org", address="192.0.2.1", helo="mx")
    >>> received(client, "Fri, 6 Nov 2026 09:00:00 +0000")
    b'Received: from mx (mx.example.org [192.0.2.1]) with SMTP;
    Fri, 6 Nov 2026 09:00:00 +0000\r\n'
    """
    client, address, helo, host, queue_id = (
        _STRANGE.sub("?", text[:MAX_NAME_CHARS])
        for text in (
            envelope.client,
            envelope.address,
            envelope.helo,
            envelope.host,
            envelope.queue_id,
        )
    )
    program = _STRANGE.sub("?", envelope.program[:MAX_NAME_CHARS].partition(" ")[0])
    secure = "ESMTPS" if envelope.tls else "ESMTP" if program else "SMTP"
    line = f"Received: from {helo or client} ({client} [{address}])"
    if host:
        line += f" by {host} ({program or 'mail'})"
    line += f" with {secure}"
    if queue_id:
        line += f" id {queue_id}"
    return f"{line}; {date}\r\n".encode()
