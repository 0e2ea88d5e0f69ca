"""The ASGI application for uvicorn or another server, and the mail doors beside it.

The HTTP door knows nothing of the others; `app.main` puts them beside it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from app.doors.http.app import create_app
from app.doors.milter.results import parse_authserv_id
from app.doors.milter.server import milter
from app.doors.mta.headers import parse_flag
from app.doors.mta.teachers import Teachers
from app.doors.rspamd.server import rspamd
from app.doors.serving import sockets
from app.doors.serving.asgi import WebDoor, WebListener
from app.doors.serving.listener import Door, Listener
from app.doors.serving.process import ending_with_its_parent, heard, keep_log
from app.doors.serving.sockets import parse_address
from app.doors.spamd.server import spamd
from app.errors import PostbayesError
from app.services.application import Application
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from fastapi import FastAPI

    from app.doors.serving.sockets import Listening
    from app.settings import Settings

log = logging.getLogger(__name__)
DOORS: Final[Mapping[str, Callable[[Application], Door | WebDoor]]] = {
    "milter": milter,
    "spamd": spamd,
    "rspamd": rspamd,
}
"""The doors, by the name of the setting that has their address."""


def listen(settings: Settings) -> dict[str, Listening]:
    """Return a listening socket for each door that the settings switch on.

    Before the service starts: an address that cannot be had is told in one
    sentence, and clients that are early wait for the first answer.

    Raises
    ------
    InvalidSetting
        If an address is none, or cannot be had, or the header that marks spam, the
        name for results or a network of teachers is none.
    """
    # A door would refuse them once the service runs.
    Teachers(settings.teach_from, password=None)
    parse_flag(settings.spam_header)
    parse_authserv_id(settings.milter_authserv_id)
    opened: dict[str, Listening] = {}
    try:
        for name in DOORS:
            text: str | None = getattr(settings, name)
            if text is None:
                continue
            setting = f"POSTBAYES_{name.upper()}"
            listening = sockets.listen(
                parse_address(text, setting=setting),
                setting=setting,
                mode=int(settings.socket_mode, 8),
                shared=settings.workers > 1,
            )
            if listening is None:
                log.info("%s: another worker listens on %s", name, text)
            else:
                opened[name] = listening
    except BaseException:
        for listening in opened.values():
            listening.close()
        raise
    return opened


def require(settings: Settings) -> None:
    """Raise if a door could not be opened; none is.

    For who starts the workers of a service: one that ends at once is started again.

    Raises
    ------
    InvalidSetting
        As `listen` does.
    """
    for listening in listen(settings).values():
        listening.close()


@asynccontextmanager
async def opened(
    application: Application, listening: Mapping[str, Listening]
) -> AsyncIterator[None]:
    """Open the doors on their sockets; close them on the way out.

    Or before, with the main door, as soon as a signal asks the process to end.
    """
    listeners = {
        name: _listener(DOORS[name](application), each)
        for name, each in listening.items()
    }
    for name, listener in listeners.items():
        listener.start()
        log.info("the door %s is open", name)
    told = asyncio.Event()
    closed = asyncio.create_task(_close(told, listeners.values()))
    try:
        with heard(told.set):
            yield
    finally:
        told.set()
        await closed


async def _close(
    told: asyncio.Event, listeners: Collection[Listener | WebListener]
) -> None:
    """Close the doors once somebody says so, all at once: each may have begun much."""
    await told.wait()
    await asyncio.gather(*(listener.stop() for listener in listeners))


def _listener(door: Door | WebDoor, listening: Listening) -> Listener | WebListener:
    if isinstance(door, WebDoor):
        return WebListener(door, listening)
    return Listener(door, listening)


def create() -> FastAPI:
    """Return the HTTP door over the settings of the environment.

    ``uvicorn --factory app.main:create`` serves it; `postbayes serve` is the
    same with the settings' host, port and log level.

    Raises
    ------
    PostbayesError
        If it cannot be put together; one of several workers says so and exits.
    """
    settings = load_settings()
    # `postbayes serve` has begun to where this is its own process. Workers are
    # processes that uvicorn starts, which have nothing of that.
    keep_log(settings)
    several = settings.workers > 1
    try:
        application = Application(settings)
        sockets = listen(settings)
    except PostbayesError as error:
        if not several:
            raise
        # The first process has found nothing wrong, and starts another: what is
        # away may be back, and the other workers go on. One sentence for each.
        log.error("this worker cannot start: %s", error)  # noqa: TRY400
        sys.exit(1)

    @asynccontextmanager
    async def beside() -> AsyncIterator[None]:
        # What is there now stays: modules, routes, statements, counts. Python's
        # collector would walk all of it every thousand feedbacks or so, for 95 ms
        # in which nobody is answered; of what came since it walks 3 ms. In the
        # application that serves, and not where tests make many. `postbayes serve`
        # has started without it.
        gc.freeze()
        gc.enable()
        watched = ending_with_its_parent() if several else nullcontext()
        async with watched, opened(application, sockets):
            yield

    return create_app(application, beside)
