"""The tree of a message is as mail programs find it, and as the standard library does."""

from __future__ import annotations

from base64 import b64encode
from email import message_from_string

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from app.mail.limits import MAX_HEADERS, MAX_PARTS, Budget
from app.mail.tree import build, nodes_of

FIELDS = [
    "Subject: a", "Subject:a", "X: ", "X:", "x-y: \t b ", "From: b", "From:", "A:\n more", "A: b\n\tc \t\n ",
    "Content-Type: text/html", "content-type: TEXT/plain", "Content-Type: multipart", "Content-Type: text/x",
]  # fmt: skip
ODD = [
    ": y", " more", "text", "A b: c", "--x", "--x--", "",
    "Content-Type: multipart/mixed; boundary=x", "Content-Type: message/rfc822",
]  # fmt: skip
LINES = st.lists(st.sampled_from(FIELDS + ODD))
# Most with a header that is as it should be.
HEADS = st.lists(st.sampled_from(FIELDS), min_size=1)
TEXTS = st.tuples(st.one_of(HEADS, HEADS, HEADS, LINES), LINES).map(
    lambda groups: "\n".join([*groups[0], "", *groups[1]])
)


def multipart(head, boundary, preamble, parts, end):
    """Return a multipart, its parts as they are given."""
    lines = [*head, f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    lines += preamble
    for part in parts:
        lines += [f"--{boundary}", part]
    return "\n".join([*lines, end])


ENDS = [
    "--x--",
    "--x--\n",
    "--x-- \nmore",
    "--x--\n--y--",
    "--x",
    "",
    "--x--z",
    "--xx--",
]
PARTS = st.one_of(
    TEXTS,
    TEXTS.map("Content-Type: text/plain\n".__add__),
    st.just("\nb"),
    st.just("b\n"),
    TEXTS.map("Content-Type: message/rfc822\n\n".__add__),
)
SEVERAL = st.lists(PARTS, max_size=3)
INNER = st.builds(
    multipart,
    HEADS,
    st.sampled_from(["y", "xx", "x", "y--"]),
    LINES,
    SEVERAL,
    st.sampled_from(["--y--", "--y--\n", "--xx--"]),
)
MULTIPARTS = st.builds(
    multipart,
    HEADS,
    st.just("x"),
    st.lists(st.sampled_from(["", "text", "--y"]), max_size=2),
    st.lists(st.one_of(PARTS, INNER), max_size=3),
    st.sampled_from(ENDS),
)


def some(parts):
    """Return the parts of a container; none for a sole one that is empty.

    The library finds a message in the part of an attached message that has not a byte.
    """
    return [] if parts == [([], "", [])] else parts


def known(node):
    """Return what is asked of a node."""
    body = "" if node.parts else node.body.rstrip("\n")
    return node.fields, body, some([known(part) for part in node.parts])


def by_the_library(message, *, is_part=False):
    """Return the same of a message of the standard library."""
    parts = message.get_payload() if message.is_multipart() else []
    body = "" if parts else message.get_payload().rstrip("\n")
    fields = [(name.lower(), x.lstrip(" \t\n")) for name, x in message.raw_items()]
    if is_part:
        fields = [x for x in fields if x[0].startswith(("content-", "subject"))]
    return fields, body, some([by_the_library(part, is_part=True) for part in parts])


@given(st.one_of(TEXTS, MULTIPARTS))
@example("Subject: a\n b\n\nbody\n")
@example("A:\n \n\n\nb")
@example("Content-Type: message/rfc822")
def test_well_formed_mail_is_read_as_the_standard_library_reads_it(text):
    """Header by header and byte by byte."""
    # The library finds no empty part between two boundaries, or before the last one.
    assume("--x\n--x" not in text)
    message = message_from_string(text)
    assume(not any(part.defects for part in message.walk()))

    assert by_the_library(message) == known(nodes_of(text.encode(), Budget())[0])


def test_a_value_does_not_begin_with_a_line_break():
    """The parser of Python 3.11 keeps it, and that of 3.14 does not."""
    (leaf,) = nodes_of(b"Subject:\n a\n b\n\nc\n", Budget())

    assert [("subject", "a\n b")] == leaf.fields


def test_parts_are_between_the_lines_of_the_boundary():
    """Preamble and epilogue left out, multiparts in multiparts, parts without head."""
    inner = multipart([], "y", [], ["Content-Type: text/html\n\nb\n"], "--y-- \n")
    text = multipart(["From: a"], "x", ["see:"], ["\na\n--xx", inner], "--x--\nend")
    root, *nodes = nodes_of(text.encode(), Budget())

    assert ["a\n--xx\n", "", "b\n\n"] == [node.body for node in nodes]
    assert [1, 1, 2] == [node.depth for node in nodes]
    assert root.parts == nodes[:2]
    assert nodes[1].parts == nodes[2:]


HTML = "Content-Type: text/html"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (f"junk\n{HTML}", "text/html"),
        (f"Subject: a\njunk\n more\n{HTML}", "text/html"),
        (f": a\n{HTML}", "text/html"),
        (f" more\n{HTML}", "text/html"),
        (f"From b Mon 10:00\n{HTML}", "text/html"),
        ("Content-Type : text/html", "text/html"),
        ("X-A: b\n" * MAX_HEADERS + HTML, "text/html"),
        (f"text\nSubject: a\n\n{HTML}", "text/plain"),
    ],
)
def test_what_is_no_field_does_not_end_a_header_of_mime(head, expected):
    """Mail programs skip it, up to the empty line."""
    text = multipart(["From: a"], "x", [], [head + "\n\nb"], "--x--")
    _, leaf = nodes_of(text.encode(), Budget())

    assert expected == leaf.media_type


