"""Mail programs attach what is forwarded in ways of their own; each way is read."""

from __future__ import annotations

from base64 import encodebytes
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mail.limits import MAX_FORWARDED, MAX_FORWARDED_BYTES
from app.mail.parse import Forwarded, forwarded
from tests.support.messages import HAM, SPAM, spam

ID = "0123456789abcdef" * 2
HEAD = b"From: ann@example.org\nTo: spam@example.org\nSubject: Fwd: look\nMIME-Version: 1.0\n"
THUNDERBIRD = (
    HEAD
    + b"""\
User-Agent: Mozilla Thunderbird
Content-Type: multipart/mixed; boundary="------------0x7Yd"
X-Postbayes-Id: ffffffffffffffffffffffffffffffff

This is a multi-part message in MIME format.
--------------0x7Yd
Content-Type: text/plain; charset=UTF-8; format=flowed
Content-Transfer-Encoding: 7bit


--------------0x7Yd
Content-Type: message/rfc822; charset=UTF-8; name="You are a WINNER.eml"
Content-Disposition: attachment; filename="You are a WINNER.eml"
Content-Transfer-Encoding: 7bit

%b
--------------0x7Yd
Content-Type: message/rfc822; charset=UTF-8; name="cheap pills.eml"
Content-Disposition: attachment; filename="cheap pills.eml"
Content-Transfer-Encoding: 8bit

%b
--------------0x7Yd--
"""
)
APPLE_MAIL = (
    HEAD
    + b"""\
Content-Type: multipart/mixed; boundary="Apple-Mail=_2D"

--Apple-Mail=_2D
Content-Transfer-Encoding: 7bit
Content-Type: text/plain; charset=us-ascii



--Apple-Mail=_2D
Content-Disposition: attachment; filename*=utf-8''Gr%%C3%%BC%%C3%%9Fe.eml
Content-Type: message/rfc822; name="=?utf-8?Q?Gr=C3=BC=C3=9Fe.eml?="; x-unix-mode=0644
Content-Transfer-Encoding: 7bit

%b
--Apple-Mail=_2D--
"""
)
OUTLOOK = (
    HEAD
    + b"""\
Content-Type: multipart/mixed; boundary="_004_DB9PR_"
X-MS-Has-Attach: yes

--_004_DB9PR_
Content-Type: multipart/alternative; boundary="_000_DB9PR_"

--_000_DB9PR_
Content-Type: text/plain; charset="iso-8859-1"


--_000_DB9PR_
Content-Type: text/html; charset="iso-8859-1"

<html><body><p>&nbsp;</p></body></html>
--_000_DB9PR_--

--_004_DB9PR_
Content-Type: application/octet-stream; name="WINNER.EML"
Content-Disposition: attachment; filename="WINNER.EML"; size=1024
Content-Transfer-Encoding: base64

%b
--_004_DB9PR_--
"""
)
REPORT = b"""\
From: <abuse@provider.example>
To: <abuse@example.org>
Subject: FW: You are a WINNER
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary="part1_13d"

--part1_13d
Content-Type: text/plain; charset="US-ASCII"

This is an email abuse report for a message of 192.0.2.1.

--part1_13d
Content-Type: message/feedback-report

Feedback-Type: abuse
User-Agent: SomeGenerator/1.0
Version: 1

--part1_13d
Content-Type: %b
Content-Disposition: inline

%b
--part1_13d--
"""


def test_thunderbird_attaches_several():
    """The attachments come out byte for byte, without the forwarding message."""
    raw = THUNDERBIRD % (SPAM[0], SPAM[1])

    assert Forwarded(messages=SPAM[:2]) == forwarded(raw)


def test_line_ends_are_those_of_unix():
    """A mail server may have changed them, and an mbox line may precede them."""
    raw = b"From ann Fri Nov  6 09:00:00 2026\n" + THUNDERBIRD % (SPAM[0], SPAM[1])

    assert Forwarded(messages=SPAM[:2]) == forwarded(raw.replace(b"\n", b"\r\n"))


