"""Mailboxes: where one message ends and the next begins."""

from __future__ import annotations

import io
import itertools
import mailbox
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.corpora import mailbox as module
from app.corpora.mailbox import is_mbox, read_mailbox
from app.errors import UnreadableSource

SEPARATOR = b"From anna@example.org Mon Sep 17 08:00:00 2001\n"

# Lines that a mailbox may hold as they are, separators' look-alikes among them.
lines = st.one_of(
    st.sampled_from(
        [
            b"",
            b"From here to there",
            b">From quoted Mon Sep 17 08:00:00 2001",
            b" " + SEPARATOR.strip(),
            b"Subject: hello",
        ]
    ),
    st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"").strip(b"\r")),
).filter(lambda line: not re.match(rb"From -?\s*$", line))
messages = st.lists(
    st.lists(lines, min_size=1, max_size=5).map(
        lambda body: b"Subject: x\n" + b"\n".join(body) + b"\n"
    ),
    max_size=5,
)


def read(content):
    """Return the messages of a mailbox with this content."""
    return read_range(content, 0, None)


def read_range(content, begin, end):
    """Return the messages of a mailbox that begin in a range of its bytes."""
    return list(module._messages(io.BytesIO(content), begin, end))  # noqa: SLF001


@given(messages)
def test_reading_gives_back_what_was_written(stored):
    """A mailbox holds its messages byte for byte."""
    content = b"".join(SEPARATOR + message + b"\n" for message in stored)

    assert stored == read(content)


