"""Whatever arrives, parse and extract look at a bounded part of it.

No time is measured here: each test asserts the limit that bounds the time.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import TYPE_CHECKING

import pytest

from app.features.extract import extract
from app.mail import limits
from app.mail.parse import parse

if TYPE_CHECKING:
    from app.mail.message import Message

HEADER = b"From: ann@example.org\nSubject: x\n"
PAGE = HEADER + b"Content-Type: text/html\n\n"
UTF8 = HEADER + b"Content-Type: text/plain; charset=utf-8\n\n"


def read(raw: bytes) -> Message:
    """Parse, check what holds for any message, and extract."""
    message = parse(raw)

    assert limits.MAX_TEXT_CHARS >= sum(len(text.content) for text in message.texts)
    assert limits.MAX_LINKS >= len(message.links)
    assert limits.MAX_PARTS >= len(message.parts) + len(message.containers)
    assert limits.MAX_HEADERS >= len(message.headers)
    assert limits.MAX_HEADER_CHARS >= max(
        (len(h.value) for h in message.headers), default=0
    )
    assert limits.MAX_DEPTH >= max((part.depth for part in message.parts), default=0)
    assert 0 <= extract(message).views["words"].size <= 2 * limits.MAX_TEXT_CHARS
    return message


def nested(depth: int) -> bytes:
    """Return multiparts within multiparts."""
    levels = [
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i)
        for i in range(depth)
    ]
    return HEADER + b"".join(levels) + b"\nhello\n"


@pytest.mark.parametrize(
    "line", [b"word and words\n", b"x", b"word ", b"\n", b"\r", b"\0"]
)
def test_a_body_of_fifty_megabytes_is_cut(line):
    """Bytes, lines and characters of text are bounded."""
    message = read(HEADER + b"\n" + line * (50_000_000 // len(line)))

    assert "message-too-large" in message.defects


def test_a_hundred_thousand_parts_are_cut():
    """The parser stops at the limit, and what it has found is kept."""
    head = HEADER + b"Content-Type: multipart/mixed; boundary=b\n\n"
    message = read(head + b"--b\n\nx\n" * 100_000)

    assert "too-many-parts" in message.defects
    assert limits.MAX_PARTS - 2 <= len(message.parts)


def test_a_hundred_thousand_delivery_reports_are_cut():
    """The standard parser takes each block of such a part for a part."""
    message = read(
        HEADER + b"Content-Type: message/delivery-status\n\n" + b"A: b\n\n" * 100_000
    )

    assert "too-many-parts" in message.defects


@pytest.mark.parametrize("depth", [limits.MAX_DEPTH + 1, 1_000])
def test_a_thousand_nested_multiparts_are_cut(depth):
    """Below the limit a multipart is text, so that nothing recurses further."""
    message = read(nested(depth))

    assert "too-deep" in message.defects
    assert any("hello" in text.content for text in message.texts)


def test_nesting_within_the_limit_is_no_defect():
    """The limit itself is allowed for containers."""
    assert "too-deep" not in read(nested(limits.MAX_DEPTH - 1)).defects


def test_a_thousand_nested_messages_are_cut():
    """Attached messages nest like multiparts."""
    message = read(HEADER + b"Content-Type: message/rfc822\n\n" * 1_000 + b"hi")

    assert "too-deep" in message.defects


@pytest.mark.parametrize(
    "line", [b"a ", b"x", b"=?a?q?", b"=?", b"=?utf-8?b?QQ==?= ", b"\xff"]
)
def test_a_header_of_ten_megabytes_is_cut(line):
    """One header's value is bounded before it is decoded."""
    message = read(b"Subject: " + line * (10_000_000 // len(line)) + b"\n\nhi")

    assert "header-too-long" in message.defects


@pytest.mark.parametrize("line", [b'";', b"a=b;", b'\\"', b"a*1*=%", b" ", b"a="])
def test_parameters_of_ten_megabytes_are_cut(line):
    """The standard library's own reading of them would be quadratic."""
    message = read(
        HEADER
        + b"Content-Type: text/plain; "
        + line * (10_000_000 // len(line))
        + b"\n\nhi"
    )

    assert "message-too-large" in message.defects


def test_a_million_headers_are_cut():
    """Headers beyond the limit are dropped."""
    message = read(b"X-A: b\n" * 1_000_000)

    assert "too-many-headers" in message.defects
    assert limits.MAX_HEADERS == len(message.headers)


def test_a_million_continued_lines_are_cut():
    """Folding does not evade the limit of a header's length."""
    assert "header-too-long" in read(b"Subject: b\n" + b" x\n" * 1_000_000).defects


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 500_000,
        b"<div>" * 100_000 + b"</div>" * 100_000,
        b"".join(b"<font color=%d>" % i for i in range(3_000)) + b"<p>x" * 1_500,
        b"<a href=x><table><td>" * 1_600,
        b"<a " + b" ".join(b"a%d" % i for i in range(1_000_000)) + b">",
        b"<" * 1_000_000,
        b"<!--" * 1_000_000,
        b"<script>" * 60_000,
        b"<style><script>" * 30_000,
        b"<href = " * 60_000,
        b"<a href=http://example.com>" * 10_000,
        b"&lt" * 100_000,
    ],
)
def test_a_page_that_is_costly_to_parse_is_read_without_a_tree(page):
    """Nesting, open formatting, attributes and size are bounded."""
    assert "html-too-complex" in read(PAGE + page + b" x").defects


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 4_000,
        b"<b>" * 900,
        b"<table><tr><td>" * 1_600,
        b"<a title=x alt=y>" * 900,
    ],
)
def test_a_page_within_the_limits_is_parsed(page):
    """Honest pages are far below them."""
    assert () == read(PAGE + page + b"x").defects


