"""Addresses as settings name them."""

from __future__ import annotations

import pytest

from app.doors.serving.sockets import Inet, Unix, parse_address
from app.errors import InvalidSetting


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:11332", Inet("127.0.0.1", 11332)),
        ("inet:localhost:783", Inet("localhost", 783)),
        ("[::1]:0", Inet("::1", 0)),
        ("inet:[fe80::1%eth0]:65535", Inet("fe80::1%eth0", 65535)),
        ("unix:/run/postbayes/milter", Unix("/run/postbayes/milter")),
    ],
)
def test_an_address_is_a_port_or_a_path(text, expected):
    """The forms of Postfix, and the ones that people write."""
    assert expected == parse_address(text, setting="X")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "11332",
        "localhost",
        ":11332",
        "::1:11332",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "unix:relative",
        "unix:",
        "unix:/" + "x" * 103,
        "http://127.0.0.1:80",
        "a b:80",
    ],
)
def test_what_is_no_address_is_told_with_an_example(text):
    """The sentence has the variable, the value and a form that works."""
    with pytest.raises(InvalidSetting, match=r"POSTBAYES_X .*such as"):
        parse_address(text, setting="POSTBAYES_X")


@pytest.mark.parametrize("address", [Inet("::1", 1), Inet("a", 2), Unix("/b")])
def test_an_address_is_written_as_it_is_read(address):
    """What the log says can be pasted into a setting."""
    assert address == parse_address(str(address), setting="X")
