"""The spamd door: conversations under every cut, and what is answered."""

from __future__ import annotations

import asyncio
from email import message_from_bytes
from email.header import decode_header, make_header
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.spamd import server
from app.doors.spamd.server import Spamd
from app.errors import PostbayesError
from app.services.recipients import MAX_RECIPIENTS
from app.settings import Settings
from tests.support import transcript
from tests.support.spamd import SPAM, Pieces, answer, request
from tests.support.standin import Application

TRANSCRIPTS = transcript.paths("spamd")


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_conversation_is_the_same_under_every_cut(path):
    """However the network cuts the bytes of a request, the answer is the same."""
    sent, expected = transcript.load(path)
    door = Application()

    async def answers():
        for cut in range(len(sent) + 1):
            connection = Pieces([sent[:cut], sent[cut:]])
            door.feedback.learned.clear()
            await Spamd(door).serve(connection)
            yield connection.answer

    async def collect():
        return [each async for each in answers()]

    assert [expected] * (len(sent) + 1) == asyncio.run(collect())


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_conversation_is_the_same_byte_by_byte(path):
    """The slowest of clients gets the same answer."""
    sent, expected = transcript.load(path)

    assert expected == answer(*(sent[n : n + 1] for n in range(len(sent))))


def test_the_user_says_which_profile_answers():
    """A user with a profile has his own; others, and several, have the site's."""
    profiles = [
        answer(request("HEADERS SPAMC/1.5", f"User: {user}"))
        for user in (
            "Bob+lists@Example.org",
            "bob@example.org, ",
            "carl",
            "bob@example.org, carl",
            ",",
        )
    ]

    assert [True, True, False, False, False] == [
        b"X-Postbayes-Profile: bob@example.org\n" in each for each in profiles
    ]


def test_users_beyond_the_limit_do_not_choose_the_profile():
    """The fields of a request have room for a million users."""
    many = f"Rcpt: {','.join(400 * ['bob@example.org'])}"
    rest = f"Rcpt: {','.join((MAX_RECIPIENTS - 800) * ['bob@example.org'])},carl"

    said = answer(request("CHECK RSPAMC/1.3", many, many, rest))

    assert b"Profile: bob@example.org\r\n" in said


def test_the_score_is_on_the_scale_of_the_settings():
    """From POSTBAYES_REJECT_FROM up a message has 15 points or more."""
    both = SPAM + b"and pills\n"
    sent = request("CHECK SPAMC/1.5", message=both)
    below, above = (
        answer(sent, application=Application(reject_from=nats)) for nats in (9.0, 8.0)
    )

    assert b"; 13.4 / 5.0" in below
    assert b"; 15.0 / 5.0" in above


@pytest.mark.parametrize("kind", ["HEADERS", "REPORT"])
def test_the_words_of_a_message_can_be_kept_out_of_the_answer(kind):
    """With POSTBAYES_EXPLAIN_MAIL=false neither header nor report names any."""
    sent = request(f"{kind} SPAMC/1.5", message=b"Subject: x\n\nget money\n")
    said, silent = (
        answer(sent, application=Application(explain_mail=explains))
        for explains in (True, False)
    )

    assert b"money" in said
    assert b"money" not in silent
    assert b"Postbayes" in silent


def test_a_report_has_the_letters_of_the_message():
    """In UTF-8, with its length in bytes; the headers have encoded words."""
    message = "Subject: x\n\n無料\n".encode()
    report, headers = (
        answer(request(f"{kind} SPAMC/1.5", message=message))
        for kind in ("REPORT", "HEADERS")
    )
    head, _, body = report.partition(b"\r\n\r\n")

    assert "Words of the text: 無料\n" in body.decode()
    assert f"Content-length: {len(body)}".encode() in head
    explained = message_from_bytes(headers.partition(b"\r\n\r\n")[2])
    assert headers.isascii()
    assert "無料" in str(
        make_header(decode_header(explained["X-Postbayes-Explanation"]))
    )


def test_what_was_asked_for_is_counted():
    """By door and action, for a monitoring system."""
    app = Application()
    for message in (SPAM, SPAM, b"Subject: lunch\n\nat noon\n"):
        answer(request("CHECK SPAMC/1.5", message=message), application=app)

    assert {"none": 1, "add header": 2, "unmarked": 0} == app.tally.counts(
        "postbayes_actions", "action"
    )


def test_every_error_has_a_code():
    """An error that is added to the tree is answered somehow."""
    assert PostbayesError in server.CODES


SENT = [transcript.load(path)[0] for path in TRANSCRIPTS]


@given(
    st.sampled_from(SENT),
    st.lists(st.tuples(st.integers(0, 500), st.binary(max_size=4)), max_size=6),
    st.lists(st.integers(0, 500), max_size=4),
    st.permutations(range(4)),
)
def test_damaged_conversations_are_answered(sent, changes, cuts, order):
    """Bytes overwritten, cut and put in another order end in an answer."""
    damaged = bytearray(sent)
    for at, new in changes:
        damaged[at : at + len(new)] = new
    marks = sorted({0, *(min(cut, len(damaged)) for cut in cuts), len(damaged)})
    pieces = [damaged[a:b] for a, b in pairwise(marks)]
    shuffled = [pieces[n] for n in order if n < len(pieces)]

    told = answer(*(bytes(piece) for piece in shuffled))

    assert b"" == told or told.startswith((b"SPAMD/1.", b"RSPAMD/1.3 0 "))


def test_the_settings_have_the_door_closed():
    """The operator enables it by giving an address."""
    defaults = Settings.model_fields

    assert (None, ("127.0.0.0/8", "::1")) == (
        defaults["spamd"].default,
        defaults["keyless_from"].default,
    )
