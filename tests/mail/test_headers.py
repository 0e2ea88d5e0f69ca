"""Headers are decoded whatever was done to them."""

from __future__ import annotations

import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.mail.headers import (
    ascii_domain,
    decode_value,
    is_known,
    is_verdict,
    normal_domain,
    parameters,
)
from app.mail.limits import MAX_HEADER_CHARS

RAW = st.text(
    st.characters(max_codepoint=127)
    | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF),
    max_size=60,
)
WORDS = st.lists(
    st.sampled_from(
        [
            "=?utf-8?q?",
            "=?gb2312?B?",
            "?=",
            "=C3",
            "w7w",
            "=",
            "?",
            " ",
            "\n ",
            "a",
            "=?x-none*en?Q?",
            "\udcff",
        ]
    ),
    max_size=20,
).map("".join)


@given(RAW | WORDS)
def test_any_value_is_decoded(raw):
    """Decoding is total, and the result is one line of encodable text."""
    value, _ = decode_value(raw)

    assert " ".join(value.split()) == value
    assert value == value.encode().decode()


def test_japanese_escapes_are_decoded():
    """Old mail programs of Japan send them as they are."""
    raw = "\x1b$B@A5a=q\x1b(B 10"

    assert ("請求書 10", frozenset({"header-8bit"})) == decode_value(raw)


@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Z"]),
        min_size=1,
        max_size=20,
    )
)
def test_encoded_words_are_read_back(text):
    """An encoded word is what was encoded."""
    encoded = base64.b64encode(text.encode()).decode()

    assert (text, frozenset()) == decode_value(f"=?utf-8?B?{encoded}?=")


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("plain", "plain"),
        ("folded\n  value", "folded value"),
        ("=?iso-8859-1?Q?Gr=FC=DFe_an?= alle", "Grüße an alle"),
        ("a =?utf-8?q?b?= =?utf-8?q?c?= d", "a bc d"),
        ("=?utf-8?q?a?= b =?utf-8?q?c?=", "a b c"),
        ("=?utf-8?q?a?= =?iso-8859-1?q?=FC?=", "aü"),
        ("=?utf-8?b?w7w=?=\n =?utf-8?b?w5/D?= =?utf-8?b?vA==?=", "üßü"),
        ("=?utf-8*de?q?a?=", "a"),
        ('"=?utf-8?q?quoted?="', '"quoted"'),
    ],
)
def test_encoded_words_are_decoded(raw, value):
    """RFC 2047, with characters cut in two and words within quotes."""
    assert (value, frozenset()) == decode_value(raw)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("=?utf-8?q?with blanks?=", "with blanks"),
        ("=?utf-8?q?cut off", "cut off"),
        ("=?utf-8?b?SGVsbG8?=", "Hello"),
        ("=?utf-8?b?SGVsbG8x1?=", "SGVsbG8x1"),
        ("=?utf-8?x?none?=", "=?utf-8?x?none?="),
        ("=? no word", "=? no word"),
    ],
)
def test_broken_encoded_words_are_decoded_as_far_as_they_go(raw, value):
    """Mail programs show them, so we read them, and record the defect."""
    assert (value, frozenset({"header-encoded-word"})) == decode_value(raw)


def test_raw_bytes_are_decoded():
    """Bytes above 127 are tried as UTF-8, then as the charset of the body."""
    raw = "Grüße".encode().decode("ascii", "surrogateescape")

    assert ("Grüße", frozenset({"header-8bit"})) == decode_value(raw)


def test_a_long_value_is_cut():
    """The limit holds before anything is decoded."""
    value, defects = decode_value("x" * (MAX_HEADER_CHARS + 1))

    assert MAX_HEADER_CHARS == len(value)
    assert {"header-too-long"} == defects


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Text/HTML; Charset=UTF-8", ("text/html", {"charset": "UTF-8"})),
        ('a/b; name="x; y=\\"z\\""', ("a/b", {"name": 'x; y="z"'})),
        ("a/b; name=one; name=two", ("a/b", {"name": "one"})),
        ("a/b; name=with blanks ;x=y", ("a/b", {"name": "with blanks", "x": "y"})),
        ('a/b; name="open', ("a/b", {"name": "open"})),
        ("a/b; broken; =x; c=d", ("a/b", {"c": "d"})),
        ("a/b; name==?utf-8?q?=C3=BC?=", ("a/b", {"name": "ü"})),
        ("a/b; filename*=utf-8'en'%C3%BC.txt", ("a/b", {"filename": "ü.txt"})),
        ("a/b; filename*=no-quotes%21", ("a/b", {"filename": "no-quotes!"})),
        ("a/b; n*1=b; n*0*=''%41; n*2*=%43", ("a/b", {"n": "AbC"})),
        # What is no text for people is what it is, to the last blank.
        ('a/b; boundary="=?utf-8?q?c?="', ("a/b", {"boundary": "=?utf-8?q?c?="})),
        ('a/b; boundary="c\n  d"', ("a/b", {"boundary": "c  d"})),
        ("a/b; boundary=c (d)", ("a/b", {"boundary": "c"})),
        ("a/b; boundary=c\t(d); e= ", ("a/b", {"boundary": "c", "e": ""})),
        ("=?utf-8?q?base64?=", ("=?utf-8?q?base64?=", {})),
        ("(base64) ((8bit)) 7bit (a", ("7bit", {})),
        ("", ("", {})),
    ],
)
def test_parameters_are_read(value, expected):
    """RFC 2045 and RFC 2231, and what is sent in their place."""
    assert expected == parameters(value)


