"""Protocol of spamd without I/O: any bytes in any pieces, and how much is held of them."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.spamd import codec
from app.doors.spamd.codec import MAX_FIELDS, MAX_LINE_BYTES, Request, SpamdSession
from app.mail.limits import MAX_BYTES
from tests.support.spamd import LIMIT, SPAM, answer, feed, request


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b"x" * (MAX_LINE_BYTES + 2), b"a line of more than 8192 bytes"),
        (b"CHECK SPAMC/1.5\r\n" + b"a: b\r\n" * (MAX_FIELDS + 1), b"more than 255"),
        (b"CHECK SPAMC/1.5\r\nContent-length: \xd9\xa3\r\n\r\n", b"not a number"),
        (b"CHECK SPAMC/1.5\r\nContent-length: -1\r\n\r\n", b"not a number"),
        (b"\r\n", b"(nothing)"),
        (b"\xff\xfe\r\n", b"??"),
    ],
)
def test_what_is_too_much_or_malformed_is_told(sent, sentence):
    """One line with the code of a protocol error, and no more is read."""
    told = answer(sent)

    assert told.startswith(b"SPAMD/1.0 76 Bad header line: ")
    assert sentence in told
    assert 1 == told.count(b"\n")


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_any_bytes_have_an_answer_or_wait_for_more(pieces):
    """Nothing a stranger sends raises, and no more is held than a line."""
    session = SpamdSession(limit=LIMIT)
    for piece in pieces:
        if not piece:
            continue
        result = session.receive(piece)
        assert len(session._held) <= MAX_LINE_BYTES + 1  # noqa: SLF001
        if result is not None:
            break
    else:
        result = session.receive(b"")

    assert isinstance(result, bytes | Request)


@pytest.mark.parametrize("sentence", ["a\r\nSPAMD/1.1 0 EX_OK", "ü\0", "x" * 5000])
def test_a_sentence_is_one_line_whatever_it_quotes(sentence):
    """What a client sent cannot end the line that tells of it."""
    line = codec.failure(76, sentence)

    assert line.isascii()
    assert 1 == line.count(b"\n")
    assert len(line) < 1000


def test_a_compressed_message_is_the_message():
    """What spamc -z sends is scored as what spamc sends."""
    packed = zlib.compress(SPAM)
    sent = request("CHECK SPAMC/1.5", "Compress: zlib", message=packed)

    expected = b"SPAMD/1.1 0 EX_OK\r\nSpam: True ; 5.5 / 5.0\r\n\r\n"
    for cut in range(len(sent)):
        assert expected == answer(sent[:cut], sent[cut:])


def test_a_compressed_message_may_not_end_early():
    """Half of a message is not scored as if it were the whole."""
    packed = zlib.compress(SPAM)[:-6]

    assert b"SPAMD/1.0 76 Bad header line: (the compressed message is" in answer(
        request("CHECK SPAMC/1.5", "Compress: zlib", message=packed)
    )


def test_a_bomb_inflates_to_what_is_looked_at_and_no_further():
    """A megabyte that inflates to a gigabyte costs the memory of one message."""
    packed = zlib.compressobj()
    bomb = b"".join(packed.compress(bytes(1 << 20)) for _ in range(64)) + packed.flush()
    session = SpamdSession(limit=1 << 20)

    (found,) = feed(session, request("CHECK SPAMC/1.5", "Compress: zlib", message=bomb))

    assert len(bomb) < 100_000
    assert (MAX_BYTES + 1, False) == (len(found.message), found.whole)


def test_no_more_of_a_message_is_kept_than_is_looked_at():
    """A large message is counted to its end, and scored by its beginning."""
    session = SpamdSession(limit=3 * MAX_BYTES)

    (found,) = feed(session, request("CHECK SPAMC/1.5", message=bytes(2 * MAX_BYTES)))

    assert (MAX_BYTES + 1, False) == (len(found.message), found.whole)


def test_a_message_that_is_not_held_whole_is_not_given_back():
    """A shortened message must not take the place of a whole one."""
    large = SPAM + b"x" * MAX_BYTES

    assert b"SPAMD/1.0 65 a message of more than" in answer(
        request("PROCESS SPAMC/1.5", message=large)
    )
    assert b"X-Postbayes: spam" in answer(request("HEADERS SPAMC/1.5", message=large))


@pytest.mark.parametrize(
    "sent",
    [
        b"CHECK SPAMC/1.5\r\nContent-length: 10001\r\n\r\n",
        b"CHECK SPAMC/1.5\r\n\r\n" + b"x" * 10_001,
        b"CHECK SPAMC/1.5\r\nContent-length: 999999999999999999\r\n\r\n",
    ],
)
def test_a_message_over_the_limit_is_refused_at_once(sent):
    """By the announced length before it is sent, or as soon as it exceeds the limit."""
    (refusal,) = feed(SpamdSession(limit=LIMIT), sent, size=100)

    assert refusal.startswith(b"SPAMD/1.0 65 the message has more than 10000 bytes")


def test_more_than_was_announced_is_refused():
    """A message is not given back without its end."""
    assert b"Content-length mismatch: expected 1 bytes, got 51" in answer(
        b"PROCESS SPAMC/1.5\r\nContent-length: 1\r\n\r\n" + SPAM + b"!"
    )


@pytest.mark.parametrize("size", [1, 10_000])
def test_an_empty_line_after_the_message_is_not_part_of_it(size):
    """The packages spamc of npm and of PyPI send one beyond the length, as spamd allows."""
    head = b"PROCESS SPAMC/1.5\r\nContent-length: %d\r\n\r\n" % len(SPAM)

    (request,) = feed(SpamdSession(limit=LIMIT), head + SPAM + b"\r\n", size=size)

    assert request.message == SPAM


@pytest.mark.parametrize("sent", [b"", b"CHECK SPAM"])
def test_who_hangs_up_before_asking_gets_no_answer(sent):
    """A monitor that only connects does not cause an error."""
    assert b"" == answer(sent)


def test_as_many_fields_are_read_as_a_request_may_have():
    """The last one counts like the first."""
    fields = ["a: b"] * (MAX_FIELDS - 2)

    assert b"X-Postbayes-Profile: bob@example.org\n" in answer(
        request("HEADERS SPAMC/1.5", *fields, "User: bob@example.org")
    )


def test_what_ends_among_its_fields_has_no_message():
    """The answer is that of an empty one."""
    assert answer(b"CHECK SPAMC/1.5\r\nUser: ann").startswith(b"SPAMD/1.0 66 ")
