"""A message of one part is not read by the standard parser, and read as it does."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from app.mail.limits import MAX_HEADERS, Budget
from app.mail.tree import nested, single

FIELDS = [
    "Subject: a", "Subject:a", "X: ", "X:", "x-y: \t b ", "From: b", "From:", "X: \udcff\x0b\x1c", "A:\n more", "A: b\n\tc \t\n ",
    "Content-Type: text/html", "content-type: TEXT/plain", "Content-Type: multipart", "Content-Type: message/partial",
]  # fmt: skip
ODD = [
    "From b Mon 10:00", ": y", " more", "text", "A b: c", "\udcff: a", "--x", "--x--", "",
    "Content-Type: multipart/mixed; boundary=x", "Content-Type: message/rfc822", "Content-Type: message/delivery-status",
]  # fmt: skip
LINES = st.lists(st.sampled_from(FIELDS + ODD))
# Most with a header that is as it should be.
HEADS = st.lists(st.sampled_from(FIELDS), min_size=1)
TEXTS = st.tuples(st.one_of(HEADS, HEADS, HEADS, LINES), LINES).map(
    lambda groups: "\n".join([*groups[0], "", *groups[1]])
)


def known(node):
    """Return what is asked of a node."""
    return node.fields, node.body, node.media_type, node.depth, node.defects, node.parts


@given(TEXTS)
@example("Subject: a\n b\n\nbody\n")
@example("A:\n \n\n\nb")
def test_the_short_way_reads_what_the_standard_parser_reads(text):
    """Header by header and byte by byte, and without a defect."""
    leaf = single(text, Budget())
    assume(leaf is not None)
    root, _ = nested(text, Budget())

    assert known(root) == known(leaf)


def test_the_short_way_takes_most_of_mail():
    """Fields, some of them folded, a blank line, a body."""
    leaf = single("Subject: a\n b\nFrom: c\n\nd\n", Budget())

    assert leaf is not None
    assert [("subject", "a\n b"), ("from", "c")] == leaf.fields
    assert "d\n" == leaf.body


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "text",
        "Subject: a\n",
        "Subject: a\ntext\n\nmore",
        " more\nSubject: a\n\n",
        "From a Mon 10:00\nSubject: a\n\n",
        ": a\n\n",
        "Content-Type: multipart/mixed; boundary=x\n\n--x\n\n--x--\n",
        "Content-Type: message/rfc822\n\nSubject: a\n\n",
    ],
)
def test_whatever_is_odd_is_left_to_the_standard_parser(text):
    """It knows what to make of it, and which defect it is."""
    assert single(text, Budget()) is None


def test_the_short_way_keeps_the_limit_of_headers():
    """As many headers as the standard parser may add."""
    text = "a: b\n" * (MAX_HEADERS + 1) + "\n"
    leaf = single(text, Budget())

    assert leaf is not None
    assert MAX_HEADERS == len(leaf.fields)