@pytest.mark.parametrize("line", ["Ann :", "subject : noon"])
def test_text_below_a_subject_is_no_field(line):
    """A blank before a colon is only a field's where it would hide an encoding."""
    (root,) = nodes_of(f"Subject: a\n{line}\nWe meet.\n".encode(), Budget())

    assert f"{line}\nWe meet.\n" == root.body


@pytest.mark.parametrize("kind", ["message/rfc822", "multipart/mixed; boundary=x"])
def test_what_encodes_parts_is_undone(kind):
    """Against RFC 2046, some mail programs send and read such containers."""
    inner = "\n--x\n\nb\n--x--" if "x" in kind[9:] and "multi" in kind else "A: b\n\nb"
    coded = b64encode(inner.encode()).decode()
    head = f"From: a\nContent-Type: {kind}\nContent-Transfer-Encoding: base64\n\n"
    _, leaf = nodes_of((head + coded).encode(), Budget())

    assert "b" == leaf.body.strip()


def element(tag, *contents, ends=False):
    """Return an element of DER, or one of BER that says where it ends."""
    content = b"".join(contents)
    if ends:
        return bytes([tag, 0x80]) + content + b"\0\0"
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2)
    return bytes([tag]) + length + content


def signed(octets, *, ends=False, algorithms=b""):
    """Return an opaque-signed message (RFC 5652, 5.1), without its signatures."""
    data, signed_data = (bytes.fromhex(f"06092a864886f70d01070{n}") for n in (1, 2))
    content = element(0x30, data, element(0xA0, octets, ends=ends), ends=ends)
    of_sender = element(0xA0, element(0x30, element(4, b"certificate")))
    parts = b"\2\1\1", element(0x31, algorithms), content, of_sender, b"\x31\0"
    inner = element(0x30, *parts, ends=ends)
    return element(0x30, signed_data, element(0xA0, inner, ends=ends), ends=ends)


PART = b"Content-Type: text/html\r\n\r\n<p>" + b"long " * 100
# What looks like the content, before it.
DECOY = element(0x30, bytes.fromhex("06092a864886f70d010701"), element(4, b"\nham"))


@pytest.mark.parametrize(
    "kind",
    [
        "pkcs7-mime; smime-type=signed-data",
        "x-pkcs7-mime",
        "octet-stream; name=SMIME.P7M",
    ],
)
@pytest.mark.parametrize(
    "message",
    [
        signed(element(4, PART)),
        signed(element(0x24, element(4, PART[:9]), element(4, PART[9:]))),
        signed(element(0x24, element(4, PART), ends=True), ends=True),
        signed(element(4, PART), algorithms=DECOY),
    ],
    ids=["at once", "in pieces", "of any length", "behind another"],
)
def test_a_part_is_found_in_what_signs_it(message, kind):
    """Thunderbird, Outlook and Mail show it (RFC 8551, 3.5.2)."""
    head = f"From: a\nContent-Type: application/{kind}\n"
    coded = (
        head.encode() + b"Content-Transfer-Encoding: base64\n\n" + b64encode(message)
    )
    _, leaf = nodes_of(coded, Budget())

    assert "text/html" == leaf.media_type
    assert PART.partition(b"<")[2] == leaf.content[1:]


@pytest.mark.parametrize(
    "message",
    [signed(element(0x80, PART)), signed(b""), signed(element(4, PART))[:40], b"0"],
    ids=["encrypted", "only certificates", "cut", "nothing"],
)
def test_what_signs_no_part_is_a_file(message):
    """Encrypted messages, among others, cannot be read."""
    head = b"From: a\nContent-Type: application/pkcs7-mime\n"
    coded = head + b"Content-Transfer-Encoding: base64\n\n" + b64encode(message)

    assert 1 == len(nodes_of(coded, Budget()))


INSIDE = multipart([], "y", [], ["\nb"] * 30, "--y--")


@pytest.mark.parametrize(
    ("parts", "more"),
    [
        (["\nb"] * (MAX_PARTS - 1), False),
        (["\nb"] * MAX_PARTS, True),
        ([INSIDE] * 32, False),
        ([INSIDE] * 33, True),
    ],
    ids=str,
)
def test_parts_are_bounded(parts, more):
    """Wherever they are; further ones are left out."""
    text = multipart(["From: a"], "x", [], parts, "--x--")
    budget = Budget()
    nodes = nodes_of(text.encode(), budget)

    assert MAX_PARTS >= len(nodes)
    assert more == ("too-many-parts" in budget.defects)


def test_headers_are_bounded():
    """Further ones are left out."""
    budget = Budget()
    root = build(b"x-a: b\n" * (MAX_HEADERS + 1) + b"\n", budget)

    assert MAX_HEADERS == len(root.fields)
    assert {"too-many-headers"} == budget.defects


@given(st.binary())
def test_what_is_signed_may_be_anything(content):
    """What is not understood is a file."""
    head = b"Subject: a\nContent-Type: application/pkcs7-mime\n"
    head += b"Content-Transfer-Encoding: base64\n\n"
    for message in content, signed(content), signed(content, ends=True):
        root = build(head + b64encode(message), Budget())

        assert root.parts or root.body or not message
