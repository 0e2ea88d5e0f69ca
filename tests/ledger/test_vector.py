"""The bytes of a message's vector."""

from __future__ import annotations

import struct
import zlib
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.bayes.models.chain import runs_of
from app.bayes.sparse import SparseCounts
from app.errors import CorruptVector, InvalidObservation
from app.features.extract import VIEWS, extract
from app.ledger import vector
from app.ledger.vector import VERSION, decode, encode
from app.mail.parse import parse
from app.zstd import packed
from tests.support.vectors import features, view_names

views_of_messages = st.dictionaries(view_names, features, max_size=4)
MESSAGE = {
    "words": SparseCounts.of({-5: 1, 7: 3, 2**62: 1}),
    "headers": SparseCounts.of({1: 1, 2: 1}),
    "pairs": SparseCounts.of({1: 1, 16: 4}),
}


def signed(rest, version=1):
    """Return a vector of anything and the checksum that fits it."""
    return struct.pack("<BI", version, zlib.crc32(rest)) + rest


def made(body, low=b""):
    """Return a vector of version 2 with any body and any low bytes of ids."""
    return signed(struct.pack("<I", len(low)) + low + packed(body), VERSION)


@given(views_of_messages)
@example({})
@example({"words": SparseCounts.of({})})
def test_a_vector_comes_back_as_it_was(views):
    """Decoding undoes encoding, for all ids and counts of 64 bits."""
    assert views == decode(encode(views))


@given(views_of_messages)
def test_equal_vectors_are_equal_bytes(views):
    """The order in which views were filled in does not matter."""
    assert encode(views) == encode(dict(reversed(views.items())))


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


@given(st.binary(max_size=80), st.binary(max_size=28), st.sampled_from([signed, made]))
def test_any_bytes_with_a_right_checksum_are_read_or_refused(body, low, vector_of):
    """Decoding never fails in any other way than `CorruptVector`."""
    try:
        views = decode(made(body, low) if vector_of is made else signed(body))
    except CorruptVector:
        return

    assert views == decode(encode(views))


def test_a_kind_of_payload_from_the_future_is_refused():
    """The error names the view and the kind."""
    body = b"\x05words" + bytes([99]) + struct.pack("<I", 0)

    for written in (signed(body), made(body)):
        with pytest.raises(CorruptVector, match="'words' is of the unknown kind 99"):
            decode(written)


@pytest.mark.parametrize(
    ("kind", "width", "most"),
    [(2, "B", 255), (3, "H", 65_535), (4, "I", 2**32 - 1), (5, "q", 2**63 - 1)],
)
def test_counts_of_version_1_are_read(kind, width, most):
    """They took the narrowest width that holds them."""
    head = b"\x05words" + bytes([kind])
    written = signed(head + struct.pack(f"<Iqq2{width}", 2, -5, 7, 1, most))

    assert {"words": SparseCounts.of({-5: 1, 7: most})} == decode(written)


def test_features_of_version_1_are_read():
    """Vectors that were written by any version can be read for ever.

    The views that no verdict used are left out.
    """
    words = b"\x05words\x01" + struct.pack("<Iqq", 2, -5, 7)
    sizes = b"\x05sizes\x06" + struct.pack("<Iqqqq", 2, 1, 16, -3, 2**40)
    fields = b"\x09structure\x01" + struct.pack("<Iq", 1, 2)

    assert {"words": SparseCounts.of({-5: 1, 7: 1})} == (
        decode(signed(fields + sizes + words))
    )


def test_the_bytes_of_version_2_stay_as_they_are():
    """Vectors that were written by this version can be read for ever."""
    written = made(
        b"\x05sizes\x03\1\0\0\0"
        b"\x01\x10\x08"
        + struct.pack("<q", -3)
        + b"\x05words\x01\2\0\0\0"
        + bytes([0xFF, 0]),
        bytes([0xFB, *[0xFF] * 6, 12, *[0] * 6]),
    )

    assert {"words": SparseCounts.of({-5: 1, 7: 1})} == decode(written)


SENTENCES = st.lists(
    st.lists(st.sampled_from(["at", "noon", "or", "one", "two"]), max_size=9),
    max_size=4,
)


def message(sentences):
    """Return the words and pairs of sentences, and what corrections learn of them."""
    text = "\n\n".join(" ".join(words) for words in sentences)
    seen = extract(parse(f"Subject: noon\n\n{text}".encode()), VIEWS).views
    ids = np.unique(
        np.concatenate([seen[view].ids for view in ("words", "headers", "pairs")])
    )
    return {**seen, "corrections": SparseCounts(ids, np.ones_like(ids))}


def test_the_dictionary_of_names_stays_as_it_is():
    """Names that were stored are read with the bytes that they were written with."""
    digest = blake2b(vector.COMMON.dict_content, digest_size=8)

    assert "72fe149042890b80" == digest.hexdigest()


@given(SENTENCES)
def test_a_message_comes_back_as_it_was(sentences):
    """Its pairs are stored as places of words, and corrections as what they unite."""
    views = message(sentences)
    back = decode(encode(views))

    assert views == back
    assert encode(views) == encode(back)


def test_pairs_take_a_byte_or_two():
    """And what corrections learn takes nothing, where ids take eight."""
    views = message([[f"word{n}" for n in range(1000)]])
    pairs = views["pairs"]
    others = {view: x for view, x in views.items() if view != "corrections"}

    assert len(encode(views)) < len(encode(others)) + 30
    bare = {**others, "pairs": SparseCounts(pairs.ids, pairs.counts)}
    assert len(encode(others)) + 5 * pairs.size < len(encode(bare))
    assert decode(encode(others)) == decode(encode(bare))


