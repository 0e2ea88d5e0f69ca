"""`postbayes serve`: the service, with its workers.

Contract of this file: a folder is of a process that lives while that holds the lock of
the file in it, which ends with the process, however it ends.  Numbers of processes
tell nothing: after a start of the machine or of its container they are given out anew.
"""

from __future__ import annotations

import fcntl
import gc
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
import uvicorn
from uvicorn import _subprocess
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from app.access.networks import LOOPBACK, Networks
from app.doors import service
from app.doors.cli.errors import complain
from app.doors.serving.http1 import Http1Protocol
from app.doors.serving.listener import MAX_CONNECTIONS
from app.doors.serving.process import ServiceManager, remember_reload
from app.doors.serving.sockets import Inet
from app.errors import InvalidSetting
from app.services.access import list_keys
from app.services.follow import followed_sites
from app.services.log import keep_log
from app.services.metrics import SHARED
from app.services.openid import oidc_secret
from app.services.startup import opened_database, prepare_database, require_startable
from app.services.webhook import webhook_secret
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from uvicorn.supervisors.multiprocess import Process

    from app.settings import Settings

_PREFIX: Final = "postbayes-metrics-"
_LOCK: Final = "lock"


@contextmanager
def counting(workers: int) -> Iterator[None]:
    """Let several workers count into one folder, which is gone afterwards."""
    if workers == 1 or SHARED in os.environ:
        yield
        return
    _remove_those_of_the_dead()
    with TemporaryDirectory(prefix=_PREFIX) as folder, _held(Path(folder)):
        os.environ[SHARED] = folder
        try:
            yield
        finally:
            del os.environ[SHARED]


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keep others from removing a folder."""
    # Locked before it has its name: another that starts just now finds no lock in the
    # folder, or one that is held.  Workers do not inherit it.
    new = folder / f"{_LOCK}.new"
    with new.open("xb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new.rename(folder / _LOCK)
        yield


def _remove_those_of_the_dead() -> None:
    """Remove the files of services that were killed.

    Workers that have not noticed yet that their service is gone go on counting into
    files that have no name any more.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # Whatever cannot be looked at or removed is left.
        with suppress(OSError):
            # Anybody may put something there, if not for this user.
            if folder.lstat().st_uid != os.geteuid():
                continue
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)


# Also uvicorn's own code, where the port is taken a moment after we looked.
IN_USE: Final = STARTUP_FAILURE
_APPLICATION: Final = f"{service.create.__module__}:{service.create.__qualname__}"


def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. [POSTBAYES_HOST]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on. [POSTBAYES_PORT]")
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="Database. [POSTBAYES_DATABASE_URL]")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes to serve with. [POSTBAYES_WORKERS]")
    ] = None,
) -> None:
    """Serve HTTP. An empty or older database is migrated first."""
    remember_reload()
    options = {
        "host": host,
        "port": port,
        "database_url": database_url,
        "workers": workers,
    }
    settings = load_settings(**options)
    # The application is made by uvicorn, from the environment.
    for name, given in options.items():
        if given is not None:
            os.environ[f"POSTBAYES_{name.upper()}"] = str(given)
    keep_log(settings)
    _require_free(settings)
    require_locked(settings)
    manager = ServiceManager()
    if settings.workers == 1:
        _run(settings, manager)
        return
    # What no worker could start with is told here, once: uvicorn would start workers
    # that end at once again and again.
    require_startable(settings)
    webhook_secret(settings)
    oidc_secret(settings)
    followed_sites(settings)
    with service.reserved(settings):
        prepare_database(settings)
        with counting(settings.workers):
            manager.alone()
            _run(settings, manager)


class _SingleProcess(uvicorn.Server):
    """The single process of a service."""

    def __init__(self, config: uvicorn.Config, manager: ServiceManager) -> None:
        super().__init__(config)
        self._manager = manager

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the main door, the last one."""
        await super().startup(sockets)
        if self.started:
            self._manager.ready()

    async def on_tick(self, counter: int) -> bool:
        """Do the work of a tick, ten times a second, and return whether to end."""
        self._manager.beat()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what was asked, and end."""
        self._manager.stopping()
        await super().shutdown(sockets)


