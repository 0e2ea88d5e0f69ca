"""Transfer encodings are undone, broken or not."""

from __future__ import annotations

import base64
import binascii
import quopri
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mail.encoding import decode_transfer, without_uuencoded
from app.mail.limits import MAX_UUENCODED

ENCODINGS = st.sampled_from(
    [
        "",
        "7bit",
        "8bit",
        "binary",
        "base64",
        "quoted-printable",
        "x-uuencode",
        "x-other",
    ]
)


@given(st.binary(max_size=200), ENCODINGS)
def test_any_bytes_are_decoded(content, encoding):
    """Decoding is total."""
    decoded, defect = decode_transfer(content, encoding)

    assert isinstance(decoded, bytes)
    assert isinstance(defect, str)


@pytest.mark.parametrize("blanks", [b"", b" ", b"\t \t"])
def test_blanks_behind_a_soft_line_break_are_no_part_of_the_line(blanks):
    """A mail server may have added them (RFC 2045 section 6.7)."""
    assert (b"word", "") == decode_transfer(
        b"wo=" + blanks + b"\nrd", "quoted-printable"
    )


@given(
    st.lists(st.sampled_from([b"Q", b"QQ", b"=", b"==", b"\n", b"*"]), max_size=12),
    st.integers(1, 1_100),
    ENCODINGS,
)
def test_what_is_repeated_is_decoded(pieces, times, encoding):
    """Decoding is total beyond the number of pieces that are decoded, too."""
    decoded, _ = decode_transfer(b"".join(pieces) * times, encoding)

    assert isinstance(decoded, bytes)


@pytest.mark.parametrize("more", range(1, 9))
def test_base64_of_many_paddings_is_decoded(more):
    """Blanks that are coded one by one hide nothing behind them."""
    text = "hello there!"[:more].encode()
    pieces = b"IA==\n" * 2_000 + base64.b64encode(text)

    assert (b" " * 2_000 + text, "base64-broken") == decode_transfer(pieces, "base64")


@given(st.binary(max_size=300))
def test_base64_is_read_back(content):
    """What was encoded by the book has no defect."""
    assert (content, "") == decode_transfer(base64.encodebytes(content), "base64")


@given(st.binary(max_size=300).map(lambda content: content.replace(b"\r", b"")))
def test_quoted_printable_is_read_back(content):
    """What was encoded by the book has no defect."""
    assert (content, "") == decode_transfer(
        quopri.encodestring(content), "quoted-printable"
    )


@given(st.binary(max_size=200))
def test_uuencode_is_read_back(content):
    """What was encoded by the book has no defect."""
    lines = b"".join(
        binascii.b2a_uu(content[i : i + 45]) for i in range(0, len(content), 45)
    )

    assert (content, "") == decode_transfer(
        b"begin 644 a.txt\n" + lines + b"`\nend\n", "x-uuencode"
    )


@pytest.mark.parametrize(
    ("content", "encoding", "expected"),
    [
        (b"SGVs!bG8=", "base64", b"Hello"),
        (b"SGVsbG8", "base64", b"Hello"),
        (b"SGVsbG8=\nSGVsbG8=", "base64", b"HelloHello"),
        (b"SGVsbG8gd29ybGQhX", "base64", b"Hello world!"),
        (b"a=ZZb=C3=BC", "quoted-printable", b"a=ZZb\xc3\xbc"),
        (b"no begin", "x-uuencode", b"no begin"),
        (b"begin 644 x\nzz\n%:&5L;&\\\n", "uuencode", b"hello"),
    ],
)
def test_what_can_be_decoded_is(content, encoding, expected):
    """Garbage is a defect, and does not stop decoding."""
    decoded, defect = decode_transfer(content, encoding)

    assert expected == decoded
    assert defect.endswith("-broken")


def test_an_unknown_encoding_is_left_as_it_is():
    """The unknown encoding is recorded as a defect."""
    assert (b"x", "transfer-encoding-unknown") == decode_transfer(b"x", "x-secret")


def test_broken_base64_takes_little_memory():
    """A few bytes for each letter."""
    content = b"QUJD" * 100_000 + b"=QUJD"
    tracemalloc.start()
    try:
        decode_transfer(content, "base64")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak <= 20 * len(content)


BLOCK = b"begin 644 a.txt\n#0V%T\n`\nend\n"


@pytest.mark.parametrize(
    ("content", "text", "files", "defect"),
    [
        (b"a\n" + BLOCK + b"b\n", b"a\nb\n", [("a.txt", b"Cat")], ""),
        (BLOCK * 2, b"", [("a.txt", b"Cat")] * 2, ""),
        (BLOCK[:-4], b"", [("a.txt", b"Cat")], "uuencode-broken"),
        (b"begin 644 a\nnot a line of it, lower case\n", None, [], ""),
        (b"We begin 644 a\n#0V%T\n", None, [], ""),
        (b"begin 644 a.txt\n", None, [], ""),
        (b"begin 644 a.txt\nBUY PILLS NOW\n`\nend\n", None, [], ""),
    ],
)
def test_uuencoded_files_are_taken_out_of_a_text(content, text, files, defect):
    """A text that only looks like one stays a text."""
    expected = content if text is None else text

    assert (expected, files, defect) == without_uuencoded(content)


def test_uuencoded_files_of_one_text_are_bounded():
    """Files beyond the limit stay text."""
    text, files, _ = without_uuencoded(BLOCK * (MAX_UUENCODED + 1))

    assert MAX_UUENCODED == len(files)
    assert BLOCK == text