@pytest.mark.parametrize("words", [{}, {"words": SparseCounts.of({1: 1})}])
def test_pairs_of_words_that_are_not_there_keep_their_ids(words):
    """A key or another set of views has changed the words."""
    pairs = message([["at", "noon"]])["pairs"]
    views = {**words, "pairs": pairs}

    assert views == decode(encode(views))


@pytest.mark.parametrize("places", [[4], [-1], [2**62], [0, 0]])
def test_a_pair_of_no_words_is_refused(places):
    """Two words make four pairs, each of which is there once."""
    steps = np.diff(np.array(places), prepend=0).view(np.uint8).reshape(-1, 8)
    head = b"\x05pairs\4" + struct.pack("<I", len(places))
    pairs = head + b"\x08" + steps.T.tobytes()
    words = b"\x05words\x01\2\0\0\0" + bytes(2)

    with pytest.raises(CorruptVector, match="cannot be read"):
        decode(made(pairs + words, bytes([1, *[0] * 6] * 2)))


@given(st.lists(st.integers(0, 3), max_size=30))
def test_runs_of_symbols_come_back_with_their_beginnings(symbols):
    """Only the runs are stored."""
    views = {"grams": runs_of(np.array(symbols, np.uint8))}

    assert views == decode(encode(views))


def test_a_run_takes_two_bytes_or_three():
    """Other views take eight for each id."""
    symbols = np.random.default_rng(1).integers(0, 64, 1000, np.uint8)
    runs = runs_of(symbols)

    assert len(encode({"grams": runs})) < 3 * 1000 + 100
    assert (
        len(
            encode(
                {"grams": SparseCounts.of({0: 1} | dict.fromkeys(runs.ids.tolist(), 1))}
            )
        )
        > 7 * runs.size
    )


def test_runs_are_few(monkeypatch):
    """More of them are stored as any features; a byte could stand for eighty."""
    x = {"grams": runs_of(np.arange(9, dtype=np.uint8))}
    written = encode(x)
    monkeypatch.setattr(vector, "MOST_RUNS", 8)

    with pytest.raises(CorruptVector, match="'grams' has 9 runs; 8 are allowed"):
        decode(written)
    assert x == decode(encode(x))


def test_pairs_are_few(monkeypatch):
    """More of them are stored as any features; a byte could stand for a thousand."""
    x = extract(parse(b"Subject: a b c d\n\na c b d a d b a")).views
    written = encode(x)
    monkeypatch.setattr(vector, "MOST_PAIRS", 2)

    with pytest.raises(CorruptVector, match=r"'pairs' has \d+ pairs; 2 are allowed"):
        decode(written)
    assert x == decode(encode(x))


@pytest.mark.parametrize("steps", [[2**24], [5, 0]])
def test_runs_that_are_none_are_refused(steps):
    """Out of range, or twice the same."""
    column = np.array(steps, "<u4").view(np.uint8).reshape(-1, 4).T.tobytes()
    body = b"\x05grams\x06" + struct.pack("<I", len(steps)) + b"\x04" + column

    with pytest.raises(CorruptVector, match="runs of symbols"):
        decode(made(body))


@pytest.mark.parametrize(
    ("most", "width"),
    [(1, 0), (2, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (2**32, 8)],
)
def test_counts_take_the_narrowest_width(most, width, monkeypatch):
    """A count costs nothing where all are one, else as little as holds the most."""
    monkeypatch.setattr(vector, "packed", bytes)
    x = SparseCounts.of({1: 1, 2: most})
    head = len(encode({"words": SparseCounts.of({})}))

    assert head + 2 * (8 + width) + (width > 0) == len(encode({"words": x}))


def test_a_number_of_an_unknown_width_is_refused():
    """Numbers have one, two, four or eight bytes."""
    with pytest.raises(CorruptVector, match="a number of 3 bytes is unknown"):
        decode(made(b"\x05sizes\x03\1\0\0\0\x03" + bytes(20)))


def test_ids_of_no_feature_are_refused():
    """The low bytes are those of the features, and no more."""
    with pytest.raises(CorruptVector, match="more ids than features"):
        decode(made(b"", bytes(7)))


def test_a_vector_is_not_unpacked_beyond_a_limit(monkeypatch):
    """A few bytes of zstd can stand for a gigabyte of zeros."""
    monkeypatch.setattr(vector, "LARGEST", 100)

    with pytest.raises(CorruptVector, match="more than 100 bytes"):
        decode(made(bytes(101)))
    with pytest.raises(InvalidObservation, match="too large; 100 are allowed"):
        encode({"words": SparseCounts.of(dict.fromkeys(range(100), 1))})


def test_a_version_from_the_future_is_refused():
    """The error has this version and the known one."""
    with pytest.raises(CorruptVector, match="version 9; this Postbayes reads 2"):
        decode(b"\x09" + encode(MESSAGE)[1:])


def test_ids_out_of_order_are_refused():
    """A vector that is no sparse vector does not become one."""
    earlier = signed(b"\x01w\x01" + struct.pack("<Iqq", 2, 5, 5))
    written = made(b"\x01w\x01\2\0\0\0" + bytes(2), bytes([5, *[0] * 13]))

    for each in (earlier, written):
        with pytest.raises(CorruptVector, match="strictly increasing"):
            decode(each)


def test_a_view_that_is_there_twice_is_refused():
    """Neither of the two is silently dropped."""
    view = b"\x01w\x01" + struct.pack("<Iq", 1, 5)

    with pytest.raises(CorruptVector, match="'w' is there twice"):
        decode(signed(view + view))


def test_a_vector_has_few_views():
    """Each takes seven bytes there, and a hundred times as many in memory."""
    views = {str(n): SparseCounts.of({}) for n in range(vector.MOST_VIEWS + 1)}

    with pytest.raises(CorruptVector, match="more than 64 views"):
        decode(encode(views))