def test_apple_mail_encodes_the_name():
    """The type says what it is."""
    assert Forwarded(messages=(HAM[0],)) == forwarded(APPLE_MAIL % HAM[0])


def test_outlook_attaches_a_file():
    """In base64, as no message may be (RFC 2046 section 5.2.1), and as bare bytes."""
    raw = OUTLOOK % encodebytes(SPAM[0].replace(b"\n", b"\r\n")).strip()

    assert (SPAM[0].replace(b"\n", b"\r\n"),) == forwarded(raw).messages
    assert (SPAM[0],) == forwarded(
        (OUTLOOK % encodebytes(SPAM[0]).strip()).replace(
            b"application/octet-stream", b"message/rfc822"
        )
    ).messages


def test_a_digest_holds_messages():
    """Its parts are messages unless they say otherwise (RFC 2046 section 5.1.5)."""
    raw = HEAD + b"Content-Type: multipart/digest; boundary=d\n\n"
    raw += b"".join(b"--d\n\n%b\n" % each for each in HAM) + b"--d--\n"

    assert HAM == forwarded(raw).messages


@pytest.mark.parametrize("media_type", [b"message/rfc822", b"message/global"])
def test_a_report_of_a_feedback_loop_holds_the_message(media_type):
    """It is the third part (RFC 5965 section 2)."""
    assert Forwarded(messages=(SPAM[0],)) == forwarded(REPORT % (media_type, SPAM[0]))


def test_a_report_with_headers_alone_has_the_id():
    """There is nothing else to learn from."""
    head = b"X-Postbayes-Id: %b\nSubject: You are a WINNER\n" % ID.encode()

    assert Forwarded(ids=(ID,)) == forwarded(REPORT % (b"text/rfc822-headers", head))


@pytest.mark.parametrize(
    "wrap", [lambda raw: APPLE_MAIL % raw, b"Resent-From: a\n".__add__]
)
def test_a_report_that_is_forwarded_stands_for_what_it_reports(wrap):
    """The reports themselves must not be learned."""
    head = b"X-Postbayes-Id: %b\n" % ID.encode()
    whole = wrap(REPORT % (b"message/rfc822", SPAM[0]))
    headers = wrap(REPORT % (b"text/rfc822-headers", head))

    assert Forwarded(messages=(SPAM[0],)) == forwarded(whole)
    assert Forwarded(ids=(ID,)) == forwarded(headers)


def test_a_report_stands_for_one_message_at_most():
    """A sender can give spam this form, and add whatever should be taught instead."""
    more = b"\n--part1_13d\nContent-Type: message/rfc822\n\n" + HAM[0]
    ids = b"X-Postbayes-Id: %b\nX-Postbayes-Id: %b\n" % (ID.encode(), b"b6" * 16)
    several = REPORT % (b"message/rfc822", SPAM[0] + more)
    headers = REPORT % (b"text/rfc822-headers", ids)
    empty = REPORT % (b"text/plain", b"Buy pills")

    assert Forwarded(messages=(SPAM[0],)) == forwarded(APPLE_MAIL % several)
    assert Forwarded(ids=(ID,)) == forwarded(APPLE_MAIL % headers)
    assert (empty.strip(),) == tuple(
        each.strip() for each in forwarded(APPLE_MAIL % empty).messages
    )


def test_a_message_that_speaks_of_reports_is_none():
    """It is the type that counts."""
    raw = SPAM[0] + b"This is no feedback-report.\n"

    assert (raw,) == forwarded(APPLE_MAIL % raw).messages


def test_a_message_in_a_forwarded_one_belongs_to_that():
    """The user forwarded the outer message."""
    outer = THUNDERBIRD % (SPAM[0], SPAM[1])

    assert (outer,) == forwarded(APPLE_MAIL % outer).messages