@pytest.mark.parametrize(
    "word",
    [
        "a.",
        "1.1.1.",
        "http://",
        "www.a ",
        "$!%'-",
        "\ufdfa",
        "漢字",
        "\u200b",
        "\u0301",
        "a\u0301",
        "é.",
        "\u0e01\u0e34",
    ],
)
def test_no_text_makes_an_expression_slow(word):
    """Every expression is linear in its input, whatever is repeated."""
    message = read(UTF8 + (word * 1_000_000).encode())

    assert "text-too-long" in message.defects


def test_a_long_run_of_combining_marks_is_normalised_in_pieces():
    """Normalising is quadratic in such a run; in one piece this test takes minutes."""
    message = read(UTF8 + ("a" + "\u0301\u0316" * 500_000).encode())

    assert "text-too-long" in message.defects


@pytest.mark.parametrize("encoding", [b"base64", b"quoted-printable", b"x-uuencode"])
@pytest.mark.parametrize(
    "piece", [b"=a", b"QUJD=\n", b"=", b"= ", b"begin 644 ", b"begin 644 a\n", b"\xff"]
)
def test_no_body_makes_a_transfer_encoding_slow(encoding, piece):
    """Decoding is linear, garbage or not."""
    message = read(
        HEADER + b"Content-Transfer-Encoding: " + encoding + b"\n\n" + piece * 500_000
    )

    assert 1 == len(message.parts)


def test_the_received_chain_is_bounded():
    """The expression that finds networks is linear."""
    assert (
        "header-too-long"
        in read(b"Received: " + b"1.1.1." * 700_000 + b"\n\nx").defects
    )


def test_archives_are_listed_in_bounds():
    """However many names an archive claims, and however large they unpack."""
    entry = b"PK\x01\x02" + bytes(42)
    end = b"PK\x05\x06" + bytes(6) + b"\xff\xff" + struct.pack("<LL", 46 * 50_000, 0)
    archive = b"PK\x03\x04" + entry * 50_000 + end + bytes(2)
    head = (
        HEADER + b"Content-Type: application/zip\nContent-Transfer-Encoding: base64\n\n"
    )
    message = read(head + base64.encodebytes(archive))

    assert limits.MAX_MEMBERS == len(message.parts[0].members)
    assert "archive-too-large" in message.defects


def test_uuencoded_files_are_taken_out_in_bounds():
    """A text of nothing but files leaves most of them as text."""
    message = read(HEADER + b"\n" + b"begin 644 a\n#0V%T\n`\nend\n" * 10_000)

    assert 1 + limits.MAX_UUENCODED == len(message.parts)


def test_what_is_wrong_with_an_uuencoded_file_is_recorded():
    """A cut text and a broken archive in it are defects."""
    block = binascii.b2a_uu(b"PK\x03\x04 and no directory")
    message = read(HEADER + b"\nbegin 644 a.zip\n" + block)

    assert {"archive-broken", "uuencode-broken"} <= set(message.defects)


def test_nested_hidden_elements_are_taken_out_in_bounds():
    """Five thousand elements within each other that all are hidden."""
    message = read(
        PAGE + b"<p hidden><b hidden><i style='display:none'>" * 1_600 + b"x"
    )

    assert (
        "html-hidden-text" in message.defects or "html-too-complex" in message.defects
    )
