"""How much of a request's body is taken, and how long may it take to come?"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect

from app.adapters.patience import ARRIVED
from app.errors import MessageTooLarge, SlowRequest
from app.mail.limits import MAX_BYTES

if TYPE_CHECKING:
    from starlette.requests import Request

# Precedent: nginx's client_body_timeout, 60 s (between two reads there; here
# for all of them, so that a byte now and then does not hold a connection).
BODY_SECONDS: Final = 60

MAX_DIGITS: Final = 18


async def take(request: Request, *, limit: int, kept: int) -> bytes:
    """Return the body of a request, or stop as soon as it is too large.

    Parameters
    ----------
    request : Request
        The request, its body not read yet.
    limit : int
        Bytes that the body may have.
    kept : int
        Bytes of it that are kept; the rest is counted and let go.

    Raises
    ------
    MessageTooLarge
        If it is over the limit, before more of it is read.
    SlowRequest
        If it does not arrive in time.
    """
    # Python refuses to read thousands of digits, zeros before them included.
    announced = request.headers.get("content-length", "").lstrip("0")
    digits = len(announced)
    if announced.isdigit() and (digits > MAX_DIGITS or int(announced) > limit):
        raise MessageTooLarge(_too_large(limit))
    body = bytearray()
    size = 0
    # Most bodies come with their heads, and a timer costs 6 us of the 9 for this.
    there = ARRIVED in request.scope
    try:
        async with nullcontext() if there else asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise MessageTooLarge(_too_large(limit))
                body += chunk[: kept - len(body)]
    except ClientDisconnect as error:
        # Nobody reads the answer: it only keeps a hang-up from being logged as
        # a crash of ours.
        msg = f"the client hung up after {size} bytes of the body"
        raise SlowRequest(msg) from error
    except TimeoutError as error:
        msg = (
            f"the body did not arrive within {BODY_SECONDS} s "
            f"({size} bytes did); send it again"
        )
        raise SlowRequest(msg) from error
    return bytes(body)


def _too_large(limit: int) -> str:
    return (
        f"the body is larger than {limit} bytes; send the message raw, as "
        f"message/rfc822: its first {MAX_BYTES} bytes suffice, and "
        "POSTBAYES_MAX_REQUEST_BYTES is the limit"
    )
