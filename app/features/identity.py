"""When are two messages the same message?"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.mail.message import Message

DIGEST_BYTES: Final = 16
"""Size of a digest.

Two of 10^12 different messages have the same with a chance below 10^-14.
Unit: bytes.
"""

HEADERS: Final = ("from", "to", "cc", "subject", "date", "message-id")
"""What mail servers leave alone between scoring and feedback."""


def digest(message: Message) -> bytes:
    r"""Return what identifies a message, 16 bytes.

    Notes
    -----
    Mail servers add headers, change the mbox line, the line ends and the
    transfer encoding between scoring and feedback, and none of it changes the
    digest: it is made of the decoded values of `HEADERS` and the decoded
    content of the parts. Blanks at the end of a part do not count, as some
    servers add an empty line. What they are known to change is not in it:
    Return-Path, Received, X-headers and the parameters of Content-Type.

    A server that rewrites the subject or adds a footer makes another message.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> sent = parse(b"Subject: Lunch\n\nAt noon?\n")
    >>> arrived = parse(b"Received: from a by b\r\nSubject: Lunch\r\n\r\nAt noon?\r\n")
    >>> digest(sent) == digest(arrived)
    True
    """
    whole = blake2b(digest_size=DIGEST_BYTES)
    for header in message.headers:
        if header.name in HEADERS:
            whole.update(f"{header.name}\0{header.value}\0".encode())
    for part in message.parts:
        whole.update(f"\1{part.media_type}\0".encode() + part.fingerprint)
    for text in message.texts:
        if text.place == "attached":
            whole.update(f"\2{text.content}\0".encode())
    return whole.digest()
