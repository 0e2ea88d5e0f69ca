"""ASGI doors beside the main one, and the bodies of their requests.

It runs in the event loop that is there, with the main door's patience and
limits, and leaves the signals to it.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.requests import ClientDisconnect

from app.doors.serving.http1 import BODY_SECONDS, Http1Protocol
from app.doors.serving.listener import GRACE, MAX_CONNECTIONS
from app.errors import MessageTooLarge, SlowRequest
from app.mail.limits import MAX_BYTES

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from app.doors.serving.sockets import Listening

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
    try:
        async with asyncio.timeout(BODY_SECONDS):
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
            f"the body did not arrive within {BODY_SECONDS:g} s "
            f"({size} bytes did); send it again"
        )
        raise SlowRequest(msg) from error
    return bytes(body)


async def hung_up(request: Request) -> None:
    """Return once the client of a request has hung up; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_large(limit: int) -> str:
    return (
        f"the body is larger than {limit} bytes; send the message raw, as "
        f"message/rfc822; its first {MAX_BYTES} bytes are enough, and "
        "POSTBAYES_MAX_REQUEST_BYTES sets the limit"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDoor:
    """A protocol over HTTP.

    Parameters
    ----------
    name : str
        For the log.
    app : ASGI application
        What answers.
    """

    name: str
    app: ASGIApp


class _Server(uvicorn.Server):
    """A server that another one in the process ends."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave the signals to the main door, which ends us."""
        return nullcontext()


class WebListener:
    """A door over HTTP on one listening socket.

    Parameters
    ----------
    door : WebDoor
        What is served.
    listening : Listening
        Where; the listener closes it.
    """

    def __init__(self, door: WebDoor, listening: Listening) -> None:
        self._listening = listening
        self._server = _Server(
            uvicorn.Config(
                door.app,
                http=Http1Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                # What a proxy says of its client is for the door to believe.
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_graceful_shutdown=int(GRACE),
            )
        )
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to accept."""
        serve = self._server.serve(sockets=[self._listening.socket])
        self._serving = asyncio.create_task(serve)

    async def stop(self) -> None:
        """Accept no more, finish what was begun, and cut off what lasts too long."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        self._listening.close()
