"""Teachers: clients that may teach through a door without users, and their names.

Over HTTP everybody may teach; there this says whose word on a source is taken.
"""

from __future__ import annotations

import hmac
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from app.doors.serving.listener import network
from app.errors import InvalidSetting
from app.ledger.entry import MAX_SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable


class Teachers:
    """Decides which clients may teach, and see statistics.

    Parameters
    ----------
    networks : iterable of str
        Addresses and networks of clients that need no password.
    password : str or None
        The password of other clients; None admits none.

    Raises
    ------
    InvalidSetting
        If a network cannot be read.

    Examples
    --------
    >>> teachers = Teachers(["127.0.0.0/8"], password=None)
    >>> teachers.may("127.0.0.1"), teachers.may("192.0.2.1"), teachers.may(None)
    (True, False, True)
    """

    def __init__(self, networks: Iterable[str], *, password: str | None) -> None:
        self._networks = tuple(_network(text) for text in networks)
        # An empty variable is not a password that is empty.
        self._password = password or None

    def may(self, host: str | None) -> bool:
        """Return whether a client at an address may teach; None is a local socket.

        A client that may write to a Unix socket may do everything that the door can.
        """
        if host is None:
            return True
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return False
        # How a socket for both families shows IPv4.
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)

    def source(self, name: str, host: str | None) -> str:
        """Return the source of what a client teaches.

        The name that it gives, where it is one of the teachers, such as the mail server
        that knows its users; else with its address, which it cannot choose.

        Examples
        --------
        >>> teachers = Teachers(["127.0.0.0/8"], password=None)
        >>> [teachers.source("ann", host) for host in ("127.0.0.1", "192.0.2.1", None)]
        ['ann', '192.0.2.1 ann', 'ann']
        """
        if host is None or self.may(host):
            return name
        return f"{network(host)} {name}"[:MAX_SOURCE]

    def knows(self, password: str | None) -> bool:
        """Return whether a password is right, in constant time."""
        if self._password is None or password is None:
            return False
        return hmac.compare_digest(self._password.encode(), password.encode())


# Asked at each request, and made anew where the settings were read again.
@lru_cache(maxsize=8)
def teachers(networks: tuple[str, ...], password: str | None = None) -> Teachers:
    """Return the teachers that settings name.

    Raises
    ------
    InvalidSetting
        If a network cannot be read.
    """
    return Teachers(networks, password=password)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        msg = (
            f"POSTBAYES_TEACH_FROM: {text!r} is not an address or a network; write it "
            "as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32"
        )
        raise InvalidSetting(msg) from error


def source(door: str, user: str) -> str:
    r"""Return the source in the ledger of a user who teaches through a door.

    Examples
    --------
    >>> source("spamd", "ann@example.org"), source("spamd", "\0" + "x" * 100)[:10]
    ('spamd:ann@example.org', 'spamd:xxxx')
    """
    who = "".join(c for c in user if c.isprintable())
    return f"{door}:{who}"[:MAX_SOURCE] if who else door
