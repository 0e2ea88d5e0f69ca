"""Service: the ASGI application, with the mail doors beside it.

The HTTP door knows nothing of the others; this file puts them beside it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Final

from app import __version__
from app.access.networks import Networks
from app.doors.http.app import create_app
from app.doors.milter.question import parse_authserv_id
from app.doors.milter.server import milter
from app.doors.mta import parse_flag
from app.doors.rspamd.server import rspamd
from app.doors.serving import sockets
from app.doors.serving.http1 import WebDoor, WebListener
from app.doors.serving.listener import Door, Listener
from app.doors.serving.process import (
    ServiceManager,
    ending_with_its_parent,
    handling_signals,
    reloading,
    remember_reload,
)
from app.doors.serving.sockets import parse_address
from app.doors.spamd.server import spamd
from app.errors import PostbayesError
from app.services.application import Application
from app.services.log import keep_log
from app.services.metrics import SHARED
from app.services.profiles import learned
from app.services.site import take_over
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Collection,
        Iterator,
        Mapping,
    )

    from fastapi import FastAPI

    from app.doors.serving.sockets import Address, Listening
    from app.settings import Settings

log = logging.getLogger(__name__)
DOORS: Final[Mapping[str, Callable[[Application], Door | WebDoor]]] = {
    "milter": milter,
    "spamd": spamd,
    "rspamd": rspamd,
}
"""The doors, by the name of the setting that has their address."""
LISTED: Final = 20
"""Profiles that the first line of the log names; of more it says how many."""


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
    opened: dict[str, Listening] = {}
    try:
        for name, setting, address in addresses(settings):
            try:
                opened[name] = sockets.listen(
                    address,
                    setting=setting,
                    mode=int(settings.socket_mode, 8),
                    shared=settings.workers > 1,
                )
            except BlockingIOError:
                log.info("%s: another worker already listens on %s", name, address)
    except BaseException:
        for listening in opened.values():
            listening.close()
        raise
    return opened


@contextmanager
def reserved(settings: Settings) -> Iterator[None]:
    """Keep the addresses of the doors for the workers of this service.

    For who starts the workers: one that ends at once is started again.

    Raises
    ------
    InvalidSetting
        As `listen` does, or if another service has an address.
    """
    with ExitStack() as held:
        for _, setting, address in addresses(settings):
            held.enter_context(sockets.reserved(address, setting=setting))
        yield


def addresses(settings: Settings) -> list[tuple[str, str, Address]]:
    """Return the name, the setting and the address of each door that is switched on."""
    # A door would refuse them once the service runs.
    Networks(settings.keyless_from, of="POSTBAYES_KEYLESS_FROM")
    Networks(settings.proxies, of="POSTBAYES_PROXIES")
    parse_flag(settings.spam_header)
    parse_authserv_id(settings.milter_authserv_id)
    found: list[tuple[str, str, Address]] = []
    for name in DOORS:
        text: str | None = getattr(settings, name)
        if text is not None:
            setting = f"POSTBAYES_{name.upper()}"
            found.append((name, setting, parse_address(text, setting=setting)))
    return found


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
    for listener in listeners.values():
        listener.start()
    ending = asyncio.Event()
    closed = asyncio.create_task(_close(ending, listeners.values()))
    try:
        with handling_signals(ending.set):
            yield
    finally:
        ending.set()
        await closed


async def _close(
    ending: asyncio.Event, listeners: Collection[Listener | WebListener]
) -> None:
    """Close the doors once somebody says so, all at once: each may have begun much."""
    await ending.wait()
    await asyncio.gather(*(listener.stop() for listener in listeners))


def reload(application: Application) -> None:
    """Read the settings again, and take over those that need no restart."""
    try:
        found = load_settings()
        addresses(found)
        reloaded = take_over(application, found)
    except PostbayesError as error:
        log.error("SIGHUP: the settings were not changed: %s", error)  # noqa: TRY400
        return
    level = logging.WARNING if reloaded.left else logging.INFO
    log.log(level, "SIGHUP: %s", reloaded)
    try:
        application.live.refresh()
    except PostbayesError as error:
        log.warning("the policies will be read once the database is back: %s", error)


def _reload(application: Application, manager: ServiceManager) -> None:
    # Of several workers, the process that started them notifies it.
    with manager.reloading():
        reload(application)


def announce(application: Application) -> None:
    """Log what starts: version, database, doors and profiles.

    Once for all workers; each of the others only says that it is there.
    """
    settings = application.settings
    if settings.workers > 1 and not _is_first():
        log.info("another worker is ready (process %d)", os.getpid())
        return
    doors = {"http": f"{settings.host}:{settings.port}"}
    doors |= {name: text for name in DOORS if (text := getattr(settings, name))}
    profiles = [*application.live]
    states = [
        f"{each.row.name} ("
        + ", ".join(f"{n} {label}" for label, n in learned(each).items())
        + ")"
        for each in profiles[:LISTED]
    ]
    if len(profiles) > LISTED:
        states.append(f"and {len(profiles) - LISTED} more")
    log.info(
        "Postbayes %s starts: database %s; doors %s; profiles %s; %s",
        __version__,
        application.database_url,
        ", ".join(f"{name} {address}" for name, address in doors.items()),
        ", ".join(states),
        "1 worker" if settings.workers == 1 else f"{settings.workers} workers",
    )


def _is_first() -> bool:
    """Return whether no other worker of the service has asked."""
    # In the folder that workers share.
    mark = Path(os.environ.get(SHARED, gettempdir()), f"started-{os.getppid()}")
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _listener(door: Door | WebDoor, listening: Listening) -> Listener | WebListener:
    if isinstance(door, WebDoor):
        return WebListener(door, listening)
    return Listener(door, listening)


def create() -> FastAPI:
    """Return the HTTP door over the settings of the environment.

    ``uvicorn --factory app.doors.service:create`` serves it; `postbayes serve` is the
    same with the settings' host, port and log level.

    Raises
    ------
    PostbayesError
        If it cannot be put together; one of several workers says so and exits.
    """
    remember_reload()
    settings = load_settings()
    # `postbayes serve` has begun to where this is its own process. Workers are
    # processes that uvicorn starts, which have nothing of that.
    keep_log(settings)
    several = settings.workers > 1
    try:
        application = Application(settings, upgrade=True)
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
        async with (
            watched,
            opened(application, sockets),
            reloading(partial(_reload, application, ServiceManager())),
        ):
            announce(application)
            yield
        if not several:
            log.info("Postbayes no longer accepts requests")

    return create_app(application, beside)
