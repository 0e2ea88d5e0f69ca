"""Bytes and events of the spamd protocol, and sentences that cannot break it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.spamd import codec
from app.doors.spamd.codec import MAX_FIELDS, MAX_LINE_BYTES, Request, SpamdSession
from tests.support.spamd import LIMIT, answer


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
        assert len(session._decoder._held) <= MAX_LINE_BYTES + 1  # noqa: SLF001
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
