"""What a request of rspamd's protocol asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.rspamd import codec
from app.doors.rspamd.codec import MAX_RECIPIENTS, Ask, Refusal

headers = st.lists(
    st.tuples(
        st.sampled_from(
            [b"rcpt", b"user", b"deliver-to", b"class", b"compression", b"file"]
        )
        | st.binary(max_size=10),
        st.binary(max_size=20),
    ),
    max_size=8,
)


@given(
    st.sampled_from(["GET", "POST", "HEAD", "PUT"]),
    st.sampled_from(["/checkv2", "/learnclass", "/learnspam", "/stat", "/"])
    | st.text(max_size=10),
    headers,
)
def test_any_request_is_something_or_refused(method, path, given_headers):
    """Nothing that stands in a request line or a header raises otherwise."""
    found: Ask | Refusal
    try:
        found = codec.read(method, path, given_headers)
    except Refusal as refusal:
        found = refusal

    assert isinstance(found, Ask) or 400 <= found.status_code < 500


@given(st.binary(max_size=300))
def test_a_message_id_is_one_word(raw):
    """Whatever stands in the header, the answer's field is plain."""
    found = codec.message_id(b"Message-ID: " + raw)

    assert found.isascii()
    assert found.isprintable()


def test_more_recipients_than_any_message_has_are_refused():
    """Each costs a look-up, and perhaps another profile to score with."""
    many = [(b"rcpt", b"a@example.org")] * (MAX_RECIPIENTS + 1)

    with pytest.raises(Refusal, match="more than 1000"):
        codec.read("POST", "/checkv2", many)


def test_recipients_beyond_ascii_are_known():
    """As SMTPUTF8 has them."""
    found = codec.read("POST", "/checkv2", [(b"rcpt", "björn@example.org".encode())])

    assert ("björn@example.org",) == found.recipients


def test_headers_say_who_sends():
    """Lists of senders match the envelope, and the address of the client."""
    asked = codec.read(
        "POST", "/checkv2", [(b"from", b"ann@example.org"), (b"ip", b"192.0.2.7")]
    )

    assert ("ann@example.org", "192.0.2.7") == (asked.sender, asked.client)
