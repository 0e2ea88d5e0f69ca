"""Service: the ASGI application together with the mail doors.

The HTTP door does not know the other doors; this file combines them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from multiprocessing import current_process, parent_process
from typing import TYPE_CHECKING, Final

from app import __version__
from app.access.networks import Networks
from app.doors.http.app import create_app
from app.doors.milter.codec import parse_authserv_id
from app.doors.milter.server import milter
from app.doors.mta import parse_flag
from app.doors.rspamd.server import Rspamd
from app.doors.serving import sockets
from app.doors.serving.http1 import WebListener
from app.doors.serving.listener import Door, Listener
from app.doors.serving.process import (
    ServiceManager,
    ending_with_its_parent,
    handling_signals,
    reloading,
    remember_reload,
)
from app.doors.serving.sockets import Inet, parse_address
from app.doors.spamd.server import spamd
from app.errors import InvalidSetting, PostbayesError
from app.services.application import Application
from app.services.log import keep_log
from app.services.metrics import discard
from app.services.profiles import learned
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
    from starlette.types import ASGIApp

    from app.doors.serving.sockets import Address, Listening
    from app.settings import Settings

log = logging.getLogger(__name__)
DOORS: Final[Mapping[str, Callable[[Application], Door | ASGIApp]]] = {
    "milter": milter,
    "spamd": spamd,
    "rspamd": Rspamd,
}
"""The doors, by the name of the setting with their address."""
LISTED: Final = 20
"""Most profiles that the first log line names; it gives the number of others."""


def listen(settings: Settings) -> dict[str, Listening]:
    """Return a listening socket for each enabled door.

    This happens before the service starts, so an unavailable address is reported in one
    sentence, and early clients wait for their first answer.

    Raises
    ------
    InvalidSetting
        If an address is invalid or unavailable, or if the header that marks spam, the
        name for results or a network of teachers is invalid.
    """
    opened: dict[str, Listening] = {}
    with ExitStack() as on_failure:
        for name, setting, address in addresses(settings):
            try:
                opened[name] = sockets.listen(
                    address,
                    setting=setting,
                    mode=int(settings.socket_mode, 8),
                    shared=settings.workers > 1,
                )
                on_failure.callback(opened[name].close)
            except BlockingIOError:
                log.info("%s: another worker already listens on %s", name, address)
        on_failure.pop_all()
    return opened


@contextmanager
def reserved(settings: Settings) -> Iterator[None]:
    """Reserve the addresses of the doors for the workers of this service.

    The process that starts the workers calls this: a worker that found its address
    taken would end and be restarted again and again.

    Raises
    ------
    InvalidSetting
        As for `listen`, or if another service uses an address.
    """
    with ExitStack() as held:
        for _, setting, address in addresses(settings):
            held.enter_context(sockets.reserved(address, setting=setting))
        yield


def addresses(settings: Settings) -> list[tuple[str, str, Address]]:
    """Return the name, setting and address of each enabled door."""
    # Otherwise a door would refuse them only when the service runs.
    Networks(settings.keyless_from, of="POSTBAYES_KEYLESS_FROM")
    Networks(settings.proxies, of="POSTBAYES_PROXIES")
    if settings.sign_in_header is not None and not settings.proxies:
        raise InvalidSetting(
            "POSTBAYES_SIGN_IN_HEADER needs POSTBAYES_PROXIES, the addresses of the "
            "proxies that may send this header"
        )
    parse_flag(settings.spam_header)
    parse_authserv_id(settings.milter_authserv_id, trusted=settings.authserv_id)
    found: list[tuple[str, str, Address]] = []
    taken: dict[Address, str] = {Inet(settings.host, settings.port): "POSTBAYES_PORT"}
    for name in DOORS:
        text: str | None = getattr(settings, name)
        if text is not None:
            setting = f"POSTBAYES_{name.upper()}"
            address = parse_address(text, setting=setting)
            other = taken.setdefault(address, setting)
            # Port 0 is any that is free.
            if other != setting and not (
                isinstance(address, Inet) and address.port == 0
            ):
                msg = f"{setting} and {other} have one address, {address}; change one"
                raise InvalidSetting(msg)
            found.append((name, setting, address))
    return found


@asynccontextmanager
async def opened(
    application: Application, listening: Mapping[str, Listening]
) -> AsyncIterator[None]:
    """Open the doors on their sockets, and close them at the end.

    They are closed earlier, together with the main door, if a signal ends the process.
    """
    listeners = {
        name: Listener(door, each)
        if isinstance(door, Door)
        else WebListener(door, each)
        for name, each in listening.items()
        for door in (DOORS[name](application),)
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
    """Wait for the end, and close all doors concurrently, since each may have work."""
    await ending.wait()
    await asyncio.gather(*(listener.stop() for listener in listeners))


def reload(application: Application) -> None:
    """Reload the settings, and apply those that need no restart."""
    try:
        found = load_settings()
        addresses(found)
        reloaded = application.take_over(found)
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
    # With several workers, the process that started them notifies the manager.
    with manager.reloading():
        reload(application)


def announce(application: Application) -> None:
    """Log the start: version, database, doors and profiles.

    The first worker logs this for all; the others log only that they have started.
    """
    settings = application.settings
    if settings.workers > 1 and not _is_first():
        log.info("another worker is ready (process %d)", os.getpid())
        return
    doors = {"http": str(Inet(settings.host, settings.port))}
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
    """Return whether this is the first worker of its service, or the only process."""
    # Its starter numbers the processes, also those that replace others.
    name = current_process().name
    return parent_process() is None or name.endswith(("-1", ":1"))


def create() -> FastAPI:
    """Return the HTTP door with the settings of the environment.

    ``uvicorn --factory app.doors.service:create`` serves it; `postbayes serve` does so
    with the host, port and log level of the settings.

    Raises
    ------
    PostbayesError
        If it cannot be created; one of several workers logs the error and exits.
    """
    remember_reload()
    settings = load_settings()
    # If this is the process of `postbayes serve`, it has a log already. Workers are
    # processes that uvicorn starts, and do not inherit it.
    keep_log(settings)
    several = settings.workers > 1
    try:
        application = Application(settings, upgrade=True)
        sockets = listen(settings)
    except PostbayesError as error:
        if not several:
            raise
        # The first process found no error, and restarts this worker: the problem may be
        # temporary, and the other workers go on. Each attempt logs one sentence.
        discard()
        log.error("this worker cannot start: %s", error)  # noqa: TRY400
        sys.exit(1)

    @asynccontextmanager
    async def beside() -> AsyncIterator[None]:
        # The objects up to now are permanent: modules, routes, statements, counts.
        # Python's collector would traverse them every thousand lessons or so, and
        # block for 95 ms; newer objects take 3 ms. Only in the serving application,
        # because tests create many. `postbayes serve` starts with the collector off.
        gc.freeze()
        gc.enable()
        with ending_with_its_parent():
            async with (
                opened(application, sockets),
                reloading(partial(_reload, application, ServiceManager())),
            ):
                announce(application)
                yield
        if not several:
            log.info("Postbayes no longer accepts requests")

    return create_app(application, beside)