def test_a_redirected_message_is_the_one():
    """Mutt's bounce and the command *Redirect* send such messages."""
    raw = b"Resent-From: ann@example.org\n" + SPAM[0]

    assert Forwarded(messages=(raw,)) == forwarded(raw)


@pytest.mark.parametrize(
    "body",
    [
        f"-------- Forwarded Message --------\nSubject: x\nX-Postbayes-Id: {ID}\n",
        f"> Subject: x\n> x-postbayes-id: {ID.upper()}\n> \n> text",
        f"X-Postbayes-Id:\n {ID}",
    ],
)
def test_an_id_that_is_quoted_counts(body):
    """A forward without attachment is another text, which nothing can be learned of."""
    assert Forwarded(ids=(ID,)) == forwarded(HEAD + b"\n" + body.encode())


def test_an_id_is_read_as_it_is_shown():
    """Hidden text does not count, but HTML and both renderings of a body do."""
    message = EmailMessage()
    message["From"] = "ann@example.org"
    message.set_content(f"X-Postbayes-Id: {ID}")
    shown = f"<b>X-Postbayes-Id:</b>&nbsp;{ID}"
    hidden = f'<p style="display:none">X-Postbayes-Id: {ID[::-1]}</p>'
    message.add_alternative(shown + hidden, subtype="html", cte="base64")

    assert Forwarded(ids=(ID,)) == forwarded(bytes(message))


@pytest.mark.parametrize(
    "body",
    [
        "only text",
        f"X-Postbayes-Id: {ID}0",
        f"Not-X-Postbayes-Id: {ID}",
        f"X-Postbayes-Id: {ID}\nX-Postbayes-Id: {ID[::-1]}",
    ],
)
def test_no_id_is_guessed(body):
    """If several are quoted, one of them may be the spammer's."""
    assert Forwarded() == forwarded(HEAD + b"\n" + body.encode())


def test_an_empty_attachment_is_no_message():
    """Some programs leave an empty part if attaching fails."""
    assert Forwarded() == forwarded(APPLE_MAIL % b"")


def multipart(*parts, boundary=b"b"):
    """Return a message with these parts, each with its own head."""
    lines = [b"--%b\n%b\n" % (boundary, part) for part in parts]
    kind = b'Content-Type: multipart/mixed; boundary="%b"\n\n' % boundary
    return kind + b"".join(lines) + b"--%b--\n" % boundary


def test_of_many_messages_the_first_count():
    """A message with very many attachments costs no more."""
    part = b"Content-Type: message/rfc822\n\n"
    found = forwarded(HEAD + multipart(*(part + spam(n) for n in range(2_000))))

    assert tuple(spam(n) for n in range(MAX_FORWARDED)) == found.messages


def test_deep_nesting_ends():
    """Normal mail is never nested so deeply."""
    raw = b"Content-Type: message/rfc822\n\n" + SPAM[0]
    for level in range(100):
        raw = multipart(raw, boundary=b"level%d-" % level)

    assert Forwarded() == forwarded(HEAD + raw)


NESTED = b"".join(
    b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (level, level)
    for level in range(40)
)
BOMBS = {
    "empty lines": NESTED + b"\n" * MAX_FORWARDED_BYTES,
    "dashes": NESTED + b"--\n" * (MAX_FORWARDED_BYTES // 3),
    "parts": multipart(*[b"Content-Type: message/rfc822\n\n"] * 200_000),
    "names": HEAD + b"\n" + b"X-Postbayes-Id: " * (MAX_FORWARDED_BYTES // 16),
    "blanks": HEAD + b"\nX-Postbayes-Id:" + b" " * MAX_FORWARDED_BYTES,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_holds_nothing(bomb):
    """What is beyond the limits is not looked at; the worst takes two seconds."""
    assert Forwarded() == forwarded(BOMBS[bomb])


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_are_read(head, body):
    """No input is an error."""
    found = forwarded(HEAD + head + b"\n\n" + body)

    assert all(found.messages)
