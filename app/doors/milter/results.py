"""Authentication-Results and Received headers of the milter door.

RFC 8601 has a field for the findings of a receiving server about a message, for
programs to read.  It is for sender authentication; other filters add their verdict on
the content as a method of their own that begins with ``x-`` (Fastmail: ``x-vs=clean
score=0``), and so does Postbayes.

Postfix and Sendmail add their own Received header before they deliver, and do not show
it to a filter (Postfix, MILTER_README, "Limitations").  Mail that is learned from a
mailbox has it, and its features are learned.  So the same header is written here from
the envelope, for the classifier alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.errors import InvalidSetting
from app.mail.authentication import is_server_name
from app.mail.headers import OUR_METHOD

if TYPE_CHECKING:
    from app.doors.milter.question import Envelope
    from app.services.classify import Classified

NAME: Final = "Authentication-Results"
# What may stand before the id (RFC 5322 section 3.2.2), and the id itself, with
# or without quotes.
_BLANKS: Final = b" \t\r\n"
_WORD: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"|([^\s;()"]*)', re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)


def parse_authserv_id(text: str | None) -> str | None:
    """Return the name under which results are written; None for an empty text.

    Raises
    ------
    InvalidSetting
        If it is not the name of a host.

    Examples
    --------
    >>> parse_authserv_id(" mail.example.org ")
    'mail.example.org'
    """
    if text is None or not text.strip():
        return None
    if not is_server_name(text.strip()):
        msg = (
            f"POSTBAYES_MILTER_AUTHSERV_ID is {text!r}; it is a name such as "
            "mail.example.org: letters, digits, dots and hyphens"
        )
        raise InvalidSetting(msg)
    return text.strip()


def result(classified: Classified, authserv_id: str) -> str:
    """Return the value of the header for an answer, folded with LF."""
    verdict = classified.verdict
    return (
        f"{authserv_id};\n"
        f"\t{OUR_METHOD}={verdict.decision} policy.log-odds={verdict.log_odds:+.2f}\n"
        f"\tpolicy.id={classified.observation.id}"
    )


def claims(value: bytes, authserv_id: str) -> bool:
    r"""Return whether a header claims that a server of this name wrote it.

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
    """Return where comments and blanks at the beginning of a value end."""
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
"""Of a host name (RFC 1035 section 2.3.4); others are cut."""
_STRANGE: Final = re.compile(r"[^!-~]")


def received(envelope: Envelope, date: str) -> bytes:
    r"""Return the header, with the line end.

    Parameters
    ----------
    envelope : Envelope
        The data from the mail server.
    date : str
        Now, as RFC 5322 writes it.

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
