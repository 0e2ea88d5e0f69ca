r"""Which Received header will the mail server add? The one that it hides from us.

Postfix and Sendmail add their own Received header before they deliver, and do
not show it to a filter (Postfix, MILTER_README, "Limitations").  Mail that is
learned from a mailbox has it, and it says where the message came from: without
it the filter would not look for what it has learned.  So it is written here,
from what the mail server told, for the eyes of the classifier alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.adapters.milter.question import Envelope

MAX_NAME_CHARS: Final = 255
"""Of a host name (RFC 1035 section 2.3.4); others are cut."""

_STRANGE: Final = re.compile(r"[^!-~]")


def received(envelope: Envelope, date: str) -> bytes:
    r"""Return the header, with the line end.

    Parameters
    ----------
    envelope : Envelope
        What the mail server told.
    date : str
        Now, as RFC 5322 writes it.

    Examples
    --------
    >>> from app.adapters.milter.question import Envelope
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
