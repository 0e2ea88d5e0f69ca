"""Where does a door listen? A TCP port or a Unix socket, as one setting names it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from app.errors import InvalidSetting

MAX_PORT: Final = 65_535

# sun_path holds 108 bytes on Linux, 104 on the BSDs, the NUL at its end included.
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
    """Return the address that a setting names.

    Parameters
    ----------
    text : str
        ``host:port``, ``inet:host:port`` as Postfix writes it, ``[::1]:port``,
        or ``unix:/path``.
    setting : str
        The variable, for the sentence.

    Raises
    ------
    InvalidSetting
        If it is none of these.

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
        msg = (
            f"{setting} names the socket {path!r}; a socket is an absolute path of at "
            f"most {MAX_PATH_BYTES} bytes, such as unix:/run/postbayes/milter"
        )
        raise InvalidSetting(msg)
    found = _INET.fullmatch(text)
    if found is None or int(found["port"]) > MAX_PORT:
        msg = (
            f"{setting} is {text!r}; an address is host:port, such as "
            "127.0.0.1:11332, or unix:/path"
        )
        raise InvalidSetting(msg)
    return Inet(found["six"] or found["host"], int(found["port"]))