def require_locked(settings: Settings) -> None:
    """Raise if others than this machine could reach a service that knows no key.

    Raises
    ------
    InvalidSetting
        With the two ways out.
    """
    if "keyless_from" in settings.model_fields_set:
        return
    loopback = Networks(LOOPBACK, of="loopback")
    addresses = service.addresses(settings)
    open_to = [
        f"{setting}={address}"
        for setting, address in (
            ("POSTBAYES_HOST", Inet(settings.host, settings.port)),
            *((setting, address) for _, setting, address in addresses),
        )
        if isinstance(address, Inet) and not _is_of(loopback, address.host)
    ]
    if not open_to:
        return
    prepare_database(settings)
    with opened_database(settings) as engine:
        if any(key.revoked_at is None for key in list_keys(engine)):
            return
    msg = (
        f"{open_to[0]} is not a loopback address and there is no key yet, so no "
        "client could use the service there. Create a key with `postbayes keys create "
        "NAME --right classify --right teach`, or name the clients that need no key: "
        "POSTBAYES_KEYLESS_FROM=127.0.0.0/8,::1,192.0.2.0/24"
    )
    raise InvalidSetting(msg)


def _is_of(networks: Networks, host: str) -> bool:
    """Return whether all addresses of a name are in some networks."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        # That it cannot be had is said where it is opened.
        return True
    return all(networks.holds(str(address[0])) for *_, address in found)


class _Workers(Multiprocess):
    """The workers of a service; a SIGHUP has each read its settings again.

    uvicorn would replace them one after the other, and a new worker would find the
    Unix sockets of the doors taken by the old one.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[socket.socket],
        manager: ServiceManager,
    ) -> None:
        super().__init__(config, sockets)
        self._manager = manager
        self._ready = False
        self._reloading: list[Process] = []

    def handle_hup(self) -> None:
        """Have all workers reload."""
        self._manager.reload_begins()
        self._ready = False
        self._reloading = list(self.processes)

    def terminate_all(self) -> None:
        """Ask all workers to end."""
        self._manager.stopping()
        super().terminate_all()

    def handle_signals(self) -> None:
        """Act on signals, and on a SIGHUP once a worker can."""
        super().handle_signals()
        self._manager.beat()
        if (
            not self._ready
            and not self._reloading
            and all(worker.is_ready() for worker in self.processes)
        ):
            self._ready = True
            self._manager.ready()
        for worker in tuple(self._reloading):
            if worker not in self.processes:
                # Another took its place, which has read the settings just now.
                self._reloading.remove(worker)
            elif worker.is_ready() and worker.pid is not None:
                self._reloading.remove(worker)
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGHUP)


def _fork_workers() -> None:
    """Have uvicorn fork its workers from a process that has imported what they need.

    Its own way, `spawn`, has each import it anew: 2 s and 200 MB for each
    (`benchmarks/start.py`).  A fork of this process would inherit its locks.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([service.__name__])
    _subprocess.spawn = context  # type: ignore[assignment]


def _require_free(settings: Settings) -> None:
    """End with a sentence where the port cannot be had.

    uvicorn finds that out after all is loaded, and names neither option nor setting.
    """
    try:
        for family, kind, protocol, _, where in socket.getaddrinfo(
            settings.host or None,
            settings.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        ):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(where)
    except OSError as error:
        complain(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}. "
            "Choose another with --host and --port, or POSTBAYES_HOST and "
            "POSTBAYES_PORT"
        )
        raise typer.Exit(IN_USE) from error


def _run(settings: Settings, manager: ServiceManager) -> None:
    """Serve until a signal ends it."""
    # What a start makes stays; `app.doors.service` keeps the collector from it at last.
    gc.disable()
    options: dict[str, Any] = {
        "factory": True,
        "workers": settings.workers,
        "host": settings.host,
        "port": settings.port,
        # Its lines have our format, and our level.
        "log_config": None,
        "loop": "uvloop",
        "http": Http1Protocol,
        "ws": "none",
        # Whose word on its clients is taken, `app.doors.serving.request` decides.
        "proxy_headers": False,
        # Each verdict has a line of its own.
        "access_log": False,
        "limit_concurrency": MAX_CONNECTIONS,
        # A feedback that was taken is answered before the process ends.
        "timeout_graceful_shutdown": 30,
    }
    # As `uvicorn.run` does it, which knows no manager, and says of a worker that fails
    # while it starts, and so ends the service, that all went well: a supervisor would
    # leave it ended.
    config = uvicorn.Config(_APPLICATION, **options)
    if settings.workers == 1:
        config.load_app()
        server = _SingleProcess(config, manager)
        with suppress(KeyboardInterrupt):
            server.run()
        if not server.started:
            raise typer.Exit(STARTUP_FAILURE)
        return
    _fork_workers()
    workers = _Workers(config, [config.bind_socket()], manager)
    workers.run()
    if any(each.exitcode == STARTUP_FAILURE for each in workers.processes):
        complain("a worker could not start, so the service has ended; see above")
        raise typer.Exit(STARTUP_FAILURE)
