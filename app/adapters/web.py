"""How does a door that speaks HTTP stand beside the main one? A server of its own.

It runs in the event loop that is there, with the main door's patience and
limits, and leaves the signals to it.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass
from socket import AF_UNIX
from typing import TYPE_CHECKING, Protocol

import uvicorn

from app.adapters.listener import GRACE, MAX_CONNECTIONS
from app.adapters.patience import ImpatientProtocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from starlette.types import ASGIApp

    from app.adapters.sockets import Listening


class Create(Protocol):
    """Makes the application of a door."""

    def __call__(self, *, local: bool) -> ASGIApp:
        """Return it, for a Unix socket or a port."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDoor:
    """A protocol over HTTP.

    Parameters
    ----------
    name : str
        For the log.
    create : callable
        Makes the application.
    """

    name: str
    create: Create


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
        local = listening.socket.family == AF_UNIX
        self._server = _Server(
            uvicorn.Config(
                door.create(local=local),
                http=ImpatientProtocol,
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
