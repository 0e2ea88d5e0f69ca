"""A trick is a feature of its own, beside the word that it hides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.extract import extract
from app.features.tricks import of_text, of_words
from app.mail.parse import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text", []),
        ("Größe und Maß", []),
        ("vi\u200bagra", ["trick:invisible"]),
        ("pay\u202eplay", ["trick:bidi"]),
        ("p\u0430yp\u0430l!", ["trick:mixed", "paypal"]),
        ("привет мир", []),
        ("V i a g r a", ["trick:spaced", "viagra"]),
        ("v.i.a.g.r.a now", ["trick:spaced", "viagra"]),
        ("F - R - E - E", []),
        ("F-R-E-E", ["trick:spaced", "free"]),
        ("1 2 3 4 5", []),
        ("a b c", []),
    ],
)
def test_what_is_done_to_words_is_seen(text, expected):
    """Invisible and misordered characters, mixed scripts, spaced-out words."""
    assert expected == of_text(text)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("hello", []),
        ("strength", []),
        ("https", []),
        ("xkqzv", ["random:1"]),
        ("a1xkqzvfptq", ["random:2"]),
        ("x" * 40, ["random:8"]),
    ],
)
def test_random_words_have_a_shape(word, expected):
    """Five consonants in a row, and the length in steps of four."""
    assert expected == of_words([word])


@given(st.text(max_size=200))
def test_any_text_is_read_for_tricks(text):
    """Reading is total, and no feature is empty."""
    assert all(of_text(text))


def test_found_tricks_are_bounded():
    """A text of nothing but tricks has as many features as any other."""
    assert 2 * 100 == len(of_text("V i a g r a, " * 500))
    assert 1 + 100 == len(of_text("p\u0430y " * 500))


def test_a_trick_in_the_subject_counts():
    """Subject and texts are read alike."""
    names = extract(parse(b"Subject: F-R-E-E\n\nhi")).names["words"]

    assert {"trick:spaced", "free"} <= set(names)
