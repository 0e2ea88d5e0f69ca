"""Addresses are features by shape and domain, and by how they contradict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.headers import address_words
from app.features.tokens import words_of
from app.mail.message import Header


def words(**headers):
    """Return the features of a message with these headers."""
    given_headers = tuple(
        Header(name.replace("_", "-").rstrip("-"), value)
        for name, value in headers.items()
    )
    return words_of(address_words(given_headers))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, []),
        ({"from_": "nobody"}, []),
        ({"from_": "Bob <bob99@example.com>"}, ["from:shape:a9"]),
        ({"to": "bob99@mail.example.com"}, ["to:.example.com"]),
        (
            {"from_": "a@x.example", "reply_to": "b@x.example"},
            ["from:shape:a", "reply-to:shape:a"],
        ),
        (
            {"from_": "a@x.example", "reply_to": "a@y.example"},
            ["from:shape:a", "reply-to:shape:a", "reply-to:(other-domain)"],
        ),
        (
            {"from_": '"pay@bank.example" <a@x.example>'},
            ["from:shape:a", "from:shape:a", "from:(other-address-shown)"],
        ),
        ({"message_id": "<20020101.AB12@x.example>"}, ["message-id:shape:9.a9"]),
        ({"subject": "a@mail.x.example", "x_sender": "a@mail.x.example"}, []),
    ],
)
def test_addresses_are_described(headers, expected):
    """Runs of letters and digits are one each; domains above a host are named."""
    assert expected == words(**headers)


def test_addresses_of_a_header_are_bounded():
    """A header with ten thousand addresses is read in part."""
    found = words(to=", ".join(f"u{n}@mail.example.com" for n in range(10_000)))

    assert ["to:.example.com"] * 10 == found


@given(st.text(max_size=100), st.text(max_size=100))
def test_any_headers_have_features(sender, reply):
    """Reading addresses is total."""
    assert all(":" in word for word in words(from_=sender, reply_to=reply))


def test_headers_of_one_name_are_bounded_together():
    """A thousand headers of ten addresses each are read in part."""
    many = (Header("cc", ", ".join(["a@b.example.com"] * 10)),) * 1_000

    assert ["cc:.example.com"] * 10 == words_of(address_words(many))
