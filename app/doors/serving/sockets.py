"""Listening sockets: TCP ports and Unix sockets of one process or of all workers."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import stat
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PORT: Final = 65_535
# sun_path has 108 bytes on Linux and 104 on the BSDs, including the final NUL.
MAX_PATH_BYTES: Final = 103
_INET: Final = re.compile(
    r"(?:inet:)?(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:\[\]/]+)):(?P<port>\d{1,5})"
)


@dataclass(frozen=True, slots=True)
class Inet:
    """A TCP port of a host name or address.

    Examples
    --------
    >>> str(Inet("::1", 11332))
    '[::1]:11332'
    """

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as it stands in a setting."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Unix:
    """The path of a Unix socket."""

    path: str

    def __str__(self) -> str:
        """Return it as it stands in a setting."""
        return f"unix:{self.path}"


Address = Inet | Unix


def parse_address(text: str, *, setting: str) -> Address:
    """Parse the address in a setting.

    Parameters
    ----------
    text : str
        ``host:port``, ``inet:host:port`` as Postfix writes it, ``[::1]:port``,
        or ``unix:/path``.
    setting : str
        Name of the variable, for errors.

    Raises
    ------
    InvalidSetting
        If it has none of these forms.

    Examples
    --------
    >>> parse_address("inet:127.0.0.1:11332", setting="X")
    Inet(host='127.0.0.1', port=11332)
    >>> parse_address("unix:/run/postbayes/milter", setting="X")
    Unix(path='/run/postbayes/milter')
    """
    kind, _, path = text.partition(":")
    if kind == "unix":
        if path.startswith("/") and len(path.encode()) <= MAX_PATH_BYTES:
            return Unix(path)
        raise InvalidSetting(
            f"{setting} has the socket {path!r}; give an absolute path of at most "
            f"{MAX_PATH_BYTES} bytes, such as unix:/run/postbayes/milter"
        )
    found = _INET.fullmatch(text)
    if found is None or int(found["port"]) > MAX_PORT:
        raise InvalidSetting(
            f"{setting} is {text!r}; give host:port, such as 127.0.0.1:11332, or "
            "unix:/path"
        )
    return Inet(found["six"] or found["host"], int(found["port"]))


# Connections that wait in the kernel while all places of a door are taken. Precedent:
# nginx's listen backlog of 511.
BACKLOG: Final = 512


@dataclass(frozen=True, slots=True)
class Listening:
    """A listening socket, with the file and lock that are released with it."""

    socket: socket.socket
    path: Path | None = None
    lock: int | None = None

    def close(self) -> None:
        """Release the address."""
        self.socket.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        if self.lock is not None:
            os.close(self.lock)


def listen(
    address: Address, *, setting: str, mode: int = 0o660, shared: bool
) -> Listening:
    """Return a listening socket.

    Parameters
    ----------
    setting : str
        Name of its variable, for errors.
    mode : int
        Permissions of a Unix socket; users with write permission may connect.
    shared : bool
        Whether other workers of this service listen on it too.

    Raises
    ------
    BlockingIOError
        If another worker holds the Unix socket.
    InvalidSetting
        If it is unavailable; the message says why.
    """
    try:
        if isinstance(address, Inet):
            return _inet(address, shared=shared)
        return _unix(address, mode=mode)
    except BlockingIOError as error:
        if shared:
            raise
        raise _taken(address, setting) from error
    except OSError as error:
        if isinstance(address, Inet) and error.errno == errno.EADDRINUSE:
            raise _taken(address, setting) from error
        msg = f"{setting}: cannot listen on {address}: {error.strerror or error}"
        if isinstance(address, Inet) and error.errno == errno.EACCES:
            msg += (
                ". A port below 1024 needs a privilege that this process lacks: "
                "choose a higher one"
            )
        raise InvalidSetting(msg) from error


@contextmanager
def reserved(address: Address, *, setting: str) -> Iterator[None]:
    """Reserve an address for the workers of one service.

    The kernel lets all processes of a user use a shared port, so a second service would
    receive part of the mail.

    Raises
    ------
    InvalidSetting
        If another service uses it, or it is unavailable.
    """
    with ExitStack() as held:
        # Two services that start at the same time both find the address free.  On Linux
        # an abstract name belongs to one process until it ends, and leaves no file.
        if sys.platform == "linux":
            name = held.enter_context(socket.socket(socket.AF_UNIX))
            try:
                name.bind(f"\0postbayes-{sha256(str(address).encode()).hexdigest()}")
            except OSError as error:
                raise _taken(address, setting) from error
        listen(address, setting=setting, shared=False).close()
        yield


def _taken(address: Address, setting: str) -> InvalidSetting:
    return InvalidSetting(
        f"{setting}: another service listens on {address}; stop that service, or set "
        "another address"
    )


def addresses_of(host: str | None, port: int) -> list[Any]:
    """Return the addresses of a host to listen on, as `socket.getaddrinfo`.

    Raises
    ------
    OSError
        If it has none; also for a name that Python cannot encode, such as a path.
    """
    try:
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except UnicodeError as error:
        raise OSError(errno.EINVAL, "not the name of a host") from error


def bind(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to all addresses of a host, which do not listen yet.

    uvicorn takes `::` for IPv6 alone with one worker, and for IPv4 as well with
    several, which get only one address of a name.

    Parameters
    ----------
    host : str
        A name or an address; empty for every address.

    Raises
    ------
    OSError
        If it has no address, or one of them is unavailable.
    """
    found = addresses_of(host or None, port)
    bound = []
    with ExitStack() as opened:
        for family, kind, protocol, _, where in found:
            each = opened.enter_context(socket.socket(family, kind, protocol))
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # Beside an address of IPv4, `::` would take that too; alone, it is for
                # both, also where the default (net.ipv6.bindv6only) is another.
                alone = len(found) == 1
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not alone)
            each.bind(where)
            bound.append(each)
        opened.pop_all()
    return bound


def _inet(address: Inet, *, shared: bool) -> Listening:
    family, _, _, _, where = addresses_of(address.host, address.port)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # After a restart the port is available at once, even if connections of the old
        # process linger.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            # The kernel distributes the connections. Only if shared: otherwise two
            # services started on one port by accident would share the mail.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(where)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return Listening(listener)


def _unix(address: Unix, *, mode: int) -> Listening:
    path = Path(address.path)
    # Two processes cannot listen on one path, and a killed process leaves its file
    # behind. The lock distinguishes these cases: the kernel releases it however its
    # holder ends.
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_stale(path)
        listener.bind(address.path)
        # Before listening, so that no connection is made under the wrong mode.
        path.chmod(mode)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        os.close(lock)
        raise
    listener.setblocking(False)
    return Listening(listener, path, lock)


def _remove_stale(path: Path) -> None:
    """Remove the socket of a process that is gone, but no other file."""
    try:
        found = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISSOCK(found.st_mode):
        path.unlink()
