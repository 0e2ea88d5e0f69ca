"""Well-formed mail is not read by the standard parser, and read as it does."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from app.mail import tree
from app.mail.limits import MAX_ENCODED_WORDS, MAX_HEADERS, MAX_PARTS, Budget
from app.mail.tree import build, nested, well_formed

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
    parts = [known(part) for part in node.parts]
    return node.fields, node.body, node.media_type, node.depth, node.defects, parts


def multipart(head, boundary, preamble, parts, end):
    """Return a multipart, its parts as they are given."""
    lines = [*head, f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for part in parts:
        lines += [f"--{boundary}", part]
    return "\n".join([*lines[: len(head) + 2], *preamble, *lines[len(head) + 2 :], end])


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
    st.lists(st.sampled_from(["", "text", "--x", "--y"]), max_size=2),
    st.lists(st.one_of(PARTS, INNER), max_size=3),
    st.sampled_from(ENDS),
)


@given(st.one_of(TEXTS, MULTIPARTS), st.sampled_from([3, MAX_PARTS]))
@example("Subject: a\n b\n\nbody\n", MAX_PARTS)
@example("A:\n \n\n\nb", MAX_PARTS)
def test_the_short_way_reads_what_the_standard_parser_reads(text, most):
    """Header by header and byte by byte, as far as there may be parts."""
    budget, expected = Budget(), Budget()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tree, "MAX_PARTS", most)
        nodes = well_formed(text, budget)
        assume(nodes is not None)
        root, more = nested(text, expected)

    assert expected.defects == budget.defects
    # The first of the parser's is one that it tries.
    assert [known(node) for node in more[1:]] == [known(node) for node in nodes]
    assert root is more[1]


def test_the_short_way_takes_most_of_mail():
    """Fields, some of them folded, a blank line, a body."""
    (leaf,) = well_formed("Subject: a\n b\nFrom: c\n\nd\n", Budget())

    assert [("subject", "a\n b"), ("from", "c")] == leaf.fields
    assert "d\n" == leaf.body


def test_a_value_does_not_depend_on_the_version_of_the_parser():
    """A line break before it is left out, which the parser of Python 3.11 keeps."""
    text = "Subject:\n a\n b\n\nc\n"
    (leaf,) = well_formed(text, Budget())
    root, _ = nested(text, Budget())

    assert [("subject", "a\n b")] == leaf.fields == root.fields


def test_the_short_way_takes_most_multiparts():
    """Preamble and epilogue left out, multiparts in multiparts, parts without head."""
    inner = multipart([], "y", [], ["Content-Type: text/html\n\nb\n"], "--y-- \n")
    text = multipart(["From: a"], "x", ["see:"], ["\na", inner], "--x--\nend")
    root, *nodes = well_formed(text, Budget())

    assert ["a\n", "", "b\n\n"] == [node.body for node in nodes]
    assert [1, 1, 2] == [node.depth for node in nodes]
    assert root.parts == nodes[:2]
    assert nodes[1].parts == nodes[2:]


@pytest.mark.parametrize("levels", [2, 5])
def test_the_short_way_goes_over_a_text_a_few_times(levels):
    """What is nested deeper is read once, line by line."""
    text = "\nb"
    for level in range(levels):
        text = multipart(["From: a"], f"b{level}-", [], [text], f"--b{level}---")

    assert (levels > 4) == (well_formed(text, Budget()) is None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "text",
        "Subject: a\n",
        "Subject: a\ntext\n\nmore",
        " more\nSubject: a\n\n",
        "From a Mon 10:00\nSubject: a\n\n",
        ": a\n\n",
        multipart([], "x", [], [], "--x--"),
        multipart([], "x", [], ["\nb"], "--x--y"),
        multipart([], "x", [], ["\nb"], "--x--\n--x--"),
        multipart([], "x", [], ["\nb"], "--x"),
        multipart(["Content-Transfer-Encoding: base64"], "x", [], ["\nb"], "--x--"),
        multipart([], "", [], ["\nb"], "----"),
        "Content-Type: multipart/digest; boundary=x\n\n--x\n\n--x--\n",
        "Content-Type: message/rfc822\n\nSubject: a\n\n",
    ],
)
def test_whatever_is_odd_is_left_to_the_standard_parser(text):
    """It knows what to make of it, and which defect it is."""
    assert well_formed(text, Budget()) is None


INSIDE = multipart([], "y", [], ["\nb"] * 30, "--y--")


@pytest.mark.parametrize(
    "parts",
    [
        *(["\nb"] * number for number in range(MAX_PARTS - 2, MAX_PARTS + 2)),
        [INSIDE] * 31,
        [INSIDE] * 32 + ["\nb"],
        [INSIDE] * 33,
        [*[INSIDE] * 32, multipart([], "z", [], ["\nb"] * 2 * MAX_PARTS, "--z--")],
    ],
    ids=lambda parts: str(len(parts)),
)
def test_the_short_way_stops_where_the_standard_parser_does(parts):
    """At the limit of parts, wherever these are; further ones are left out."""
    text = multipart(["From: a"], "x", [], parts, "--x--")
    budget, expected = Budget(), Budget()
    nodes = well_formed(text, budget)
    _, more = nested(text, expected)

    assert nodes is not None
    assert [known(node) for node in more[1:]] == [known(node) for node in nodes]
    assert expected.defects == budget.defects


def test_a_short_way_that_leads_nowhere_costs_nothing():
    """Its encoded words are charged once, by the parser that reads the message."""
    part = 'Content-Type: a/b; name="=?utf-8?q?c?="\n\nd'
    text = multipart(["From: a"], "x", [], [part] * 3, "")
    budget, expected = Budget(), Budget()
    build(text.encode(), budget)
    nested(text, expected)

    assert MAX_ENCODED_WORDS - 3 == expected.left["encoded words"]
    assert expected.left == budget.left


def test_the_short_way_keeps_the_limit_of_headers():
    """As many headers as the standard parser may add."""
    text = "a: b\n" * (MAX_HEADERS + 1) + "\n"
    (leaf,) = well_formed(text, Budget())

    assert MAX_HEADERS == len(leaf.fields)
