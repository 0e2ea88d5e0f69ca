"""Who may teach through a door whose protocol knows no users."""

from __future__ import annotations

import pytest

from app.doors.mta.teachers import Teachers, source
from app.errors import InvalidSetting

TEACHERS = Teachers(["127.0.0.0/8", "::1", "2001:db8::/32"], password="sesame")  # noqa: S106


@pytest.mark.parametrize(
    ("may", "host"),
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
def test_the_networks_may_and_nobody_else(may, host):
    """By address; whoever may write to a Unix socket may."""
    assert may == TEACHERS.may(host)


@pytest.mark.parametrize(
    ("knows", "password"),
    [(True, "sesame"), (False, "Sesame"), (False, ""), (False, None), (False, "é")],
)
def test_the_password_is_the_whole_word(knows, password):
    """Part of it, or none, is not it."""
    assert knows == TEACHERS.knows(password)


@pytest.mark.parametrize("password", ["", None])
def test_without_a_password_nobody_knows_it(password):
    """An empty header is no key to a service that has none set."""
    assert not Teachers([], password=None).knows(password)
    assert not Teachers([], password="").knows(password)


def test_what_is_no_network_is_told():
    """The sentence shows how one is written."""
    with pytest.raises(InvalidSetting, match=r"'10.0.0.0/33' is not an address"):
        Teachers(["10.0.0.0/33"], password=None)


@pytest.mark.parametrize(
    ("kept", "user"),
    [("spamd", ""), ("spamd:ann", "a\nnn\0"), ("spamd:" + "x" * 58, "x" * 100)],
)
def test_the_ledger_keeps_who_taught(kept, user):
    """In one printable line of 64 characters."""
    assert kept == source("spamd", user)


def test_the_source_of_others_begins_with_their_address():
    """Nobody can teach under the name of another, or of a thousand others."""
    teachers = Teachers(["127.0.0.0/8"], password=None)
    named = [
        teachers.source("ann", host)
        for host in ("127.0.0.1", None, "192.0.2.1", "2001:db8:1:2:3::9", "x")
    ]

    assert ["ann", "ann", "192.0.2.1 ann", "2001:db8:1:2 ann", "x ann"] == named
    assert 64 == len(teachers.source("a" * 64, "192.0.2.1"))
