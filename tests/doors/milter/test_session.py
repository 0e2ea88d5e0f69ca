"""One connection without sockets: what follows on which event."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.milter import codec
from app.doors.milter.codec import MilterProtocolError
from app.doors.milter.question import Envelope, Marks, Question
from app.doors.milter.session import MAX_FORGED, MAX_RECIPIENTS, MilterSession
from app.mail.limits import MAX_BYTES

OURS = frozenset({"x-postbayes"})
EVERYTHING = codec.Negotiate(6, 0x1FF, 0x1FFFFF)
MAIL = codec.Mail("<a@b.example>")

events = st.one_of(
    st.builds(
        codec.Negotiate, st.integers(0, 9), st.integers(0, 511), st.integers(0, 2**21)
    ),
    st.builds(
        codec.Macros, st.dictionaries(st.sampled_from("ijv"), st.text(max_size=3))
    ),
    st.builds(
        codec.HeaderField,
        st.sampled_from([b"X-Postbayes", b"Authentication-Results", b"A"]),
        st.binary(max_size=9),
    ),
    st.builds(codec.Body, st.binary(max_size=9)),
    st.builds(codec.End, st.binary(max_size=9)),
    st.sampled_from(
        [
            MAIL,
            codec.Recipient("<c@d.example>"),
            codec.Connect("mx", ""),
            codec.Helo("mx"),
            codec.EndOfHeaders(),
            codec.Abort(),
            codec.Quit(),
            codec.QuitClient(),
            codec.Other(),
        ]
    ),
)


def opened(*given):
    """Return a session in which everything was agreed on, and some events came."""
    made = MilterSession(OURS)
    for event in (EVERYTHING, *given):
        made.receive(event)
    return made


@given(st.lists(events, max_size=30))
def test_events_in_any_order_are_answered_or_no_protocol(given):
    """No order leads to another error, and only the end of a message to a question."""
    made = MilterSession(OURS, "mx.example.org")
    for event in given:
        try:
            answer = made.receive(event)
        except MilterProtocolError:
            return
        assert isinstance(event, codec.End) == isinstance(answer, Question)


@pytest.mark.parametrize("event", [MAIL, codec.Macros({}), codec.End(b"")])
def test_nothing_comes_before_the_options(event):
    """A client that does not begin with them does not speak milter."""
    with pytest.raises(MilterProtocolError, match="in the state 'greeting'"):
        MilterSession(OURS).receive(event)


@pytest.mark.parametrize(
    "event",
    [codec.HeaderField(b"a", b"b"), codec.Body(b""), codec.End(b""), EVERYTHING],
)
def test_a_message_begins_with_its_sender(event):
    """What belongs to a message does not come without one."""
    with pytest.raises(MilterProtocolError, match="in the state 'open'"):
        opened().receive(event)


def test_a_version_that_is_too_old_is_told():
    """The protocol before Sendmail 8.10 was another one."""
    with pytest.raises(MilterProtocolError, match="version 1 of the protocol"):
        MilterSession(OURS).receive(codec.Negotiate(1, 0, 0))


def test_the_message_is_what_was_sent():
    """Headers with their folding, the empty line, and the body in its pieces."""
    made = opened(
        MAIL,
        codec.HeaderField(b"Subject", b" a\n\tb"),
        codec.HeaderField(b"X", b"no blank"),
        codec.EndOfHeaders(),
        codec.Body(b"one\r\n"),
        codec.Body(b"two"),
    )

    question = made.receive(codec.End(b"\r\n"))

    expected = b"Subject: a\r\n\tb\r\nX:no blank\r\n\r\none\r\ntwo\r\n"
    assert expected == question.content


def test_the_envelope_has_what_the_server_told():
    """Client, sender, recipients, and the macros that are read."""
    values = {"i": "A1", "j": "mx.example.org", "v": "Postfix 3.7", "{x}": "y"}
    made = opened(
        codec.Connect("client.example.net", "192.0.2.1"),
        codec.Helo("client"),
        codec.Macros(values | {"{auth_authen}": "bob", "{tls_version}": "TLSv1.3"}),
        MAIL,
        codec.Recipient("<c@d.example>"),
        codec.Recipient("<e@f.example>"),
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
        == made.receive(codec.End(b"")).envelope
    )


def test_the_rest_of_a_large_message_is_skipped():
    """What is not looked at is not sent, where the mail server can be told."""
    made = opened(MAIL)
    piece = codec.Body(bytes(65_535))

    answers = [made.receive(piece) for _ in range(MAX_BYTES // 65_535 + 2)]
    question = made.receive(codec.End(b"more"))

    assert {codec.CONTINUE} == set(answers[:-2])
    assert codec.SKIP == answers[-1]
    assert MAX_BYTES + 1 + len(b"\r\n") == len(question.content)


def test_a_large_message_is_bounded_where_it_cannot_be_skipped():
    """Headers and body together, whatever is sent of them."""
    made = MilterSession(OURS)
    made.receive(codec.Negotiate(2, 0, 0))
    made.receive(MAIL)
    for _ in range(5):
        made.receive(codec.HeaderField(b"a", bytes(1_000_000)))
        made.receive(codec.Body(bytes(1_000_000)))

    question = made.receive(codec.End(b""))

    assert MAX_BYTES + 1 + len(b"\r\n") == len(question.content)


def test_recipients_are_bounded():
    """Those beyond the limit are not kept."""
    made = opened(MAIL, *[codec.Recipient(f"<{n}@b.example>") for n in range(2000)])

    assert MAX_RECIPIENTS == len(made.receive(codec.End(b"")).envelope.recipients)


def test_forged_headers_are_deleted_from_the_last_one_up():
    """The number of each is right when its turn comes, and there are not too many."""
    made = opened(MAIL, *[codec.HeaderField(b"X-PostBayes", b"")] * (MAX_FORGED + 5))

    answer = made.receive(codec.End(b"")).accept(Marks())

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
    for event in (EVERYTHING, MAIL):
        made.receive(event)
    for value in values:
        made.receive(codec.HeaderField(b"Authentication-Results", value))
    made.receive(codec.HeaderField(b"Subject", b" noon"))

    question = made.receive(codec.End(b""))

    kept = b"Authentication-Results: mx.example.net; spf=pass\r\nSubject: noon\r\n\r\n"
    deleted = b"".join(
        codec.delete_header(b"authentication-results", number) for number in (3, 2)
    )
    assert kept == question.content
    assert deleted + codec.CONTINUE == question.accept(Marks())


def test_without_a_name_nobodys_results_are_touched():
    """Whoever does not write them does not know which are forged."""
    made = opened(MAIL, codec.HeaderField(b"Authentication-Results", b" mx; spf=pass"))

    assert codec.CONTINUE == made.receive(codec.End(b"")).accept(Marks())
