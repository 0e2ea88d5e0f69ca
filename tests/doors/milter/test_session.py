"""One connection without sockets: what follows on which command."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.milter import codec
from app.doors.milter.codec import MilterProtocolError, Packet
from app.doors.milter.session import (
    MAX_FORGED,
    MAX_RECIPIENTS,
    Envelope,
    MilterSession,
    Question,
)
from app.mail.limits import MAX_BYTES

OURS = frozenset({"x-postbayes"})


def options(version, actions=0, steps=0):
    """Return the offers of a mail server."""
    return Packet(b"O", struct.pack("!III", version, actions, steps))


def macros(**values):
    """Return some macros."""
    words = (word for pair in values.items() for word in pair)
    return Packet(b"D", b"M" + b"".join(word.encode() + b"\0" for word in words))


def header(name, value):
    """Return a header field."""
    return Packet(b"L", b"%b\0%b\0" % (name, value))


def recipient(address):
    """Return a recipient."""
    return Packet(b"R", address.encode() + b"\0")


def end(data=b""):
    """Return the end of a message."""
    return Packet(b"E", data)


EVERYTHING = options(6, 0x1FF, 0x1FFFFF)
MAIL = Packet(b"M", b"<a@b.example>\0")
packets = st.one_of(
    st.builds(options, st.integers(0, 9), st.integers(0, 511), st.integers(0, 2**21)),
    st.builds(
        header,
        st.sampled_from([b"X-Postbayes", b"Authentication-Results", b"A"]),
        st.binary(max_size=9).map(lambda value: value.replace(b"\0", b"")),
    ),
    st.builds(
        Packet,
        st.sampled_from([bytes([each]) for each in b"ABCDEHKLMNOQRTUXZ\0"]),
        st.binary(max_size=60),
    ),
    st.sampled_from([MAIL, end(), recipient("<c@d.example>")]),
)


def opened(*given):
    """Return a session in which everything was agreed on, and some packets came."""
    made = MilterSession(OURS)
    for packet in (EVERYTHING, *given):
        made.receive(packet)
    return made


@given(st.lists(packets, max_size=30))
def test_packets_in_any_order_are_answered_or_no_protocol(given):
    """No order leads to another error, and only the end of a message to a question."""
    made = MilterSession(OURS, "mx.example.org")
    for packet in given:
        try:
            answer = made.receive(packet)
        except MilterProtocolError:
            return
        assert (b"E" == packet.command) == isinstance(answer, Question)


@pytest.mark.parametrize("packet", [MAIL, macros(), end()])
def test_nothing_comes_before_the_options(packet):
    """A client that does not begin with them does not speak milter."""
    with pytest.raises(MilterProtocolError, match="in the state 'greeting'"):
        MilterSession(OURS).receive(packet)


@pytest.mark.parametrize(
    "packet",
    [header(b"a", b"b"), Packet(b"B", b""), end(), EVERYTHING, Packet(b"X", b"")],
)
def test_a_message_begins_with_its_sender(packet):
    """Nothing of a message is accepted before its sender."""
    with pytest.raises(MilterProtocolError, match="in the state 'open'"):
        opened().receive(packet)


def test_a_version_that_is_too_old_is_told():
    """Sendmail before 8.10 used another protocol."""
    with pytest.raises(MilterProtocolError, match="version 1 of the protocol"):
        MilterSession(OURS).receive(options(1))


def test_the_message_is_what_was_sent():
    """Headers with their folding, the empty line, and the body in its pieces."""
    made = opened(
        MAIL,
        header(b"Subject", b" a\n\tb"),
        header(b"X", b"no blank"),
        Packet(b"N", b""),
        Packet(b"B", b"one\r\n"),
        Packet(b"B", b"two"),
    )

    question = made.receive(end(b"\r\n"))

    expected = b"Subject: a\r\n\tb\r\nX:no blank\r\n\r\none\r\ntwo\r\n"
    assert expected == question.content


@pytest.mark.parametrize("body", [b"SGVsbG8=\r\n\r\n", b""])
def test_headers_that_the_body_repeats_are_read_once(body):
    """Stalwart sends the whole message as the body, also headers that are forged."""
    sent = (
        header(b"Subject", b"a\n b"),
        header(b"X-Postbayes", b"ham"),
        header(b"To", b""),
    )
    repeated = b"Subject:  a\r\n b\r\nX-Postbayes:ham \r\nTo:\r\n\r\n"
    question = opened(MAIL, *sent).receive(end(repeated + body))
    other = opened(MAIL, *sent).receive(end(repeated.replace(b"a", b"c") + body))

    assert b"Subject:a\r\n b\r\nTo:\r\n\r\n" + body == question.content
    assert (
        repeated.replace(b"a", b"c") + body == other.content.partition(b"\r\n\r\n")[2]
    )


def test_the_envelope_has_what_the_server_told():
    """Client, sender, recipients, and the macros that are read."""
    values = {"i": "A1", "j": "mx.example.org", "v": "Postfix 3.7", "{x}": "y"}
    made = opened(
        Packet(b"C", b"client.example.net\0" + b"4\0\x19192.0.2.1\0"),
        Packet(b"H", b"client\0"),
        macros(**values, **{"{auth_authen}": "bob", "{tls_version}": "TLSv1.3"}),
        MAIL,
        recipient("<c@d.example>"),
        recipient("<e@f.example>"),
    )

    assert (
        Envelope(
            client="client.example.net",
            address="192.0.2.1",
            helo="client",
            sender="<a@b.example>",
            recipients=("<c@d.example>", "<e@f.example>"),
            queue_id="A1",
            host="mx.example.org",
            program="Postfix 3.7",
            tls="TLSv1.3",
            user="bob",
        )
        == made.receive(end()).envelope
    )


def test_the_rest_of_a_large_message_is_skipped():
    """What is not looked at is not sent, where the mail server can be told."""
    made = opened(MAIL)
    piece = Packet(b"B", bytes(65_535))

    answers = [made.receive(piece) for _ in range(MAX_BYTES // 65_535 + 2)]
    question = made.receive(end(b"more"))

    assert {codec.CONTINUE} == set(answers[:-2])
    assert codec.SKIP == answers[-1]
    assert MAX_BYTES + 1 + len(b"\r\n") == len(question.content)


def test_a_large_message_is_bounded_where_it_cannot_be_skipped():
    """Headers and body together, whatever is sent of them."""
    made = MilterSession(OURS)
    made.receive(options(2))
    made.receive(MAIL)
    for _ in range(5):
        made.receive(header(b"a", 1_000_000 * b"x"))
        made.receive(Packet(b"B", bytes(1_000_000)))

    question = made.receive(end())

    assert MAX_BYTES + 1 + len(b"\r\n") == len(question.content)


def test_recipients_are_bounded():
    """Recipients beyond the limit are dropped, and long ones are cut."""
    made = opened(MAIL, *[recipient(f"<{n}@b.example>" * 200) for n in range(2000)])

    found = made.receive(end()).envelope.recipients

    assert MAX_RECIPIENTS == len(found)
    assert {codec.MAX_TEXT_BYTES} == set(map(len, found))


def test_forged_headers_are_deleted_from_the_last_one_up():
    """The number of each is right when its turn comes, and there are not too many."""
    made = opened(MAIL, *[header(b"X-PostBayes", b"")] * (MAX_FORGED + 5))

    answer = made.receive(end()).accept()

    first = codec.delete_header(b"x-postbayes", MAX_FORGED)
    last = codec.delete_header(b"x-postbayes", 1)
    assert answer.startswith(first)
    assert answer.endswith(last + codec.CONTINUE)


def test_results_of_our_name_are_deleted_and_others_stay():
    """By their number among all of the name; what is deleted is not scored either."""
    made = MilterSession(OURS, "mx.example.org")
    values = [
        b" mx.example.net; spf=pass",
        b" mx.example.org; dkim=pass",
        b' (x) "MX.example\\.org" 1; x-postbayes=ham',
    ]
    for packet in (EVERYTHING, MAIL):
        made.receive(packet)
    for value in values:
        made.receive(header(b"Authentication-Results", value))
    made.receive(header(b"Subject", b" noon"))

    question = made.receive(end())

    kept = b"Authentication-Results: mx.example.net; spf=pass\r\nSubject: noon\r\n\r\n"
    deleted = b"".join(
        codec.delete_header(b"authentication-results", number) for number in (3, 2)
    )
    assert kept == question.content
    assert deleted + codec.CONTINUE == question.accept()


def test_without_a_name_nobodys_results_are_touched():
    """Without a name of our own, it is unknown which ones are forged."""
    made = opened(MAIL, header(b"Authentication-Results", b" mx; spf=pass"))

    assert codec.CONTINUE == made.receive(end()).accept()
