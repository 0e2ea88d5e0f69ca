"""Packets of the milter protocol: whole, cut, and of any other bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.milter import codec
from app.doors.milter.codec import MAX_PACKET_BYTES, MilterProtocolError, PacketDecoder

EVENTS = [
    (b"O\0\0\0\6\0\0\1\xff\0\x1f\xff\xff", codec.Negotiate(6, 0x1FF, 0x1FFFFF)),
    (
        b"DMi\0A1\0{auth_authen}\0bob\0",
        codec.Macros({"i": "A1", "{auth_authen}": "bob"}),
    ),
    (b"DH", codec.Macros({})),
    (b"Cmx\0" + b"4\0\x19192.0.2.1\0", codec.Connect("mx", "192.0.2.1")),
    (b"Cmx\0U", codec.Connect("mx", "")),
    (b"Hmx\0", codec.Helo("mx")),
    (b"M<a@b>\0size=1\0", codec.Mail("<a@b>")),
    (b"R<a@b>\0", codec.Recipient("<a@b>")),
    (b"LSubject\0 a\n b\0", codec.HeaderField(b"Subject", b" a\n b")),
    (b"LEmpty\0\0", codec.HeaderField(b"Empty", b"")),
    (b"N", codec.EndOfHeaders()),
    (b"Bbody\0\r\n", codec.Body(b"body\0\r\n")),
    (b"E", codec.End(b"")),
    (b"Erest", codec.End(b"rest")),
    (b"A", codec.Abort()),
    (b"K", codec.QuitClient()),
    (b"T", codec.Other()),
    (b"UXYZ\0", codec.Other()),
    (b"Q", codec.Quit()),
]
PACKETS = [codec.packet(data[:1], data[1:]) for data, _ in EVENTS]


@pytest.mark.parametrize(("data", "event"), EVENTS, ids=lambda each: repr(each)[:20])
def test_a_packet_is_an_event(data, event):
    """Each command has its form."""
    assert [event] == list(PacketDecoder().feed(codec.packet(data[:1], data[1:])))


def test_events_are_the_same_under_every_cut():
    """Wherever the network cuts the bytes, the same events come of them."""
    sent, events = b"".join(PACKETS), [event for _, event in EVENTS]

    for cut in range(len(sent) + 1):
        decoder = PacketDecoder()
        assert events == [*decoder.feed(sent[:cut]), *decoder.feed(sent[cut:])]


@given(st.lists(st.sampled_from(range(len(EVENTS)))), st.integers(1, 9))
def test_events_are_the_same_in_pieces(chosen, size):
    """Any conversation, in pieces of any size."""
    sent = b"".join(PACKETS[n] for n in chosen)
    decoder = PacketDecoder()
    found = []
    for start in range(0, len(sent), size):
        found += decoder.feed(sent[start : start + size])

    assert [EVENTS[n][1] for n in chosen] == found


@given(st.lists(st.binary(max_size=60)))
def test_any_bytes_are_events_or_no_protocol(pieces):
    """Nothing that is sent leads to another error."""
    decoder = PacketDecoder()
    try:
        for piece in pieces:
            list(decoder.feed(piece))
    except MilterProtocolError:
        return


@given(st.sampled_from(b"ABCDEHKLMNOQRTUXZ\0"), st.binary(max_size=60))
def test_any_data_of_a_command_are_an_event_or_no_protocol(command, data):
    """A command that is known, with data of any form."""
    try:
        (event,) = PacketDecoder().feed(codec.packet(bytes([command]), data))
    except MilterProtocolError:
        return
    assert isinstance(event, codec.Event)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (struct.pack("!I", 0), "a packet has 0 bytes"),
        (struct.pack("!I", MAX_PACKET_BYTES + 1), "1048577 bytes"),
        (b"GET / HTTP/1.1\r\n", "1195725856 bytes"),
        (codec.packet(b"X"), "is not a command"),
        (codec.packet(b"O", b"\0\0\0\6"), "options have 4 bytes"),
        (codec.packet(b"L", b"Subject"), "a name and a value"),
        (codec.packet(b"L", b"a\0b\0c\0"), "a name and a value"),
    ],
)
def test_what_is_not_the_protocol_is_told(sent, says):
    """The sentence says what came."""
    with pytest.raises(MilterProtocolError, match=says):
        list(PacketDecoder().feed(sent))


def test_a_packet_that_is_too_long_is_refused_before_it_arrives():
    """Its length is enough: nothing of it is held."""
    decoder = PacketDecoder()

    with pytest.raises(MilterProtocolError):
        list(decoder.feed(struct.pack("!I", 1 << 31)))


def test_macros_are_bounded():
    """A mail server that sends thousands is heard for a hundred."""
    data = b"M" + b"".join(b"{m%d}\0x\0" % n for n in range(5000))
    (event,) = PacketDecoder().feed(codec.packet(b"D", data))

    assert codec.MAX_MACROS == len(event.values)


def test_no_text_of_ours_ends_a_packet_early():
    """A NUL in a value would begin another field."""
    assert codec.packet(b"h", b"a\0bc\0") == codec.add_header("a", "b\0c")
