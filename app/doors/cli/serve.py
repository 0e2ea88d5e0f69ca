"""`postbayes serve`: the service, with its workers.

Contract of this file: a folder for counters belongs to a live process as long as that
process holds the lock on the file in it.  The kernel releases the lock however the
process ends.  Process ids would not do, because they are reused after a restart of the
machine or its container.
"""

from __future__ import annotations

import fcntl
import gc
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import typer
import uvicorn
from uvicorn import _subprocess
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from app.access.networks import LOOPBACK, Networks
from app.doors import service
from app.doors.cli import complain
from app.doors.serving.http1 import OPTIONS
from app.doors.serving.listener import MAX_CONNECTIONS
from app.doors.serving.process import ServiceManager, allow_files, remember_reload
from app.doors.serving.sockets import Inet, addresses_of, bind
from app.errors import InvalidSetting, reason
from app.kernels import COMPILER, load_compiler
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

FILES: Final = 2 * MAX_CONNECTIONS * (1 + len(service.DOORS))
"""Files that a process may open: twice the connections of all its doors."""
log = logging.getLogger(__name__)
_PREFIX: Final = "postbayes-metrics-"
_LOCK: Final = "lock"


@contextmanager
def counting(workers: int) -> Iterator[None]:
    """Let several workers count into a folder, which is removed afterwards."""
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
    """Hold the lock that keeps others from removing a folder."""
    # Locked before it gets its name: another service that starts now finds either no
    # lock file in the folder or a held one.  Workers do not inherit the lock.
    new = folder / f"{_LOCK}.new"
    # In a folder that is locked itself, systemd-tmpfiles(8) leaves files that have not
    # changed for days, as that with the time of the start.
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        with new.open("xb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            new.rename(folder / _LOCK)
            yield
    finally:
        os.close(place)


def _remove_those_of_the_dead() -> None:
    """Remove the files of services that were killed.

    Workers that have not yet noticed the end of their service go on counting into
    deleted files.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # Files that cannot be read or removed are left.
        with suppress(OSError):
            # The folder may contain files of other users.
            if folder.lstat().st_uid != os.geteuid():
                continue
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)


_APPLICATION: Final = f"{service.create.__module__}:{service.create.__qualname__}"


def serve(
    host: str | None = None,
    port: int | None = None,
    database_url: str | None = None,
    workers: int | None = None,
) -> None:
    """Serve HTTP. An empty or older database is migrated first.

    Parameters
    ----------
    host
        Address to listen on. [POSTBAYES_HOST]
    port
        Port to listen on. [POSTBAYES_PORT]
    database_url
        Database. [POSTBAYES_DATABASE_URL]
    workers
        Processes to serve with. [POSTBAYES_WORKERS]
    """
    remember_reload()
    options = {
        "host": host,
        "port": port,
        "database_url": database_url,
        "workers": workers,
    }
    settings = load_settings(**options)
    # uvicorn creates the application, from the environment.
    for name, given in options.items():
        if given is not None:
            os.environ[f"POSTBAYES_{name.upper()}"] = str(given)
    keep_log(settings)
    allow_files(FILES)
    load_compiler()
    with ExitStack() as held:
        sockets = [held.enter_context(each) for each in _bound(settings)]
        # Before an older database is migrated; and once, because uvicorn would restart
        # failing workers again and again.
        require_startable(settings)
        webhook_secret(settings)
        oidc_secret(settings)
        followed_sites(settings)
        require_locked(settings)
        manager = ServiceManager()
        if settings.workers > 1:
            held.enter_context(service.reserved(settings))
            prepare_database(settings)
            held.enter_context(counting(settings.workers))
            manager.alone()
        _run(settings, sockets, manager)


class _SingleProcess(uvicorn.Server):
    """The single process of a service."""

    def __init__(self, config: uvicorn.Config, manager: ServiceManager) -> None:
        super().__init__(config)
        self._manager = manager

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the main door, after all others."""
        try:
            await super().startup(sockets)
        except OSError as error:
            # Two services may bind one address, and the first one listens.
            log.error("cannot listen: %s", reason(error))  # noqa: TRY400
            await self.lifespan.shutdown()
            self.should_exit = True
        if self.started:
            self._manager.ready()

    async def on_tick(self, counter: int) -> bool:
        """Do the periodic work, ten times a second, and return whether to end."""
        self._manager.beat()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer pending requests, and end."""
        self._manager.stopping()
        await super().shutdown(sockets)


def require_locked(settings: Settings) -> None:
    """Raise if other machines could reach a service without keys.

    Raises
    ------
    InvalidSetting
        The message has the two ways out.
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
    raise InvalidSetting(
        f"{open_to[0]} is not a loopback address and there is no key yet, so no "
        "client could use the service there. Create a key with `postbayes keys create "
        "NAME --right classify --right teach`, or name the clients that need no key: "
        "POSTBAYES_KEYLESS_FROM=127.0.0.0/8,::1,192.0.2.0/24"
    )


def _is_of(networks: Networks, host: str) -> bool:
    """Return whether all addresses of a name are in some networks."""
    try:
        found = addresses_of(host, 0)
    except OSError:
        # An unknown name is reported when the port is opened.
        return True
    return all(networks.holds(str(address[0])) for *_, address in found)


class _Workers(Multiprocess):
    """The workers of a service; on SIGHUP each reloads its settings.

    uvicorn would replace them one by one, and a new worker would find the Unix sockets
    of the doors held by the old one.
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
        self.cut_off = False

    def init_processes(self) -> None:
        """Start the workers, unless the process that forks them is gone.

        A service manager ends all processes of a service at once.
        """
        try:
            super().init_processes()
        except (EOFError, ConnectionError):
            self.should_exit.set()
            self.cut_off = not self.signal_queue

    def handle_hup(self) -> None:
        """Have all workers reload."""
        self._manager.reload_begins()
        self._ready = False
        self._reloading = list(self.processes)

    def terminate_all(self) -> None:
        """Ask all workers to end, and leave the port to them."""
        self._manager.stopping()
        super().terminate_all()
        # Otherwise new connections would wait here for the last request in progress,
        # and then be reset, instead of being refused at once.
        for each in self.sockets:
            each.close()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that died, which uvicorn does without a word in our log."""
        workers = tuple(self.processes)
        super().keep_subprocess_alive()
        for old, new in zip(workers, self.processes, strict=True):
            if new is not old:
                log.warning(
                    "a worker died (process %s, exit code %s), and another is started",
                    old.pid,
                    old.exitcode,
                )

    def handle_signals(self) -> None:
        """Act on signals, and on a SIGHUP as soon as a worker can handle it."""
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
                # Its successor has just read the settings.
                self._reloading.remove(worker)
            elif worker.is_ready() and worker.pid is not None:
                self._reloading.remove(worker)
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGHUP)


