"""Whatever arrives, parse and extract look at a bounded part of it.

No time is measured here: each test asserts the limit that bounds the time.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from app.features.extract import extract
from app.kernels.markup import spaced
from app.mail import encoding, hidden, html, limits
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


def test_a_delivery_report_is_one_text():
    """Mail programs show it, and its blocks are no parts (RFC 3464 section 2)."""
    message = read(
        HEADER + b"Content-Type: message/delivery-status\n\n" + b"A: b\n\n" * 100_000
    )

    assert {"text-too-long"} == set(message.defects)
    assert 1 == len(message.parts)


@pytest.mark.parametrize("depth", [limits.MAX_DEPTH + 1, 1_000])
def test_a_thousand_nested_multiparts_are_cut(depth):
    """Below the limit a multipart is text, so that nothing recurses further."""
    message = read(nested(depth))

    assert "too-deep" in message.defects
    assert any("hello" in text.content for text in message.texts)


def test_nesting_within_the_limit_is_no_defect():
    """The limit itself is allowed for containers."""
    assert "too-deep" not in read(nested(limits.MAX_DEPTH - 1)).defects


def test_what_is_gone_over_level_by_level_is_bounded():
    """A container beyond it is text."""
    text = b"hello " * 4
    body = b"\n" * (limits.MAX_BYTES - 10_000)
    levels = nested(limits.MAX_DEPTH - 1)
    message = read(levels + text + body)

    assert "too-deep" in message.defects
    assert any("hello" in text.content for text in message.texts)


@pytest.mark.parametrize("blanks", [100_000, 300_000])
def test_empty_lines_hide_nothing(blanks):
    """Programs that show a page show none of them."""
    page = HEADER + b"Content-Type: text/html\n\n<p>." + b"\n" * blanks
    message = read(page + b"<p>hello")

    assert any("hello" in text.content for text in message.texts)


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
        b"<a " + b" ".join(b"a%d" % i for i in range(100_000)) + b">",
        b"<" * 1_000_000,
        b"<!--" * 1_000_000,
        b"<script>" * 60_000,
        b"<style><script>" * 30_000,
        b"<href = " * 60_000,
        b"<a href=http://example.com>" * 10_000,
    ],
)
def test_a_page_that_is_costly_to_parse_is_read_in_part(page):
    """Nesting, open formatting and attributes are bounded."""
    assert "html-too-complex" in read(PAGE + page + b" x").defects


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 4_000,
        b"<b>" * 350,
        b"<table><tr><td>" * 1_600,
        b"<a title=x alt=y>" * 350,
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


def test_a_page_has_no_uuencoded_files():
    """Its text may be written in the characters of one, and hide as such."""
    page = b"<!--\nbegin 644 a\n-->   \n#&#72;I\n"
    message = parse(b"Content-Type: text/html\n\n" + page)

    assert ["#HI"] == [text.content.strip() for text in message.texts]


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


def budget_of(raw: bytes, monkeypatch) -> limits.Budget:
    """Read a message, and return the budget of which it took its work."""
    made = []

    class Kept(limits.Budget):
        """Is kept, to be asked what is left."""

        def __init__(self):
            super().__init__()
            made.append(self)

    monkeypatch.setattr("app.mail.parse.Budget", Kept)
    read(raw)
    return made[0]


def parts(content: bytes, number: int, kind: bytes = b"text/html") -> bytes:
    """Return a message of so many parts of the same content, and a last one."""
    part = b"--b\nContent-Type: " + kind + b"\n\n" + content + b"\n"
    last = b"--b\nContent-Type: text/plain\n\nthe end\n--b--\n"
    head = HEADER + b"Content-Type: multipart/mixed; boundary=b\n\n"
    return head + part * number + last


def attributes(pattern: bytes) -> bytes:
    """Return a tag of many attributes, no two the same."""
    return b"<a " + b"".join(pattern % n for n in range(9_000)) + b">x"


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 4_900,
        attributes(b"a%x "),
        attributes(b"a%x/"),
        b"".join(b"<li><b a%x>" % n for n in range(400)),
        b"<img src=x alt=y>" * 3_000,
    ],
)
def test_all_pages_of_a_message_share_a_budget(page, monkeypatch):
    """Beyond it they are read in part, and what follows them is read."""
    trees = []
    real = html.LexborHTMLParser
    monkeypatch.setattr(
        html, "LexborHTMLParser", lambda source: trees.append(source) or real(source)
    )
    raw = parts(page, 40)
    budget = budget_of(raw, monkeypatch)

    assert limits.MAX_HTML_CHARS >= sum(map(len, trees))
    assert limits.MAX_HTML_WORK > budget.left["html tree"] >= 0
    assert len(trees) < 40
    assert budget.defects & {"html-too-complex", "html-too-long"}
    assert "the end" == parse(raw).texts[-1].content.strip()


def test_the_attributes_of_a_tag_are_never_estimated_too_low():
    """Whatever their quotes and separators are, work grows with their square."""
    for pattern in (b"a%x ", b"a%x/", b"a%x=''", b'a%x=">"', b"a%x='<>'", b"a%x\n\t"):
        tag = b"<p>" * 20 + attributes(pattern)
        into = np.empty(2 * len(tag), np.uint8)
        _, *counts, _ = spaced(np.frombuffer(tag, np.uint8), into)

        assert 9_000**2 <= html._work(len(tag), *counts)  # noqa: SLF001


def test_encoded_words_of_all_headers_and_parts_share_a_budget(monkeypatch):
    """Further ones stay as they are written; the rest of the message is read."""
    words = b"=?koi8-r?q?=E9?= =?big5?q?=A4=A4?= " * 250
    raw = b"X-A: " + words + b"\nX-B: " + words + b"\nX-C: " + words + b"\n" + HEADER
    budget = budget_of(raw + b"\nhello\n", monkeypatch)
    message = parse(raw + b"\nhello\n")

    assert 0 == budget.left["encoded words"]
    assert ("too-many-encoded-words",) == tuple(
        defect for defect in message.defects if defect.startswith("too-many")
    )
    assert "=?" not in message.header("x-a")
    assert message.header("x-c").startswith("=?koi8-r?q?=E9?=")
    assert "ann@example.org" == message.header("from")


def test_encoded_words_in_parameters_and_attached_subjects_are_counted(monkeypatch):
    """A name of a file costs what a header costs."""
    words = b"=?koi8-r?q?=E9?= x " * 90
    kinds = (
        (b'text/plain; name="' + words + b'"', b"x"),
        (b"message/rfc822", b"Subject: " + words + b"\n\nx"),
    )
    for kind, content in kinds:
        budget = budget_of(parts(content, 40, kind), monkeypatch)

        assert 0 == budget.left["encoded words"]
        assert "too-many-encoded-words" in budget.defects


def test_charsets_are_detected_in_bounds(monkeypatch):
    """Parts and headers beyond the limit are Latin-1."""
    calls = []
    real = encoding.cchardet.detect
    monkeypatch.setattr(
        encoding.cchardet, "detect", lambda content: calls.append(1) or real(content)
    )
    header = b"X-A: \xe9\xe8 \xc3(\n" * 20
    raw = header + parts(b"\xe9\xe8 \xc3(", 20, b"text/plain")
    message = parse(raw)

    assert limits.MAX_DETECTIONS == len(calls)
    assert "too-many-charsets" in message.defects
    assert "éè Ã(" == message.header_values("x-a")[-1]
    assert "the end" == message.texts[-1].content.strip()


def test_unknown_charsets_never_reach_the_registry_of_codecs():
    """It remembers each name that it does not find, as long as the process lives."""
    asked = []
    codecs.register(asked.append)
    try:
        words = b" ".join(b"=?x-unknown-%d?q?=E9?=" % n for n in range(500))
        part = parts(b"\xe9", 9, b"text/plain; charset=x-unknown-part")
        read(b"X-A: " + words + b"\n" + part)
    finally:
        codecs.unregister(asked.append)

    assert [] == asked


def test_headers_together_are_bounded():
    """Those beyond the limit are left out, and the body is read."""
    raw = HEADER + b"X-A: " + b"word " * 1_900 + b"\n"
    message = parse(HEADER + raw * 200 + b"\nhello\n")

    assert limits.MAX_HEADERS_CHARS >= sum(len(h.value) for h in message.headers)
    assert ("headers-too-long",) == message.defects
    assert "hello\n" == message.texts[0].content


def test_letters_that_stand_for_many_are_folded_in_bounds():
    """One Arabic letter stands for eighteen; a text of them stays near its length."""
    words = extract(parse(UTF8 + ("\ufdfa" * 5_000).encode())).views["words"]

    assert 10 >= words.size


def test_elements_above_hidden_ones_are_climbed_once(monkeypatch):
    """However deep they stand, and however many there are."""
    climbed = []
    real = hidden._inherited  # noqa: SLF001

    def counting(node, states):
        before = len(states)
        found = real(node, states)
        climbed.append(len(states) - before)
        return found

    monkeypatch.setattr(hidden, "_inherited", counting)
    read(PAGE + b"<div>" * 3_000 + b"<p hidden>x</p>" * 150)

    assert 150 == len(climbed)
    assert 3_100 >= sum(climbed)


def test_nothing_of_a_plain_message_is_counted(monkeypatch):
    """A budget is for what costs work, and honest mail is far below it."""
    budget = budget_of(HEADER + b"\nhello\n", monkeypatch)

    assert set() == budget.defects
    assert limits.Budget().left == budget.left
