"""Site: the Host and Origin that a request may name.

A browser sends what any page asks it to, also to services that only its machine or
network can reach.  Two headers tell such requests:

- `Host` names the service as the page knows it.  A page whose own name was made to
  resolve to this machine (DNS rebinding) counts as the same site for the browser, which
  then lets it read as well; only the name gives it away.
- `Origin` names the page, in every request of a page that may change something (Fetch
  standard, section 3.1).  Clients that are no browsers send none.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from app.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# RFC 1035 section 2.3.4 has 255 octets for a name; a port has six more.
_LONGEST: Final = 262


class Site:
    """The names of a service, and the requests that are made under them.

    Parameters
    ----------
    names : iterable of str
        Names of the service beside its IP addresses, `localhost` and names without a
        dot, which no page on the internet can have.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.lower().rstrip(".") for name in names}

    def check(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Raise if a request comes from the page of another site.

        Parameters
        ----------
        method : str
            Of the request.
        headers : iterable of (bytes, bytes)
            Of the request; their names in lower case.

        Raises
        ------
        Forbidden
            If its host is none of the names, or its origin another one than the host.
        """
        host: bytes | None = None
        origin: bytes | None = None
        for name, value in headers:
            if name == b"host":
                host = value
                if len(host) > _LONGEST or not self._knows(host):
                    msg = (
                        f"the service is not known as {_shown(host)!r}; ask it under "
                        "its address, or add the name to POSTBAYES_HOST_NAMES"
                    )
                    raise Forbidden(msg)
            elif name == b"origin":
                origin = value
        if origin is not None and method not in SAFE_METHODS:
            page = _shown(origin).partition("://")[2]
            if host is None or page.lower() != _shown(host).lower():
                msg = (
                    f"a page of {_shown(origin)!r} may not change anything here; a "
                    "proxy before this service has to pass Host on as it is"
                )
                raise Forbidden(msg)

    def _knows(self, host: bytes) -> bool:
        text = _shown(host).lower()
        if text.startswith("["):
            address, _, port = text[1:].partition("]")
            return _is_address(address) and port[:1] in {"", ":"}
        name = text.partition(":")[0].rstrip(".")
        return (
            "." not in name
            or name in self._names
            or name.endswith(".localhost")
            or _is_address(name)
        )


def _shown(value: bytes) -> str:
    return value[:_LONGEST].decode("latin-1")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
