"""When are two messages the same message?"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.mail.message import Message

DIGEST_BYTES: Final = 16
"""Size of a digest. A collision of any two among 10^12 has chance 10^-15."""

HEADERS: Final = ("from", "to", "cc", "subject", "date", "message-id")
"""What mail servers leave alone between scoring and feedback."""


def digest(message: Message) -> bytes:
    """Return what identifies a message, 16 bytes."""
    whole = blake2b(digest_size=DIGEST_BYTES)
    for header in message.headers:
        if header.name in HEADERS:
            whole.update(f"{header.name}\0{header.value}\0".encode())
    for part in message.parts:
        whole.update(part.media_type.encode() + b"\0" + part.fingerprint)
    return whole.digest()
