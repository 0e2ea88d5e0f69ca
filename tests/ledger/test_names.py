"""The text of features as bytes."""

from __future__ import annotations

import zlib
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptVector
from app.ledger import vector as module
from app.ledger.vector import decode_names, encode_names
from app.zstd import packed
from tests.support.vectors import view_names


@given(
    st.dictionaries(
        view_names,
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
@pytest.mark.parametrize("pack", [zlib.compress, packed])
def test_compressed_text_that_is_no_names_is_refused(text, pack):
    """What decompresses may still be something else."""
    with pytest.raises(CorruptVector):
        decode_names(pack(text))


def test_names_are_not_unpacked_beyond_a_limit(monkeypatch):
    """A few bytes can stand for a gigabyte of blanks."""
    monkeypatch.setattr(module, "LARGEST_NAMES", 1000)

    for pack in (zlib.compress, packed):
        with pytest.raises(CorruptVector, match="more than 1000 bytes"):
            decode_names(pack(b" " * 1000 + b"{}"))
        assert {} == decode_names(pack(b" " * 998 + b"{}"))


def test_names_that_something_follows_are_refused():
    """It is not what was written."""
    for whole in (zlib.compress(b"{}"), encode_names({})):
        with pytest.raises(CorruptVector, match="do not end"):
            decode_names(whole + b"more")


def test_a_changed_byte_is_noticed():
    """Names have a checksum of their own."""
    whole = encode_names({"words": ("money", "subject:money")})

    for at in range(len(whole)):
        wrong = bytearray(whole)
        wrong[at] ^= 1
        with pytest.raises(CorruptVector):
            decode_names(bytes(wrong))


def test_names_of_zlib_are_read():
    """Versions before compressed the same text so."""
    written = b'{"words":["money","caf\\u00e9"]}'

    assert {"words": ("money", "caf\u00e9")} == decode_names(zlib.compress(written))


def test_the_common_text_is_part_of_the_format():
    """With another, what is stored could not be read."""
    content = module.COMMON.dict_content

    assert "72fe149042890b80" == blake2b(content, digest_size=8).hexdigest()
