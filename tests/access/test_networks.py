"""Which clients are of a network, and who is behind a proxy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.access.networks import Networks, address_of, client_behind
from app.errors import InvalidSetting

NETWORKS = Networks(["127.0.0.0/8", "::1", "2001:db8::/32"], of="X")
PROXIES = Networks(["10.0.0.0/8"], of="X")


@pytest.mark.parametrize(
    ("inside", "host"),
    [
        (True, "127.0.0.1"),
        (True, "127.255.0.9"),
        (True, "::1"),
        (True, "::ffff:127.0.0.1"),
        (True, "2001:db8::7%eth0"),
        (True, None),
        (False, "192.0.2.1"),
        (False, "::ffff:192.0.2.1"),
        (False, "::2"),
        (False, "localhost"),
        (False, ""),
    ],
)
def test_the_networks_hold_their_clients_and_nobody_else(inside, host):
    """A network contains its clients and no others; a Unix socket is local."""
    assert [inside, inside] == [NETWORKS.holds(host), NETWORKS.holds(host)]


def test_what_is_no_network_is_reported():
    """The error for an invalid network shows how to write one."""
    with pytest.raises(InvalidSetting, match=r"X: '10.0.0.0/33' is not an address"):
        Networks(["10.0.0.0/33"], of="X")


def test_clients_are_remembered_up_to_a_bound():
    """The memory for clients is limited, however many addresses connect."""
    networks = Networks(["10.0.0.0/8"], of="X")
    for number in range(10_000):
        networks.holds(f"192.0.{number // 256}.{number % 256}")

    assert networks._known.cache_info().currsize <= 4096  # noqa: SLF001
    assert networks.holds("10.1.2.3")


@given(st.text())
def test_any_text_is_an_address_or_none(text):
    """Any text is read as an address, or as none."""
    address = address_of(text)

    assert address is None or address == address_of(address)


@given(st.lists(st.ip_addresses().map(str)), st.lists(st.sampled_from(["10.0.0.9"])))
def test_what_a_client_invents_is_left_of_the_proxies(invented, hops):
    """The last address that is not a proxy is the client; earlier ones are ignored."""
    chain = [*invented, "198.51.100.9", *hops]

    assert "198.51.100.9" == client_behind(PROXIES, chain)


def test_a_chain_that_ends_with_no_address_names_nobody():
    """A chain that ends with an invalid or empty address names no client."""
    assert client_behind(PROXIES, ["198.51.100.9", "unknown"]) is None
    assert client_behind(PROXIES, []) is None
