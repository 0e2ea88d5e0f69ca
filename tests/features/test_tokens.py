"""Words are found in any script."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.tokens import MAX_WORD_CHARS, normalized, of_name, of_text


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
        ("v\u034fi\ufe0fa\u2066g\u200br\U000e0101a", ["viagra"]),
        (
            "buy\u115fit\u1160now\u3164or\uffa0never",
            ["buy", "it", "now", "or", "never"],
        ),
        ("\u2764\ufe0f love", ["\u2764", "love"]),
        ("Größe.Maß", ["grösse.mass", "grösse", "mass"]),
        ("हिन्दी में।", ["हिन्दी", "में", "।"]),
        (
            "İzmir IŞIK I\u0307zmir \u0131ş\u0131k izmir",
            [*["izmir", "işik"] * 2, "izmir"],
        ),
        ("مَرحبا", ["مَرحبا"]),
        (
            "V\u0336i\u0337a\u20e0g\u1ab0r\u0330\u033da\u0338 зи\u0301мний",
            ["viagra", "зимний"],
        ),
        ("cafe\u0301 \u1ecd\u0300 й", ["café", "\u1ecd", "й"]),
        ("\ua730\u0280\u1d07\u1d07 🅵🅁🄴🅴 🅕🅡🅔🅔", ["free"] * 3),
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


def test_a_long_run_of_combining_marks_is_normalised_in_parts():
    """Sorting all marks behind a letter, as Unicode does, takes quadratic time."""
    found = normalized("a" + "\u0301\u0316" * 500)

    assert "\u0316" * 40 not in found
    assert "\xe1\u0316" == normalized("a\u0316\u0301")


def test_names_are_whole():
    """Hosts are not taken apart, and punctuation is no feature."""
    assert ["bob", "b.ob", "mail.example.com"] == of_name("Bob <b.ob@mail.example.com>")


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
