"""How does a message come out of zstd, and an answer go into it?

Contract of this file: whatever somebody sends, no more is made of it than is
looked at, and with no more memory than `WINDOW_LOG` allows.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Final

from backports.zstd import (
    DecompressionParameter,
    ZstdDecompressor,
    ZstdError,
    compress,
)

from app.adapters.rspamd.codec import ZSTD, Refusal, Reply
from app.mail.limits import MAX_BYTES

# The first bytes of a zstd frame, RFC 8878 section 3.1.1: rspamd looks at them
# too, whatever the headers say.
MAGIC: Final = b"\x28\xb5\x2f\xfd"

# Memory that a frame may ask for: 8 MiB, which every decoder should have (RFC
# 8878 section 3.1.1.1.2). The library's own limit is 128 MiB. Unit: log2 of bytes.
WINDOW_LOG: Final = 23

# An answer has some 3 kB: the fastest level, as rspamc takes for a message.
_LEVEL: Final = 1


def unpacked(packed: bytes, *, cut: bool) -> bytes:
    r"""Return a message, or as much of its beginning as is looked at.

    Parameters
    ----------
    packed : bytes
        One zstd frame.
    cut : bool
        Whether its end was left out because it is so large.

    Raises
    ------
    Refusal
        If it is no frame, ends early, is followed by something else, or asks
        for more memory than `WINDOW_LOG` allows.

    Examples
    --------
    >>> unpacked(compress(b"Subject: Lunch\n\n"), cut=False)
    b'Subject: Lunch\n\n'
    """
    options: dict[int, int] = {DecompressionParameter.window_log_max: WINDOW_LOG}
    inflater = ZstdDecompressor(options=options)
    try:
        message = inflater.decompress(packed, max_length=MAX_BYTES + 1)
    except ZstdError as error:
        sentence = f"the message is not what it should be: {error}"
        raise Refusal(HTTPStatus.BAD_REQUEST, sentence) from error
    if inflater.unused_data:
        sentence = "something follows the compressed message; send one zstd frame"
        raise Refusal(HTTPStatus.BAD_REQUEST, sentence)
    if not (inflater.eof or cut or len(message) > MAX_BYTES):
        sentence = "the message ends before its compression does"
        raise Refusal(HTTPStatus.BAD_REQUEST, sentence)
    return message


def packed(reply: Reply) -> Reply:
    """Return an answer as one frame, and the headers that say so.

    rspamc reads the first of them, and any other client the second.
    """
    headers = {"Compression": ZSTD, "Content-Encoding": ZSTD}
    return replace(reply, body=compress(reply.body, level=_LEVEL), headers=headers)
