"""Indexes of labelled streams, in the format of the TREC spam track."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.corpora.mailbox import CorpusMessage
from app.corpora.source import LINE_LIMIT, read_index, summarise_index
from app.errors import MalformedIndex, UnreadableSource


@pytest.fixture
def corpus(tmp_path):
    """Lay out a corpus as TREC 2007 is: the index and the mail in two folders."""
    (tmp_path / "data").mkdir()
    (tmp_path / "full").mkdir()
    for name in ["1", "2", "with blank"]:
        (tmp_path / "data" / name).write_bytes(f"Subject: {name}\n".encode())
    return tmp_path


def write(corpus, content):
    """Write the index of a corpus and return its path."""
    index = corpus / "full" / "index"
    index.write_bytes(content)
    return index


def test_messages_come_in_the_order_of_the_index(corpus):
    """Paths are relative to the folder of the index, not to the working directory."""
    index = write(corpus, b"spam ../data/2\nham ../data/1\nspam ../data/2\n")
    one, two = corpus / "data" / "1", corpus / "data" / "2"

    assert [
        CorpusMessage("spam", b"Subject: 2\n", str(two)),
        CorpusMessage("ham", b"Subject: 1\n", str(one)),
        CorpusMessage("spam", b"Subject: 2\n", str(two)),
    ] == list(read_index(index))
    assert 3 == summarise_index(index).messages


def test_labels_are_taken_as_they_stand(corpus):
    """An index may have more labels than ham and spam."""
    index = write(corpus, b"newsletter ../data/1\nphishing ../data/2\n")

    assert ["newsletter", "phishing"] == [entry.label for entry in read_index(index)]


def test_lines_may_end_and_be_parted_in_other_ways(corpus):
    """Blank lines, tabs, CRLF and a missing last line end do no harm."""
    index = write(corpus, b"\r\nham\t../data/1\r\n \nspam   ../data/2")

    assert ["ham", "spam"] == [entry.label for entry in read_index(index)]


def test_a_path_may_hold_blanks(corpus):
    """The path is all that follows the label."""
    index = write(corpus, b"ham ../data/with blank\n")

    assert [b"Subject: with blank\n"] == [entry.raw for entry in read_index(index)]


def test_an_absolute_path_stays_absolute(corpus):
    """Only relative paths start from the folder of the index."""
    index = write(corpus, b"ham " + os.fsencode(corpus / "data" / "1"))

    assert [b"Subject: 1\n"] == [entry.raw for entry in read_index(index)]


@pytest.mark.parametrize(
    ("labels", "mixed"),
    [
        ("h", False),
        ("hs", False),
        ("h" * 50 + "s" * 50, False),
        ("h" * 50 + "s" * 50 + "h" * 10, False),
        ("hhshhs", True),
        ("s" * 60 + "hs" * 20, True),
        ("abc" * 9, True),
    ],
)
def test_an_index_tells_a_stream_from_an_archive(corpus, labels, mixed):
    """Alternating labels make a stream, and blocks of one label an archive."""
    index = write(corpus, b"".join(b"%c ../data/1\n" % ord(each) for each in labels))

    assert (len(labels), mixed) == summarise_index(index)


def test_a_path_may_be_in_no_encoding(corpus):
    """A file name is bytes, and need not be UTF-8."""
    name = b"\xff\xfe.eml"
    (corpus / "data" / os.fsdecode(name)).write_bytes(b"a")
    index = write(corpus, b"ham ../data/" + name + b"\n")

    assert [b"a"] == [entry.raw for entry in read_index(index)]


@pytest.mark.parametrize(
    ("content", "number", "quoted"),
    [
        (b"ham ../data/1\n\nspam\n", 3, "'spam'"),
        (b"ham ../data/1\nspam \t\n", 2, r"'spam \\t'"),
        (b"ham a\0b\n", 1, r"'ham a\\x00b'"),
        (b"ham " + b"a" * LINE_LIMIT + b"\n", 1, "'ham a{56}'"),
    ],
)
def test_a_malformed_line_is_named_by_its_number(corpus, content, number, quoted):
    """The error has the number of the line, its content, and the expected form."""
    index = write(corpus, content)
    sentence = f"index, line {number}: expected a label and a path, .*, got {quoted}$"

    with pytest.raises(MalformedIndex, match=sentence):
        summarise_index(index)
    with pytest.raises(MalformedIndex, match=sentence):
        list(read_index(index))


def test_a_missing_message_is_named_by_its_line(corpus):
    """Messages before it are delivered; the error names the line."""
    entries = read_index(write(corpus, b"ham ../data/1\nham ../data/9\n"))

    assert b"Subject: 1\n" == next(entries).raw
    with pytest.raises(
        UnreadableSource, match=r"index, line 2: cannot read .*/9: No such file"
    ):
        next(entries)


def test_a_missing_index_is_an_error():
    """The error has the path as it was given."""
    with pytest.raises(UnreadableSource, match="cannot read no/index: No such file"):
        summarise_index(Path("no/index"))


def test_an_index_that_names_nothing_is_an_error(corpus):
    """Otherwise a misspelt file name would look like success."""
    with pytest.raises(UnreadableSource, match=r"index lists no message$"):
        summarise_index(write(corpus, b"\n \n"))


@pytest.mark.parametrize("read", [summarise_index, lambda index: [*read_index(index)]])
def test_an_index_is_no_pipe(read):
    """A pipe is refused, because an index is read twice."""
    reader, writer = os.pipe()
    os.write(writer, b"ham 1\n")
    os.close(writer)
    try:
        with pytest.raises(
            UnreadableSource, match=r"is not a regular file, .*; save it"
        ):
            read(Path(f"/dev/fd/{reader}"))
    finally:
        os.close(reader)


@given(st.binary(max_size=300))
def test_any_bytes_are_an_index_or_a_malformed_one(tmp_path_factory, content):
    """An index of any bytes is counted, or refused with an error of ours."""
    index = tmp_path_factory.mktemp("any") / "index"
    index.write_bytes(content)
    try:
        count = summarise_index(index).messages
    except (MalformedIndex, UnreadableSource):
        count = 0

    assert count <= content.count(b"\n") + 1
