"""Keys: when one counts, and what it may do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.access.rights import (
    LOCAL,
    AccessKey,
    Keyring,
    Principal,
    Right,
    check_access_name,
    digest_of,
    text_of,
)
from app.errors import Forbidden, InvalidInput
from app.services.access import made_key

TEXT = text_of(bytes(32))
MADE = datetime(2026, 3, 1, tzinfo=UTC)
KEY = AccessKey(
    name="mx1", digest=digest_of(TEXT), rights=frozenset({Right.TEACH}), created_at=MADE
)


def found(key, text=TEXT, *, host="192.0.2.1", time=MADE):
    """Return the name of who asks with a text."""
    principal = Keyring([key]).find(text, host=host, time=time.timestamp())
    return None if principal is None else principal.name


def test_a_key_counts_until_it_is_revoked_or_expires():
    """A key works until the second in which it is revoked or expires."""
    expires = MADE + timedelta(days=1)
    mortal = replace(KEY, expires_at=expires)

    assert "key:mx1" == found(KEY)
    assert found(replace(KEY, revoked_at=MADE)) is None
    assert "key:mx1" == found(mortal, time=expires - timedelta(seconds=1))
    assert found(mortal, time=expires) is None


def test_a_key_of_networks_counts_there_alone():
    """A key limited to networks works from these, and from a local Unix socket."""
    bound = replace(KEY, networks=("192.0.2.0/24",))

    assert ["key:mx1", None, "key:mx1"] == [
        found(bound, host=host) for host in ("192.0.2.9", "198.51.100.1", None)
    ]


@given(st.text())
def test_any_other_text_is_no_key(text):
    """Any text that is not a stored key is refused, even one without an encoding."""
    assert (text == TEXT) == (found(KEY, text) is not None)


@given(st.binary(min_size=32, max_size=32))
def test_the_text_of_a_key_says_what_it_is(secret):
    """A key is a prefix and 43 characters that need no escape in a header."""
    text = text_of(secret)

    assert 46 == len(text)
    assert text.startswith("pb_")
    assert text.isascii()
    assert set("=+/ ").isdisjoint(text)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a:b", "x" * 65, "é", "a\n"])
def test_a_name_is_a_word(name):
    """The name of a key is one word, because the ledger shows it after `key:`."""
    with pytest.raises(
        InvalidInput, match="a key must have a name of at most 64 ASCII letters"
    ):
        check_access_name(name)


def test_a_key_has_a_right():
    """Without one, it is refused with the list of rights."""
    with pytest.raises(
        InvalidInput, match="classify, teach, read, lists, manage, replicate; got none"
    ):
        made_key("mx1", [])


def test_a_principal_is_limited_to_its_profiles_and_labels():
    """The error names the profiles and labels that the principal may use."""
    ann = Principal(
        "key:ann", frozenset(), frozenset({"ann"}), labels=frozenset({"spam"})
    )

    assert ("ann", "spam") == (ann.require("ann"), ann.require_label("spam"))
    with pytest.raises(Forbidden, match=r"the profile of the request; .*: ann$"):
        ann.require("bob")
    with pytest.raises(Forbidden, match=r"may not teach 'ham'; its labels: spam$"):
        ann.require_label("ham")
    with pytest.raises(Forbidden, match="limited to some profiles"):
        ann.require_all("everything")
    LOCAL.require_all("everything")
    assert "ann" == ann.only_profile
    assert LOCAL.only_profile is None
    assert replace(ann, profiles=frozenset({"@example.org"})).only_profile is None
