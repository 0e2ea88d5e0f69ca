"""Packets of the milter protocol: whole, cut, and of any other bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.milter import codec
from app.doors.milter.codec import (
    MAX_PACKET_BYTES,
    MilterProtocolError,
    Packet,
    PacketDecoder,
)

SENT = [
    Packet(b"O", b"\0\0\0\6\0\0\1\xff\0\x1f\xff\xff"),
    Packet(b"D", b"Mi\0A1\0{auth_authen}\0bob\0"),
    Packet(b"L", b"Subject\0 a\n b\0"),
    Packet(b"N", b""),
    Packet(b"B", b"body\0\r\n"),
    Packet(b"E", b""),
    Packet(b"X", b"of no command"),
]
PACKETS = [codec.packet(*each) for each in SENT]


@pytest.mark.parametrize("packet", SENT, ids=lambda each: repr(each)[:20])
def test_a_packet_is_its_command_and_its_data(packet):
    """The command can be any byte."""
    assert [packet] == list(PacketDecoder().feed(codec.packet(*packet)))


def test_packets_are_the_same_under_every_cut():
    """Any split of the bytes gives the same packets."""
    sent = b"".join(PACKETS)

    for cut in range(len(sent) + 1):
        decoder = PacketDecoder()
        assert SENT == [*decoder.feed(sent[:cut]), *decoder.feed(sent[cut:])]


@given(st.lists(st.sampled_from(range(len(SENT)))), st.integers(1, 9))
def test_packets_are_the_same_in_pieces(chosen, size):
    """Any conversation gives the same packets, in pieces of any size."""
    sent = b"".join(PACKETS[n] for n in chosen)
    decoder = PacketDecoder()
    found = []
    for start in range(0, len(sent), size):
        found += decoder.feed(sent[start : start + size])

    assert [SENT[n] for n in chosen] == found


@pytest.mark.parametrize(
    ("read", "data", "value"),
    [
        (codec.options, b"\0\0\0\6\0\0\1\xff\0\x1f\xff\xff", (6, 0x1FF, 0x1FFFFF)),
        (codec.macros, b"Mi\0A1\0{x}\0bob\0", {"i": "A1", "{x}": "bob"}),
        (codec.macros, b"H", {}),
        (codec.client, b"mx\0" + b"4\0\x19192.0.2.1\0", ("mx", "192.0.2.1")),
        (codec.client, b"mx\0U", ("mx", "")),
        (codec.text, b"<a@b>\0size=1\0", "<a@b>"),
        (codec.text, b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (codec.header, b"Subject\0 a\n b\0", (b"Subject", b" a\n b")),
        (codec.header, b"Empty\0\0", (b"Empty", b"")),
    ],
)
def test_the_data_of_a_command_have_their_form(read, data, value):
    """Texts end with a NUL, and numbers have four bytes."""
    assert value == read(data)


@given(st.lists(st.binary(max_size=60)))
def test_any_bytes_are_packets_or_no_protocol(pieces):
    """Any input is read, or raises this one error."""
    decoder = PacketDecoder()
    try:
        for piece in pieces:
            list(decoder.feed(piece))
    except MilterProtocolError:
        return


@given(
    st.sampled_from(
        [codec.options, codec.macros, codec.client, codec.header, codec.text]
    ),
    st.binary(max_size=60),
)
def test_any_data_are_read_or_no_protocol(read, data):
    """Any data are read, or raise this one error."""
    try:
        read(data)
    except MilterProtocolError:
        return


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (struct.pack("!I", 0), "a packet has 0 bytes"),
        (struct.pack("!I", MAX_PACKET_BYTES + 1), "1048577 bytes"),
        (b"GET / HTTP/1.1\r\n", "1195725856 bytes"),
    ],
)
def test_what_is_not_the_protocol_is_told(sent, says):
    """The error shows what was received."""
    with pytest.raises(MilterProtocolError, match=says):
        list(PacketDecoder().feed(sent))


@pytest.mark.parametrize(
    ("read", "data", "says"),
    [
        (codec.options, b"\0\0\0\6", "options have 4 bytes"),
        (codec.header, b"Subject", "a name and a value"),
        (codec.header, b"a\0b\0c\0", "a name and a value"),
    ],
)
def test_data_of_another_form_are_told(read, data, says):
    """The error says what is wrong."""
    with pytest.raises(MilterProtocolError, match=says):
        read(data)


def test_a_packet_that_is_too_long_is_refused_before_it_arrives():
    """Its length alone is enough, so nothing of it is stored."""
    decoder = PacketDecoder()

    with pytest.raises(MilterProtocolError):
        list(decoder.feed(struct.pack("!I", 1 << 31)))


def test_macros_are_bounded():
    """Of thousands of macros, a hundred are kept."""
    data = b"M" + b"".join(b"{m%d}\0x\0" % n for n in range(5000))

    assert codec.MAX_MACROS == len(codec.macros(data))


def test_no_text_of_ours_ends_a_packet_early():
    """A NUL in a value would begin another field."""
    assert codec.packet(b"h", b"a\0bc\0") == codec.add_header("a", "b\0c")
