"""Words of the headers are tagged by their header."""

from __future__ import annotations

import pytest

from app.features.headers import HEADERS, MOST, header_words
from app.features.tokens import words_of
from app.mail.message import Header, Message
from app.mail.parse import parse


def test_header_words_are_tagged():
    """A header that has no rule gives no words, and the text none either."""
    message = parse(b"Subject: Big Sale\nFrom: Bob\nX-List: secret\n\nhello")

    assert ["subject:big", "subject:sale", "from:bob"] == words_of(
        header_words(message)
    )


def test_of_a_hop_hosts_and_networks_are_features():
    """The date of a hop is not; the network of an address is."""
    header = Header(
        "received", "from mx.example (192.0.2.17) by b; Mon, 1 Jan 2024 10:00:00 +0100"
    )

    assert [
        "received:from", "received:mx.example", "received:192.0.2.17", "received:by", "received:b", "received:192.0.2",
    ] == words_of(header_words(Message(headers=(header,))))  # fmt: skip


def test_of_a_hop_without_a_date_all_is_read():
    """Not every server writes one."""
    assert ["received:by", "received:b"] == words_of(
        header_words(Message(headers=(Header("received", "by b"),)))
    )


def test_of_a_date_the_zone_is_a_feature():
    """Day and time do not come again."""
    header = Header("date", "Mon, 01 Jan 2024 10:00:00 -0800 (PST)")

    assert ["date:-0800", "date:(pst)"] == words_of(
        header_words(Message(headers=(header,)))
    )


@pytest.mark.parametrize("name", sorted(HEADERS))
def test_no_header_makes_a_word_without_its_tag(name):
    """Tags keep the headers apart from each other."""
    header = Header(name, "one two three four five six seven")
    found = words_of(header_words(Message(headers=(header,))))

    assert found
    assert all(word.startswith(name + ":") for word in found)


@pytest.mark.parametrize("name", sorted(HEADERS))
def test_what_a_sender_adds_below_is_not_read(name):
    """Servers write at the top, and mail programs show the first of each name."""
    most = MOST.get(name, 1)
    added = [Header(name, f"a b c d e zone{number}@x") for number in range(most + 2)]
    found = " ".join(words_of(header_words(Message(headers=tuple(added)))))

    assert f"zone{most - 1}" in found
    assert f"zone{most}" not in found


def test_verdicts_of_other_filters_are_no_features():
    """They leak labels."""
    raw = b"X-Spam-Flag: YES\nX-Spam-Status: Yes, score=20\nSubject: a\n\nb"

    assert ["subject:a"] == words_of(header_words(parse(raw)))