def _fork_workers() -> None:
    """Make uvicorn fork its workers from a process with their modules, and with numba.

    By default, `spawn` makes each worker import them again, which takes 2 s and 200 MB
    (`benchmarks/start.py`).  A fork of this process would inherit its locks.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([COMPILER, service.__name__])
    _subprocess.spawn = context  # type: ignore[assignment]


def _bound(settings: Settings) -> list[socket.socket]:
    """Return sockets bound to the addresses of the host, or end with a sentence.

    uvicorn would find out only after loading everything, and would not name the option
    or setting.
    """
    try:
        return bind(settings.host, settings.port)
    except OSError as error:
        complain(
            f"cannot listen on {Inet(settings.host, settings.port)}: {error.strerror}. "
            "Choose another with --host and --port, or POSTBAYES_HOST and "
            "POSTBAYES_PORT"
        )
        raise typer.Exit(STARTUP_FAILURE) from error


def _run(
    settings: Settings, sockets: list[socket.socket], manager: ServiceManager
) -> None:
    """Serve until a signal ends it."""
    # Objects created at the start are permanent; `app.doors.service` finally excludes
    # them from garbage collection.
    gc.disable()
    # Like `uvicorn.run`, which does not support a service manager, and exits with 0
    # when a worker fails at its start: a supervisor would then not restart the service.
    config = uvicorn.Config(
        _APPLICATION,
        factory=True,
        workers=settings.workers,
        loop="uvloop",
        # Accepted feedback is answered before the process ends.
        timeout_graceful_shutdown=30,
        **OPTIONS,
    )
    if settings.workers == 1:
        config.load_app()
        server = _SingleProcess(config, manager)
        with suppress(KeyboardInterrupt):
            server.run(sockets)
        if not server.started:
            raise typer.Exit(STARTUP_FAILURE)
        return
    _fork_workers()
    workers = _Workers(config, sockets, manager)
    workers.run()
    if workers.cut_off:
        complain("the process that starts the workers was killed; start the service")
    elif any(each.exitcode == STARTUP_FAILURE for each in workers.processes):
        complain("a worker could not start, so the service has ended; see above")
    else:
        return
    raise typer.Exit(STARTUP_FAILURE)
