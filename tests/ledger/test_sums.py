"""The bytes of a sum of many messages."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app import zstd
from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.bayes.state import State
from app.errors import CorruptVector, InconsistentCounts, InvalidObservation
from app.ledger import sums, vector
from app.ledger.sums import VERSION, decode_sum, encode_sum, encode_sums
from app.ledger.vector import decode_names
from tests.support.vectors import feature_ids, view_names

LABELS = ("ham", "spam", "newsletter")
signed = st.integers(-(2**63) + 1, 2**63 - 1)


@st.composite
def feature_counts(draw):
    """Statistics of features, of any sign."""
    ids = sorted(draw(st.sets(feature_ids, max_size=8)))
    numbers = st.lists(signed, min_size=3, max_size=3)
    cells = [draw(numbers) for _ in range(2 * len(ids))]
    both = np.array(cells, np.int64).reshape(2, -1, 3)
    messages = np.array(draw(numbers), np.int64)
    return FeatureCounts.of_counts(messages, np.array(ids, np.int64), both[0], both[1])


views_of_sums = st.dictionaries(view_names, feature_counts(), max_size=3).map(State)
WORDS = FeatureCounts.of(SparseCounts.of({-5: 1, 7: 3, 2**62: 1}), label=1, n_classes=3)
SUM = State(
    words=WORDS,
    pairs=FeatureCounts.of(SparseCounts.of({1: 3, 16: 1}), label=2, n_classes=3),
)


def packed(body, *, size=None, version=VERSION, pack=zstd.packed):
    """Return a sum with any body, and the head that fits it."""
    rest = struct.pack("<I", len(body) if size is None else size) + pack(body)
    return struct.pack("<BI", version, zlib.crc32(rest)) + rest


def body_of(encoded):
    """Return what was compressed."""
    return zstd.unpacked(encoded[9:], most=sums.LARGEST)


@given(views_of_sums)
@example(State())
@example(State(words=FeatureCounts.zero(3), pairs=FeatureCounts.zero(3)))
def test_a_sum_comes_back_as_it_was(views):
    """Decoding undoes encoding, for all numbers of 64 bits and both signs."""
    assert views == decode_sum(encode_sum(views, LABELS), LABELS)


@given(views_of_sums, st.permutations(LABELS))
def test_labels_are_found_by_name(views, labels):
    """A sum means the same to whoever lists the labels in another order."""
    read = decode_sum(encode_sum(views, LABELS), labels)

    for view, x in views.items():
        order = [LABELS.index(label) for label in labels]
        assert x.messages[order].tolist() == read[view].messages.tolist()
    assert views == decode_sum(encode_sum(read, labels), LABELS)


def test_views_of_earlier_versions_are_left_out():
    """Sums of measurements, by their kind, and the values of fields, by name."""
    measured = b"\5sizes\2" + bytes(8) + struct.pack("<I", 1) + bytes(8 * 8)
    valued = b"\11structure\1" + bytes(8) + struct.pack("<I", 1) + bytes(3 * 8)
    words = b"\5words\1" + bytes(8) + struct.pack("<I", 0)

    read = decode_sum(packed(b"\1\3ham" + measured + valued + words), LABELS)

    assert {"words": FeatureCounts.zero(3)} == read


def test_equal_sums_are_equal_bytes():
    """The order in which views were filled in does not matter."""
    assert encode_sum(SUM, LABELS) == encode_sum(State(reversed(SUM.items())), LABELS)


def test_a_sum_is_not_taken_for_a_message_nor_the_other_way_round():
    """The first byte tells them apart."""
    with pytest.raises(CorruptVector, match="has version 130"):
        vector.decode(encode_sum(SUM, LABELS))
    with pytest.raises(CorruptVector, match="has version 2;"):
        decode_sum(vector.encode({"words": SparseCounts.of({1: 1})}), LABELS)


def test_a_sum_cut_short_is_refused_wherever_it_was_cut():
    """No prefix of a sum is a sum."""
    encoded = encode_sum(SUM, LABELS)

    for end in range(len(encoded)):
        with pytest.raises(CorruptVector):
            decode_sum(encoded[:end], LABELS)


@given(st.data())
def test_a_changed_byte_is_noticed(data):
    """The checksum covers all that follows it."""
    encoded = bytearray(encode_sum(SUM, LABELS))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))

    with pytest.raises(CorruptVector):
        decode_sum(bytes(encoded), LABELS)


@given(views_of_sums)
def test_a_sum_of_version_1_is_read(state):
    """Its body is the same, compressed by zlib."""
    body = body_of(encode_sum(state, LABELS))
    earlier = packed(body, version=0x81, pack=zlib.compress)

    assert state == decode_sum(earlier, LABELS)


@given(st.binary(max_size=200))
def test_any_body_is_read_or_refused(body):
    """Whatever was compressed, only errors of ours are raised."""
    with suppress(CorruptVector, InconsistentCounts):
        decode_sum(packed(body), LABELS)


@given(st.data())
def test_a_body_that_was_cut_is_read_or_refused(data):
    """With a checksum that fits, too."""
    body = body_of(encode_sum(SUM, LABELS))
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    with suppress(CorruptVector):
        decode_sum(packed(cut), LABELS)


def test_a_bomb_is_not_unpacked(monkeypatch):
    """Unpacking stops at the stated size, and at the limit."""
    for module in (sums, vector):
        monkeypatch.setattr(module, "LARGEST", 1000)
    zeros = bytes(100_000)

    for size in (1, 999, 100_000):
        with pytest.raises(CorruptVector, match=f"more than {min(size, 1000)} bytes"):
            decode_sum(packed(zeros, size=size), LABELS)
    with pytest.raises(CorruptVector, match="not of the size that it says"):
        decode_sum(packed(bytes(100), size=101), LABELS)
    with pytest.raises(InvalidObservation, match="is too large; 1000 are allowed"):
        encode_sum(
            State(
                {"words": FeatureCounts.sum([WORDS] * 2, n_classes=3)}
                | {str(n): WORDS for n in range(10)}
            ),
            LABELS,
        )


def test_what_is_not_compressed_is_refused():
    """With a checksum that fits."""
    rest = struct.pack("<I", 3) + b"xyz"
    broken = struct.pack("<BI", VERSION, zlib.crc32(rest)) + rest

    with pytest.raises(CorruptVector, match="cannot be read"):
        decode_sum(broken, LABELS)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\2\1a\1a", "a label is there twice"),
        (b"\1\3ham\1w\7" + bytes(12), "of the unknown kind 7"),
        (b"\0" + b"\1w\1\0\0\0\0" * 2, "view 'w' is there twice"),
        (b"\1\x09ham", "a name is cut short"),
        (b"\0\1w\1\2\0\0\0" + bytes(16), "its features are not in order"),
        (b"\0" + b"".join(b"\1%c\1\0\0\0\0" % n for n in range(65)), "than 64 views"),
        (
            b"\0\1w\1"
            + struct.pack("<I", 300_000)
            + b"\1" * 300_000
            + bytes(2_100_000),
            "300000 features of 3 labels are 16800000 bytes",
        ),
    ],
)
def test_the_reason_of_a_refusal_is_said(body, reason):
    """Contradictory data are refused, not guessed."""
    with pytest.raises(CorruptVector, match=reason):
        decode_sum(packed(body), LABELS)


def test_a_label_that_the_profile_lacks_is_an_error():
    """The error names the label."""
    with pytest.raises(InconsistentCounts, match="'newsletter', but the labels"):
        decode_sum(encode_sum(SUM, LABELS), ("ham", "spam"))


def test_a_sum_has_the_names_that_are_known():
    """The text of some features, of one view alone, or of none."""
    known = {"words": {7: "seven"}, "pairs": {}}
    (found,) = encode_sums({0: SUM}, LABELS, known)
    (unnamed,) = encode_sums({0: SUM}, LABELS)

    names = decode_names(found.encoded_names)
    assert {"words": ("", "seven", ""), "pairs": ("", "")} == names
    assert unnamed.encoded_names is None


def test_what_cannot_be_written_is_refused():
    """Statistics of other classes."""
    with pytest.raises(InvalidObservation, match="counts of 3 labels, but there are 2"):
        encode_sum(State(words=WORDS), ("ham", "spam"))
