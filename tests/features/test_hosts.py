"""A host beyond ASCII is the same in both of its spellings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.words import decoded, is_lookalike

LETTERS = st.characters(categories=["Ll", "Lo"], min_codepoint=0xA0)


@given(st.text(LETTERS, min_size=1, max_size=10))
def test_what_is_encoded_is_decoded(label):
    """Punycode of a label is the label, in one case and form."""
    encoded = "xn--" + label.encode("punycode").decode("ascii") + ".example"

    assert decoded(label + ".example") == decoded(encoded)


@given(st.text(max_size=80))
def test_any_name_is_decoded(name):
    """Whatever a stranger writes for a host, and what it is can be written."""
    decoded(name).encode()
    decoded("xn--" + name).encode()


@pytest.mark.parametrize(
    "host",
    [
        "xn--.example",
        "xn--99999.example",
        "xn--abc-.example",
        "xn--0000.example",
        "xn--" + "a" * 60 + ".example",
        "xn--" + "ab9" * 90,
        "example",
        "",
    ],
)
def test_what_stands_for_nothing_stays(host):
    """No punycode, too long for a label, or nothing beyond ASCII."""
    assert host == decoded(host)


def test_no_label_stands_for_half_a_character():
    """Punycode can encode a lone surrogate, which no text can hold."""
    label = "xn--" + "\ud800".encode("punycode").decode("ascii")

    assert label == decoded(label)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("p\u0430ypal.example", True),
        ("\u0440\u0430\u0443\u0440\u0430l.example", True),
        ("\u0441\u043e\u0440\u0435.example", True),
        ("\u043c\u043e\u0440\u0435.\u0440\u0444", False),
        ("\u043f\u0440\u0438\u043c\u0435\u0440.example", False),
        ("b\u00fccher.example", False),
        ("example.com", False),
        ("", False),
    ],
)
def test_a_host_that_looks_like_another_is_known(host, expected):
    """Scripts mixed within a label, or nothing but letters that look Latin."""
    assert expected == is_lookalike(host)


def test_a_long_run_of_combining_marks_in_a_host_is_normalised_in_parts():
    """A message may have many such hosts, each of which takes quadratic time."""
    assert "\u0316" * 40 not in decoded("a" + "\u0301\u0316" * 500)
