"""Format: the blocks of an export, and its header."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.classifier.policy import Policy
from app.errors import MalformedExport
from app.exchange import blocks as module
from app.exchange.blocks import BlockReader, BlockWriter
from app.exchange.format import (
    ExportHeader,
)

kinds = st.sampled_from([b"S", b"L", b"N"])
contents = st.lists(st.tuples(kinds, st.binary(max_size=300)), max_size=5)


def written(parts, header=b'{"a": 1}'):
    """Return a container of parts."""
    file = BytesIO()
    writer = BlockWriter(file, header)
    for kind, content in parts:
        writer.write(kind, content)
    writer.close()
    return file.getvalue()


def read(data):
    """Return header, parts and digest of a container."""
    reader = BlockReader(BytesIO(data))
    parts = [tuple(block) for block in reader]
    return reader.header, parts, reader.content


@given(contents)
def test_what_is_written_is_read(parts):
    """A container gives back its header and its parts, in their order."""
    header, found, digest = read(written(parts))

    assert (b'{"a": 1}', parts) == (header, found)
    assert len(digest) == 64


@given(contents)
def test_equal_parts_are_equal_bytes(parts):
    """No time and no chance is in the bytes."""
    assert written(parts) == written(parts)


def test_the_digest_is_of_the_contents_alone():
    """Two headers before the same parts give one digest."""
    parts = [(b"S", b"counts")]

    assert read(written(parts, b"{}"))[2] == read(written(parts, b'{"b": 2}'))[2]


def test_a_container_that_is_cut_anywhere_is_refused():
    """It is complete only at its end."""
    whole = written([(b"S", b"counts" * 9), (b"N", b"words")])
    for end in range(len(whole)):
        with pytest.raises(MalformedExport):
            read(whole[:end])


def test_a_container_with_any_byte_changed_is_refused():
    """Header, sizes, checksums and contents are all checked."""
    whole = written([(b"S", b"counts" * 9), (b"N", b"words")])
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x41
        with pytest.raises(MalformedExport):
            read(bytes(changed))


def test_a_part_cannot_be_left_out_or_moved():
    """The last block knows all others, and their order."""
    one, two = written([(b"S", b"one")]), written([(b"S", b"two")])
    start = one.index(b"\n", one.index(b"\n") + 1) + 1
    size = 1 + 4 + 4 + 32 + len(b"one")
    both = written([(b"S", b"one"), (b"S", b"two")])
    swapped = both[:start] + two[start : start + size] + one[start : start + size]
    for changed in (
        both[:start] + both[start + size :],
        swapped + both[len(swapped) :],
    ):
        with pytest.raises(MalformedExport, match="parts are missing"):
            read(changed)


def test_nothing_may_follow_the_end():
    """Bytes after the last block are forged or damaged."""
    with pytest.raises(MalformedExport, match="after its end"):
        read(written([]) + b"x")


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b\x08", b"SQLite format 3\0", b"\n\n"])
def test_another_file_is_refused_as_such(data):
    """The error says that it is the wrong file."""
    with pytest.raises(MalformedExport, match="not an export of Postbayes"):
        read(data)


def test_a_newer_format_is_refused_as_such():
    """Its sentence is that it is newer, not that it is damaged."""
    newer = written([]).replace(b"EXPORT 1", b"EXPORT 2")
    with pytest.raises(MalformedExport, match=r"format 2.*newer"):
        read(newer)


def block(kind, packed, size, content):
    """Return a block that says what it is told to say."""
    digest = sha256(kind + content).digest()
    return struct.pack("<cII32s", kind, len(packed), size, digest) + packed


@pytest.mark.parametrize("said", [1_000, 100_000_000])
def test_a_bomb_does_not_unpack_beyond_what_it_says(said):
    """However much is behind a few bytes, no more than a block is unpacked."""
    bomb = zlib.compress(bytes(200_000_000), 9)
    head = written([])[: len(b"POSTBAYES-EXPORT 1\n") + len(b'{"a": 1}\n')]
    with pytest.raises(MalformedExport, match=r"size|allowed"):
        read(head + block(b"S", bomb, said, b""))


def test_a_block_that_is_no_zlib_is_refused():
    """The sizes say that it is packed."""
    head = written([])[: len(b"POSTBAYES-EXPORT 1\n") + len(b'{"a": 1}\n')]
    with pytest.raises(MalformedExport, match="cannot be unpacked"):
        read(head + block(b"S", b"abc", 5, b"abcde"))


def test_a_block_that_no_reader_takes_is_not_written(monkeypatch):
    """Writing and reading have one limit."""
    monkeypatch.setattr(module, "LARGEST", 10)
    with pytest.raises(MalformedExport, match="too large"):
        written([(b"S", b"x" * 11)])


def test_many_blocks_are_no_bomb_either(monkeypatch):
    """What each of them may unpack to, all of them together may not."""
    monkeypatch.setattr(module, "LARGEST", 100_000)
    with pytest.raises(MalformedExport, match="100 times its size"):
        read(written([(b"S", bytes(100_000))] * 3))


HEADER = ExportHeader(
    postbayes="0.1.0",
    profile="example.org",
    created=datetime(2026, 3, 14, 9, 30, tzinfo=UTC),
    feature_set=1,
    labels=("ham", "spam"),
    spam_labels=("spam",),
    contents="counts",
    words=True,
    revision=12,
    views={"pairs": {"ham": 3}, "words": {"ham": 4, "spam": 5}},
)


def test_a_header_is_one_line_of_json_and_is_read_back():
    """A person can read it with `head -2`."""
    line = HEADER.encode()

    assert b"\n" not in line
    assert HEADER == ExportHeader.decode(line)


def test_its_messages_are_those_of_the_view_that_has_most():
    """A view that came later has learned fewer."""
    assert HEADER.messages == {"ham": 4, "spam": 5}


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": ["ham"]},
        {"labels": "ham"},
        {"labels": [1, 2]},
        {"spam_labels": ["junk"]},
        {"profile": "a b"},
        {"profile": None},
        {"created": "yesterday"},
        {"created": "2026-03-14T09:30:00"},
        {"created": 5},
        {"feature_set": "1"},
        {"feature_set": True},
        {"revision": -1},
        {"revision": 2**70},
        {"contents": "mail"},
        {"views": []},
        {"policy": None},
        {"policy": {"ham_cost": 0}},
        {"policy": {"reject_from": [1]}},
        {"views": {"words": {"ham": 1.5}}},
    ],
)
def test_a_header_that_no_profile_has_is_refused(changed):
    """Its values are used, so they must be valid."""
    line = json.dumps(json.loads(HEADER.encode()) | changed).encode()
    with pytest.raises(MalformedExport, match="header of this export"):
        ExportHeader.decode(line)


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b"\xff", b"[" * 60_000])
def test_what_is_no_header_is_refused(line):
    """Whatever the line is."""
    with pytest.raises(MalformedExport, match="header of this export"):
        ExportHeader.decode(line)


@pytest.mark.parametrize("policy", [None, Policy(), Policy(reject_from="never")])
def test_a_header_says_what_the_profile_decides_by(policy):
    """Older ones do not, and are read all the same."""
    header = replace(HEADER, policy=policy)

    assert header == ExportHeader.decode(header.encode())
    assert (policy is not None) == (b'"policy"' in header.encode())
