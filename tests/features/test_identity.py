"""A message is the same after what mail servers do to it, and no other is."""

from __future__ import annotations

import base64
import quopri

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.observation import DIGEST_BYTES, digest
from app.mail.parse import parse

HEAD = b"From: Ann <ann@example.org>\nTo: bob@example.com\nSubject: Gr\xc3\xbc\xc3\x9fe\nDate: Mon, 1 Jan 2024 10:00:00 +0000\nMessage-ID: <1@example.org>\n"
TYPE = b"Content-Type: text/plain; charset=utf-8\n"
BODY = "Hällo Bob,\n\nsee you = soon.\nAnn\n".encode()
SENT = HEAD + TYPE + b"Content-Transfer-Encoding: 8bit\n\n" + BODY


def identity(raw: bytes) -> bytes:
    """Return the digest of a raw message."""
    return digest(parse(raw))


CHANGED = {
    "received": b"Received: from a by b; Mon, 1 Jan 2024 10:00:01 +0000\n" + SENT,
    "return path": b"Return-Path: <ann@example.org>\n" + SENT,
    "authentication": b"Authentication-Results: mx.example; spf=pass\n" + SENT,
    "verdict": HEAD + b"X-Spam-Status: No\nX-Any: thing\n" + SENT.removeprefix(HEAD),
    "mbox line": b"From ann Mon Jan  1 10:00:00 2024\n" + SENT,
    "crlf": SENT.replace(b"\n", b"\r\n"),
    "quoted-printable": HEAD
    + TYPE
    + b"Content-Transfer-Encoding: quoted-printable\n\n"
    + quopri.encodestring(BODY),
    "base64": HEAD
    + TYPE
    + b"Content-Transfer-Encoding: base64\n\n"
    + base64.encodebytes(BODY),
    "base64 of crlf": HEAD
    + TYPE
    + b"Content-Transfer-Encoding: base64\n\n"
    + base64.encodebytes(BODY.replace(b"\n", b"\r\n")),
    "line ends doubled": SENT.replace(b"\n", b"\r\r\n"),
    "base64 of line ends doubled": HEAD
    + TYPE
    + b"Content-Transfer-Encoding: base64\n\n"
    + base64.encodebytes(BODY.replace(b"\n", b"\r\r\n")),
    "blank lines at the end": SENT + b"\n\n",
    "encoded subject": SENT.replace(
        b"Gr\xc3\xbc\xc3\x9fe", b"=?utf-8?q?Gr=C3=BC=C3=9Fe?="
    ),
    "folded header": SENT.replace(b"To: bob", b"To:\n bob"),
}


@pytest.mark.parametrize("change", sorted(CHANGED))
def test_what_mail_servers_do_makes_no_other_message(change):
    """Feedback finds the message that was scored."""
    assert SENT != CHANGED[change]
    assert identity(SENT) == identity(CHANGED[change])


OTHER = {
    "body": SENT.replace(b"soon", b"later"),
    "subject": SENT.replace(b"Subject: ", b"Subject: Re: "),
    "sender": SENT.replace(b"ann@", b"eve@"),
    "recipient": SENT.replace(b"bob@", b"eve@"),
    "date": SENT.replace(b"1 Jan", b"2 Jan"),
    "message id": SENT.replace(b"<1@", b"<2@"),
    "type": SENT.replace(b"text/plain", b"text/html"),
}


@pytest.mark.parametrize("change", sorted(OTHER))
def test_another_message_is_another(change):
    """What people or senders change makes another message."""
    assert SENT != OTHER[change]
    assert identity(SENT) != identity(OTHER[change])


def test_another_attachment_is_another_message():
    """Content that is no text counts, and so does the head of a forwarded message."""
    image = HEAD + b"Content-Type: image/png\nContent-Transfer-Encoding: base64\n\n"
    forward = HEAD + b"Content-Type: message/rfc822\n\nSubject: "

    assert identity(image + b"QUJD\n") != identity(image + b"QUJE\n")
    assert identity(forward + b"a\n\nx\n") != identity(forward + b"b\n\nx\n")


@given(st.binary(max_size=200))
def test_any_message_has_a_digest(raw):
    """The digest has a fixed size for any input."""
    assert DIGEST_BYTES == len(identity(raw))
