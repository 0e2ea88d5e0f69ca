"""Which doors are open beside HTTP? Those whose address is set, in one process.

The HTTP door knows nothing of the others; `app.main` puts them beside it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from app.adapters import sockets
from app.adapters.listener import Door, Listener
from app.adapters.marks import parse_flag
from app.adapters.milter.results import parse_authserv_id
from app.adapters.milter.server import milter
from app.adapters.rspamd.server import rspamd
from app.adapters.signals import heard
from app.adapters.spamd.server import spamd
from app.adapters.teachers import Teachers
from app.adapters.web import WebDoor, WebListener
from app.address import parse_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from app.adapters.sockets import Listening
    from app.bootstrap import Application
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
