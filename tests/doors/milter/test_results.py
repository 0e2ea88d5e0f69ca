"""Authentication-Results: whose they are, and ours as others read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.milter.codec import claims, parse_authserv_id, result
from app.errors import InvalidSetting
from app.mail.parse import parse
from tests.support.standin import classified

NAME = "mx.example.org"


@pytest.mark.parametrize(
    "value",
    [
        b" mx.example.org; spf=pass",
        b"mx.example.org 1; none",
        b"\r\n\tMX.Example.Org;",
        b" (a (nested\\)) comment) mx.example.org; none",
        b' "mx.example.org"; none',
        b' "mx.exam\\ple.org"; none',
        b"mx.example.org(comment); none",
        b"mx.example.org",
    ],
)
def test_a_field_is_known_by_its_name_however_it_is_written(value):
    """Case, quotes and comments do not matter (RFC 8601 section 2.2)."""
    assert claims(value, NAME)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ; mx.example.org",
        b" mx.example.net; x=mx.example.org",
        b" xmx.example.org; none",
        b" (mx.example.org) mx.example.net; none",
        b" (mx.example.org",
        b' "mx.example.org',
    ],
)
def test_other_servers_are_no_forgers(value):
    """Headers of other servers are kept."""
    assert not claims(value, NAME)


class Sliced(bytes):
    """A value that notes how much of it was sliced."""

    looked_at = 0

    def __getitem__(self, key):
        """Note the size of a slice."""
        found = super().__getitem__(key)
        self.looked_at += len(found)
        return found


@pytest.mark.parametrize("sign", [b"(", b" ", b"()", b"(\\)", b"(a)"])
def test_comments_without_end_are_not_read_to_it(sign):
    """A look at each sign of 1 MiB takes a third of a second; such a field is removed."""
    value = Sliced(sign * (1024 * 1024 // len(sign)))

    assert claims(value, NAME)
    assert value.looked_at < 10_000


@given(st.binary(max_size=60))
def test_any_value_is_ours_or_not(value):
    """Any value is recognised or not, without an error."""
    assert isinstance(claims(value, NAME), bool)


def test_what_we_write_is_ours():
    """Otherwise the next server of the site would let it pass."""
    assert claims(result(classified(b"money"), NAME).encode(), NAME)


def test_our_result_is_no_evidence():
    """A message from a mailbox has the header, and the scored one had not."""
    written = result(classified(b"money"), NAME)
    message = parse(f"Authentication-Results: {written}\nSubject: a\n\n".encode())

    assert ["subject"] == [header.name for header in message.headers]


@pytest.mark.parametrize("text", ["a b", "mx;", "-mx", "\N{BULLET}", "x" * 300])
def test_a_name_that_is_none_is_refused(text):
    """The error shows the form."""
    with pytest.raises(InvalidSetting, match=r"a name such as mail\.example\.org"):
        parse_authserv_id(text)


@pytest.mark.parametrize("text", [None, "", " "])
def test_a_variable_that_is_set_to_nothing_is_not_set(text):
    """An empty variable writes no results."""
    assert parse_authserv_id(text) is None
