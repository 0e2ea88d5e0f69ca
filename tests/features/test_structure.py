"""Facts of a message: one value for each field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.structure import FIELDS, MAX_VALUE_CHARS, structure
from app.mail.parse import parse

WHOLE = b"""Received: from a.example by b.example; Fri, 6 Nov 2026 09:00:02 +0000
Received: from c.example by a.example; Fri, 6 Nov 2026 09:00:01 +0000
Authentication-Results: mx.example; spf=pass smtp.mailfrom=x; dkim=fail; dmarc=none
Authentication-Results: forged.example; spf=fail
From: Ann <ann@mail.shop.example>
To: bob@example.org, carl@example.org
Reply-To: other@elsewhere.example
Message-ID: <1@out.shop.example>
Date: Fri, 6 Nov 2026 09:30:00 +0100
Subject: Re: order
X-Mailer: Mutt 1.14
X-Priority: 1 (Highest)
List-Unsubscribe: <mailto:stop@shop.example>
Precedence: bulk
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/html; charset=UTF-8
Content-Transfer-Encoding: quoted-printable

<p>Hello
--b
Content-Type: application/pdf
Content-Disposition: attachment; filename="Bill.PDF"

x
--b--
"""


def test_every_field_of_a_rich_message():
    """Each field has the value that a person would read off the message."""
    expected = {
        "mime": "multipart/mixed:text/html+application/pdf",
        "charset": "utf-8",
        "encoding": "quoted-printable",
        "mailer": "mutt",
        "list": "list-unsubscribe+precedence",
        "spf": "pass",
        "dkim": "fail",
        "dmarc": "none",
        "tld": "example",
        "hour": "09",
        "reply-to": "other",
        "message-id": "related",
        "attachment": "pdf",
        "hops": "2",
        "subject": "re",
        "recipients": "few",
        "priority": "1",
        "html": "alone",
    }

    assert expected == dict(structure(parse(WHOLE)))
    assert expected.keys() == FIELDS.keys()


@pytest.mark.parametrize(
    ("header", "field", "value"),
    [
        (b"Received-SPF: softfail (x)", "spf", "softfail"),
        (b"Subject: FREE MONEY", "subject", "capitals"),
        (b"Subject: hello", "subject", "other"),
        (b"Subject: Fwd: x", "subject", "fwd"),
        (b"To: a@b.example", "recipients", "one"),
        (b"To: " + b"a@b.example, " * 9, "recipients", "many"),
        (b"X-A: b", "recipients", "none"),
        (b"X-A: b", "subject", "none"),
        (b"From: a@b.example\nReply-To: c@b.example", "reply-to", "same"),
        (b"From: a@b.example", "reply-to", "none"),
        (b"User-Agent: KMail/4.1", "mailer", "kmail"),
        (b"Received: x\n" * 12, "hops", "9"),
    ],
)
def test_one_header_decides_a_field(header, field, value):
    """A single header gives the field its value."""
    raw = b"MIME-Version: 1.0\n" + header.rstrip(b"\n") + b"\n\nbody\n"
    facts = dict(structure(parse(raw)))

    assert value == facts[field]


def test_alternatives_are_told_from_html_alone():
    """HTML beside a plain rendering is not HTML alone."""
    raw = (
        b"Content-Type: multipart/alternative; boundary=b\n\n--b\n\nhello\n"
        b"--b\nContent-Type: text/html\n\n<p>hello\n--b--\n"
    )

    assert "with text" == dict(structure(parse(raw)))["html"]


def test_more_parts_than_are_named_are_marked():
    """A message of many parts says that there are more."""
    raw = (
        b"Content-Type: multipart/mixed; boundary=b\n\n"
        + b"--b\n\nx\n" * 6
        + b"--b--\n"
    )

    assert dict(structure(parse(raw)))["mime"].endswith("…")


def test_a_bare_text_has_few_facts():
    """A contact form has no headers, so it has no facts of headers."""
    assert {"mime", "charset", "encoding", "reply-to", "message-id"} >= dict(
        structure(parse(b"Good morning"))
    ).keys()


@given(st.binary(max_size=300))
def test_any_message_has_facts_within_their_bounds(raw):
    """Known fields, each at most once, with short values that are not empty."""
    facts = structure(parse(raw))

    fields = [field for field, _ in facts]
    assert len(set(fields)) == len(fields)
    assert set(fields) <= FIELDS.keys()
    assert all(0 < len(value) <= MAX_VALUE_CHARS for _, value in facts)


def test_numbers_of_fields_are_never_reused():
    """The numbers are in the ids that databases hold: each its own, never 0."""
    assert len(set(FIELDS.values())) == len(FIELDS)
    assert 0 not in FIELDS.values()