@given(RAW)
def test_any_parameters_are_read(value):
    """Reading parameters is total."""
    word, found = parameters("a/b;" + value)

    assert "a/b" == word
    assert all(
        text.encode("utf-8", "surrogateescape") for text in found.values() if text
    )


@pytest.mark.parametrize(
    "name",
    [
        "x-spam-flag",
        "x-spam-status",
        "x-bogosity",
        "x-spamd-result",
        "x-spambayes-classification",
        "x-dspam-result",
        "x-rspamd-server",
        "x-postbayes-id",
    ],
)
def test_verdicts_of_filters_are_known(name):
    """Headers of other filters, and our own, are verdicts."""
    assert is_verdict(name)


@pytest.mark.parametrize(
    "name", ["subject", "x-mailer", "received", "authentication-results"]
)
def test_other_headers_are_no_verdicts(name):
    """What senders and servers write is evidence."""
    assert not is_verdict(name)
    assert is_known(name)


@pytest.mark.parametrize("name", ["hello", "http", "note", ""])
def test_words_of_a_text_are_no_headers(name):
    """A line of text may look like a header."""
    assert not is_known(name)


LABELS = st.text(st.characters(exclude_characters="."), min_size=1, max_size=12)


@given(st.lists(LABELS, min_size=1, max_size=3).map(".".join))
@example("a\ufe12example")
def test_a_domain_has_one_form(text):
    """It is that of itself, and of the domain in ASCII."""
    domain = normal_domain(text)

    assert domain == normal_domain(domain)
    assert ascii_domain(text) == ascii_domain(domain)
    if domain.isprintable():
        assert domain == normal_domain(ascii_domain(text))


@given(st.text(st.characters(categories=["L", "M", "N", "Cf"]), max_size=20))
def test_no_two_encoded_domains_have_one_form(label):
    """A registry keeps them apart, so another may own the second."""
    encoded = f"xn--{label.encode('punycode').decode()}.example".lower()

    assert encoded == ascii_domain(normal_domain(encoded))


@given(st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyz0123456789--"), max_size=20))
@example("-bcher-kva").via("a hyphen before nothing, which the library takes")
@example("-fiq228c")
def test_no_label_has_two_encoded_forms(encoded):
    """Whatever decodes to a text is the form of that text, or stays."""
    domain = f"xn--{encoded}.example"

    assert domain == ascii_domain(normal_domain(domain))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("straße.example", "strasse.example"),
        ("βόλος.example", "βόλοσ.example"),
        ("\u0646\u200c\u0627.example", "\u0646\u0627.example"),
        ("p\u0430ypal.example", "paypal.example"),
        ("a⒈example", "a1.example"),
    ],
)
def test_domains_that_look_alike_stay_apart(one, other):
    """The codec of the library for domains makes one of most of these."""
    assert normal_domain(one) != normal_domain(other)
    assert ascii_domain(one) != ascii_domain(other)


@pytest.mark.parametrize(
    "domain",
    [
        "xn--.example",
        "xn--99999.example",
        "xn--abc-.example",
        "xn--0000.example",
        "xn--" + "a" * 60 + ".example",
        "xn--" + "ab9" * 90,
        # Half a character, which no text can hold.
        "xn--" + "\ud800".encode("punycode").decode("ascii"),
        "example",
        "",
    ],
)
def test_what_encodes_no_text_stays(domain):
    """No punycode, too long for a label, or nothing beyond ASCII."""
    assert domain == normal_domain(domain)


def test_a_label_beyond_the_limit_stays():
    """Its form would take quadratic time."""
    label = "Ü" * 64

    assert label.lower() == normal_domain(label)
    assert ascii_domain(f"xn--{'a' * 70}").startswith("xn--a")
