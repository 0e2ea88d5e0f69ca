"""Words are found in any script, and tagged by where they stand."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features import words as module
from app.features.words import HEADERS, MAX_WORD_CHARS, of_name, of_text, words
from app.mail.message import Header, Link, Message, Text
from app.mail.parse import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Money, NOW!!!", ["money", ",", "now!!!"]),
        ("don't opt-out 100% $50", ["don't", "opt-out", "100%", "$50"]),
        ("a.b.c ends. 3.14", ["a.b.c", "ends", ".", "3.14", "a", "b", "c", "3", "14"]),
        (":-) >.< ...", [":-)", ">.<", "..."]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("\uff26\uff32\uff25\uff25", ["free"]),
        ("vi\u200bagra vi\u00adagra", ["viagra", "viagra"]),
        ("Größe.Maß", ["grösse.mass", "grösse", "mass"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("مَرحبا", ["مَرحبا"]),
        ("", []),
    ],
)
def test_text_is_split_into_words(text, expected):
    """Case and width are folded; punctuation in and around words is kept."""
    assert expected == of_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("日本語", ["日本", "本語"]),
        ("字", ["字"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("무료", ["무료"]),
        ("buy漢字now", ["buy", "漢字", "now"]),
        ("カタカナ", ["カタ", "タカ", "カナ"]),
    ],
)
def test_scripts_without_blanks_are_split_into_pairs(text, expected):
    """CJK and Thai runs are pairs of characters."""
    assert expected == of_text(text) == of_name(text)


def test_long_words_are_bounded():
    """A word of any length is a feature of a bounded one."""
    assert ["a" * MAX_WORD_CHARS] == of_text("a" * MAX_WORD_CHARS)
    assert ["long:aaaa"] == of_text("a" * (MAX_WORD_CHARS + 1))
    assert ["long:aaaa", "long:aaaa", "com"] == of_text("a" * 100 + ".com")


def test_names_are_whole():
    """Hosts are not taken apart, and punctuation is no feature."""
    assert ["bob", "b.ob", "mail.example.com"] == of_name("Bob <b.ob@mail.example.com>")


@given(st.text(st.characters(max_codepoint=127), max_size=80))
def test_ascii_has_no_rules_of_its_own(text):
    """The expressions for ASCII, which are faster, find what the others find."""
    folded = text.lower()

    assert module._ANY_TOKEN.findall(folded) == module._ASCII_TOKEN.findall(folded)  # noqa: SLF001
    assert module._ANY_WORD.findall(folded) == module._ASCII_WORD.findall(folded)  # noqa: SLF001


@given(st.text(max_size=80))
def test_any_text_has_words(text):
    """Splitting is total; words have no blanks, are bounded and not empty."""
    for word in of_text(text) + of_name(text):
        assert 1 <= len(word) <= MAX_WORD_CHARS
        assert not re.search(r"\s", word)


@given(st.text(max_size=80))
def test_no_word_looks_like_a_tagged_one(text):
    """A colon never follows a letter inside a word of the text."""
    for word in of_text(text):
        assert not re.match(r"[a-z-]+:", word.removeprefix("long:"))


def test_words_are_tagged_by_their_place():
    """Words of the body are plain, and those of the subject are both."""
    message = Message(
        headers=(
            Header("subject", "Big Sale"),
            Header("from", "Bob"),
            Header("x-list", "secret"),
        ),
        texts=(
            Text("plain", "hello"),
            Text("alternative", "there"),
            Text("alt", "logo"),
            Text("attached", "fwd"),
        ),
        links=(Link("http://example.com/buy", "a", "here"),),
    )

    assert [
        "subject:big", "subject:sale", "big", "sale", "from:bob",
        "hello", "there", "alt:logo", "fwd",
        "link:http", "link:example.com", "link:buy",
    ] == words(message)  # fmt: skip


def test_of_a_hop_hosts_and_networks_are_features():
    """The date of a hop is not; the network of an address is."""
    header = Header(
        "received", "from mx.example (192.0.2.17) by b; Mon, 1 Jan 2024 10:00:00 +0100"
    )

    assert [
        "received:from", "received:mx.example", "received:192.0.2.17", "received:by", "received:b", "received:192.0.2",
    ] == words(Message(headers=(header,)))  # fmt: skip


def test_of_a_hop_without_a_date_all_is_read():
    """Not every server writes one."""
    assert ["received:by", "received:b"] == words(
        Message(headers=(Header("received", "by b"),))
    )


def test_of_a_date_the_zone_is_a_feature():
    """Day and time do not come again."""
    header = Header("date", "Mon, 01 Jan 2024 10:00:00 -0800 (PST)")

    assert ["date:-0800", "date:(pst)"] == words(Message(headers=(header,)))


@pytest.mark.parametrize("name", sorted(HEADERS))
def test_no_header_makes_a_word_without_its_tag(name):
    """Only the subject is text too."""
    found = words(Message(headers=(Header(name, "one two three four five six seven"),)))

    assert found
    assert name == "subject" or all(word.startswith(name + ":") for word in found)


def test_verdicts_of_other_filters_are_no_features():
    """They leak labels."""
    raw = b"X-Spam-Flag: YES\nX-Spam-Status: Yes, score=20\nSubject: a\n\nb"

    assert ["subject:a", "a", "b"] == words(parse(raw))
