"""The bytes of a message's vector."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.bayes.measurements import LIMIT, Measurements
from app.bayes.sparse import SparseCounts
from app.errors import CorruptVector, InvalidObservation
from app.ledger import vector
from app.ledger.vector import VERSION, decode, decode_names, encode, encode_names
from tests.support.vectors import features, measured, measurements

views_of_messages = st.dictionaries(
    st.text(max_size=20), features | measurements, max_size=4
)
MESSAGE = {
    "words": SparseCounts.of({-5: 1, 7: 3, 2**62: 1}),
    "headers": SparseCounts.of({1: 1, 2: 1}),
    "sizes": measured({1: -3, 16: LIMIT}),
}


def signed(body):
    """Return a vector with any body and the checksum that fits it."""
    return struct.pack("<BI", VERSION, zlib.crc32(body)) + body


@given(views_of_messages)
@example({})
@example({"words": SparseCounts.of({})})
@example({"sizes": measured({})})
def test_a_vector_comes_back_as_it_was(views):
    """Decoding undoes encoding, for all ids and counts of 64 bits."""
    assert views == decode(encode(views))


@given(views_of_messages)
def test_equal_vectors_are_equal_bytes(views):
    """The order in which views were filled in does not matter."""
    assert encode(views) == encode(dict(reversed(views.items())))


@pytest.mark.parametrize(
    ("most", "width"),
    [(1, 0), (2, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32, 8)],
)
def test_counts_take_the_narrowest_width(most, width):
    """A count costs nothing where all are one, else as little as holds the most."""
    x = SparseCounts.of({1: 1, 2: most})
    head = len(encode({"words": SparseCounts.of({})}))

    assert head + 2 * (8 + width) == len(encode({"words": x}))


def test_a_decoded_vector_can_be_written_to():
    """Its arrays are its own, not windows into the bytes that were read."""
    x = decode(encode(MESSAGE))["words"]
    x.counts[0] += 1

    assert 2 == x.counts[0]
    assert np.int64 == x.ids.dtype == x.counts.dtype


def test_every_cut_is_noticed():
    """A vector that lost its end is refused, wherever it was cut."""
    whole = encode(MESSAGE)

    for length in range(len(whole)):
        with pytest.raises(CorruptVector):
            decode(whole[:length])


def test_every_flipped_bit_is_noticed():
    """A vector with one wrong bit is refused, whichever it is."""
    whole = encode(MESSAGE)

    for bit in range(8 * len(whole)):
        wrong = bytearray(whole)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptVector):
            decode(bytes(wrong))


@given(st.binary(max_size=80))
def test_any_bytes_with_a_right_checksum_are_read_or_refused(body):
    """Decoding never fails in any other way than `CorruptVector`."""
    try:
        views = decode(signed(body))
    except CorruptVector:
        return

    assert views == decode(encode(views))


def test_a_kind_of_payload_from_the_future_is_refused():
    """The sentence names the view and the kind."""
    body = b"\x05words" + bytes([99]) + struct.pack("<I", 0)

    with pytest.raises(CorruptVector, match="'words' is of the unknown kind 99"):
        decode(signed(body))


def test_a_view_without_fields_is_still_one_of_measurements():
    """Its kind is written down, not guessed from what it holds."""
    views = decode(encode({"sizes": measured({}), "words": SparseCounts.of({})}))

    assert [Measurements, SparseCounts] == [type(x) for x in views.values()]


def test_the_bytes_of_measurements_stay_as_they_are():
    """Vectors that were written by this version can be read for ever."""
    body = b"\x05sizes\x06" + struct.pack("<Iqqqq", 2, 1, 16, -3, LIMIT)

    assert signed(body) == encode({"sizes": measured({1: -3, 16: LIMIT})})


def test_a_measurement_beyond_the_limit_is_refused():
    """Its square would not fit into the sums."""
    body = b"\x05sizes\x06" + struct.pack("<Iqq", 1, 1, LIMIT + 1)

    with pytest.raises(CorruptVector, match="a measurement must be between"):
        decode(signed(body))


def test_a_version_from_the_future_is_refused():
    """The sentence says which version it is and which is known."""
    with pytest.raises(CorruptVector, match="version 9; this Postbayes reads 1"):
        decode(b"\x09" + encode(MESSAGE)[1:])


def test_ids_out_of_order_are_refused():
    """A vector that is no sparse vector does not become one."""
    body = b"\x01w\x01" + struct.pack("<Iqq", 2, 5, 5)

    with pytest.raises(CorruptVector, match="strictly increasing"):
        decode(signed(body))


def test_a_view_that_is_there_twice_is_refused():
    """Neither of the two is silently dropped."""
    view = b"\x01w\x01" + struct.pack("<Iq", 1, 5)

    with pytest.raises(CorruptVector, match="'w' is there twice"):
        decode(signed(view + view))


def test_the_name_of_a_view_is_short():
    """A name that does not fit its length byte is refused."""
    with pytest.raises(InvalidObservation, match="at most 255 bytes, got 256"):
        encode({"w" * 256: SparseCounts.of({})})


@given(
    st.dictionaries(
        st.text(),
        st.lists(st.text(st.characters(exclude_categories=()))).map(tuple),
        max_size=3,
    )
)
def test_names_come_back_as_they_were(names):
    """Any text is kept, lone surrogates and NUL too."""
    assert names == decode_names(encode_names(names))


@given(st.binary(max_size=60))
def test_any_bytes_are_names_or_refused(junk):
    """Decoding names never fails in any other way than `CorruptVector`."""
    with pytest.raises(CorruptVector):
        decode_names(junk)


@pytest.mark.parametrize(
    "text", [b"[]", b"7", b'{"words": 7}', b"{", b"\xff", b"[" * 200_000]
)
def test_compressed_text_that_is_no_names_is_refused(text):
    """What decompresses may still be something else."""
    with pytest.raises(CorruptVector):
        decode_names(zlib.compress(text))


def test_names_are_not_unpacked_beyond_a_limit(monkeypatch):
    """A few bytes of zlib can stand for a gigabyte of blanks."""
    monkeypatch.setattr(vector, "LARGEST_NAMES", 1000)

    with pytest.raises(CorruptVector, match="more than 1000 bytes"):
        decode_names(zlib.compress(b" " * 1000 + b"{}"))
    assert {} == decode_names(zlib.compress(b" " * 998 + b"{}"))


def test_names_that_something_follows_are_refused():
    """It is not what was written."""
    with pytest.raises(CorruptVector, match="do not end"):
        decode_names(zlib.compress(b"{}") + b"more")


def test_a_vector_has_few_fields():
    """The sums of their products are as many as their square."""
    fields = measured(dict.fromkeys(range(vector.MOST_FIELDS + 1), 1))

    with pytest.raises(CorruptVector, match="has 129 fields; 128 are allowed"):
        decode(encode({"sizes": fields}))


def test_a_vector_has_few_views():
    """Each takes seven bytes there, and a hundred times as many in memory."""
    views = {str(n): SparseCounts.of({}) for n in range(vector.MOST_VIEWS + 1)}

    with pytest.raises(CorruptVector, match="more than 64 views"):
        decode(encode(views))