@given(messages, st.integers(1, 40))
def test_long_lines_do_not_matter(stored, piece):
    """A line taken in pieces is one line: nothing in it starts a message."""
    content = b"".join(
        SEPARATOR + b"X: " + b"x" * piece + SEPARATOR + message + b"\n"
        for message in stored
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", len(SEPARATOR) + piece)
        messages_read = read(content)

    assert [b"X: " + b"x" * piece + SEPARATOR + m for m in stored] == messages_read


@given(
    st.lists(st.sampled_from([SEPARATOR, b"\n", b"\r\n", b"From me ", b"A: 1\n"])),
    st.integers(200, 300),
)
def test_the_size_of_blocks_does_not_matter(pieces, size):
    """A separator, and the empty line before it, may span two blocks."""
    content = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", 80)
        whole = read(content)
        patch.setattr(module, "_BLOCK", size)
        in_blocks = read(content)

    assert whole == in_blocks


@given(
    st.lists(st.sampled_from([SEPARATOR, b"\n", b"\r\n", b"From me ", b"A: 1\n"])),
    st.lists(st.integers(4, 400)),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_a_mailbox_may_be_cut_anywhere(pieces, cuts, mark):
    """Adjacent ranges deliver each message once, in the order of the mailbox."""
    content = mark + SEPARATOR + b"".join(pieces)
    bounds = [0, *sorted(cuts), None]
    ranges = [read_range(content, *some) for some in itertools.pairwise(bounds)]

    assert read(content) == [message for some in ranges for message in some]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_mailbox(content):
    """Everything but separators and the lines after messages is delivered."""
    found = read(content)

    assert all(message in content for message in found)
    assert sum(map(len, found)) <= len(content)


def test_the_standard_library_agrees(tmp_path):
    """A mailbox that the standard library wrote reads back unchanged."""
    path = tmp_path / "box"
    box = mailbox.mbox(path)
    for number in range(3):
        message = mailbox.mboxMessage(f"Subject: {number}\n\nFrom me\nto you\n")
        message.set_from("anna@example.org", time_=(2001, 9, 17, 8, 0, 0, 0, 260, 0))
        box.add(message)
    box.close()

    assert [
        (f"Subject: {n}\n\n>From me\nto you\n".encode(), f"{path}, message {n + 1}")
        for n in range(3)
    ] == [(entry.raw, entry.where) for entry in read_mailbox(path, label="ham")]


@pytest.mark.parametrize(
    "separator",
    [
        b"From anna@example.org Mon Sep 17 08:00:00 2001\n",
        b"From - Mon Sep 17 08:00:00 2001\r\n",
        b"From anna@example.org  Mon Sep  7 08:00 MET DST 2001\n",
        b"From 1234567890@xxx Mon Sep 17 08:00:00 +0000 2001\n",
        b'From "anna b"@example.org Mon Sep 17 08:00:00 2001 remote from x\n',
        b"From \r\n",
        b"From -\n",
        # Without a date of asctime, as scripts and exports write them.
        b"From anna@example.org\n",
        b"From anna@example.org\r\n",
        b"From anna@example.org Mon, 17 Sep 2001 08:00:00 +0000\n",
        b"From anna@example.org 2001-09-17 08:00:00\n",
        b"From anna@example.org 2001-09-17T08:00:00Z\n",
    ],
)
def test_separators_of_the_field_are_known(separator):
    """Mail clients write the `From ` line in many ways; a header follows."""
    content = separator + b"A: 1\n\n" + separator + b"A: 2\n"

    assert [b"A: 1\n", b"A: 2\n"] == read(content)


@pytest.mark.parametrize(
    "line",
    [
        b"From now on we meet at 8:00 sharp.\n",
        b"From 2001 on, prices rose.\n",
        b"from anna@example.org Mon Sep 17 08:00:00 2001\n",
        b"From: anna@example.org Mon, 17 Sep 2001 08:00:00\n",
    ],
)
def test_a_sentence_does_not_end_a_message(line):
    """`From ` begins a message only with a time and a year behind it."""
    message = b"Subject: hello\n\n" + line

    assert [message] == read(SEPARATOR + message)


@pytest.mark.parametrize(
    "line",
    [
        b"From anna@example.org\n",
        b"From anna@example.org I heard in 2001 at 8:00\n",
        b"From bob we heard in 2001 at 8:00\nNote: this\n",
    ],
)
def test_a_line_without_a_header_after_it_does_not_end_a_message(line):
    """A sentence without an address does not end one either."""
    message = b"Subject: hello\n\n" + line + b"she said\n"

    assert [message] == read(SEPARATOR + message)


def test_a_byte_order_mark_before_the_first_line_is_left_out(tmp_path):
    """It is removed before the first separator, and stays in a message."""
    path = tmp_path / "box"
    path.write_bytes(b"\xef\xbb\xbf" + (SEPARATOR + b"A: 1\n\n") * 2)

    assert is_mbox(path)
    assert [b"A: 1\n", b"A: 1\n"] == [e.raw for e in read_mailbox(path, label=None)]
    assert [b"\xef\xbb\xbfA: 1\n"] == read(b"\xef\xbb\xbfA: 1\n")


def test_a_separator_needs_an_empty_line_before_it():
    """A forwarded `From ` line inside a paragraph stays where it is."""
    message = b"Subject: hello\n\nShe wrote:\n" + SEPARATOR

    assert [message] == read(SEPARATOR + message)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_empty_line_between_messages_is_the_mailbox_own(end):
    """At most one empty line is removed from the end of a message."""
    message = b"A: 1" + end + end + b"text" + end + end
    separator = SEPARATOR.replace(b"\n", end)

    assert [message, message] == read((separator + message + end) * 2)


def test_messages_without_a_byte_are_left_out():
    """Two adjacent separators hold no message."""
    assert [b"A: 1\n"] == read(SEPARATOR + b"\n" + SEPARATOR + b"A: 1\n")
    assert [] == read(b"")


def test_what_is_over_the_limit_is_skipped_within_its_message(monkeypatch):
    """A message too large is cut, and the next one is found again."""
    monkeypatch.setattr(module, "MESSAGE_LIMIT", 10)
    content = SEPARATOR + b"A: 1\n" * 9 + b"\n" + SEPARATOR + b"A: 2\n"

    assert [b"A: 1\nA: 1\n", b"A: 2\n"] == read(content)


def test_a_mailbox_is_told_by_its_first_line(tmp_path):
    """A message begins with a header, a mailbox with a separator."""
    path = tmp_path / "file"

    path.write_bytes(SEPARATOR + b"A: 1\n")
    assert is_mbox(path)
    path.write_bytes(b"From: anna@example.org\n\n" + SEPARATOR)
    assert not is_mbox(path)


def test_a_mailbox_that_cannot_be_read_is_an_error(tmp_path):
    """The error has the path and the reason of the operating system."""
    with pytest.raises(UnreadableSource, match=r"cannot read .*: Is a directory"):
        is_mbox(tmp_path)
    with pytest.raises(UnreadableSource, match=r"cannot read .*: Is a directory"):
        list(read_mailbox(tmp_path, label=None))
