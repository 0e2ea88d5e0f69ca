"""Networks: addresses of clients, and the client behind a proxy."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    IpNetwork = IPv4Network | IPv6Network

LOOPBACK: Final = ("127.0.0.0/8", "::1")
# An IPv6 client has a /64 network to itself (RFC 6177, RFC 7934), with any number of
# addresses.
_PREFIX: Final = 64
# Cached, because clients repeat their addresses: without it a request takes 12 us more
# over IPv4, and up to 60 over IPv6, where a health check takes 40.
_REMEMBERED: Final = 4096


class Networks:
    """A set of addresses and networks.

    Parameters
    ----------
    texts : iterable of str
        Such as `192.0.2.7`, `192.0.2.0/24` or `2001:db8::/32`.
    of : str
        The setting, for errors.

    Raises
    ------
    InvalidSetting
        If one is invalid.

    Examples
    --------
    >>> networks = Networks(LOOPBACK, of="POSTBAYES_KEYLESS_FROM")
    >>> [networks.holds(host) for host in ("127.0.0.1", "::ffff:127.0.0.1", "::2")]
    [True, True, False]
    >>> networks.holds(None)
    True
    """

    def __init__(self, texts: Iterable[str], *, of: str) -> None:
        self._networks = tuple(_network(text, of) for text in texts)
        self._known = lru_cache(_REMEMBERED)(self._has)

    def __bool__(self) -> bool:
        """Return whether the set is not empty."""
        return bool(self._networks)

    def holds(self, host: str | None) -> bool:
        """Return whether a client is in one of them; None is a Unix socket.

        A client of a Unix socket is on this machine.
        """
        return host is None or self._known(host)

    def _has(self, host: str) -> bool:
        address = address_of(host)
        return address is not None and any(
            ip_address(address) in each for each in self._networks
        )


def address_of(text: str) -> str | None:
    """Return the IP address in a text; None if there is none.

    Examples
    --------
    >>> address_of("::FFFF:192.0.2.7"), address_of("fe80::1%eth0"), address_of("nobody")
    ('192.0.2.7', 'fe80::1', None)
    >>> address_of("192.0.2.7:4711"), address_of("[2001:DB8::1]:4711")
    ('192.0.2.7', '2001:db8::1')
    """
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    # The form of IPv4 addresses on a socket for both families.
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


@lru_cache(_REMEMBERED)
def network(address: str) -> str:
    """Return the identity of a client: an IPv4 address, or an IPv6 network.

    Examples
    --------
    >>> network("192.0.2.7"), network("2001:db8:1:2:3::9"), network("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8:1:2::', '192.0.2.7')
    >>> network("2001:db8::a:b:c:d"), network("2001:db8::9"), network("fe80::1%eth0")
    ('2001:db8::', '2001:db8::', 'fe80::')
    """
    found = address_of(address)
    if found is None or ":" not in found:
        return found or address
    return str(ip_network((found, _PREFIX), strict=False).network_address)


def client_behind(proxies: Networks, chain: Sequence[str]) -> str | None:
    """Return the client behind a configured proxy; None if the chain is invalid.

    Parameters
    ----------
    chain : sequence of str
        The addresses of `X-Forwarded-For`, in order: each proxy appends the address of
        its client.  Addresses before the last unknown one may be forged.

    Examples
    --------
    >>> proxies = Networks(["10.0.0.0/8"], of="POSTBAYES_PROXIES")
    >>> client_behind(proxies, ["127.0.0.1", "198.51.100.9", "10.0.0.2"])
    '198.51.100.9'
    >>> client_behind(proxies, ["10.0.0.3"])
    '10.0.0.3'
    >>> client_behind(proxies, ["198.51.100.9", "unknown"]) is None
    True
    """
    address = None
    for text in reversed(chain):
        address = address_of(text)
        if address is None or not proxies.holds(address):
            break
    return address


def _network(text: str, of: str) -> IpNetwork:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise InvalidSetting(
            f"{of}: {text!r} is not an address or a network; write it "
            "as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32"
        ) from error
