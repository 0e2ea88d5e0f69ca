"""A form's text becomes a message that reads as it was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.doors.documents.message import compose
from app.mail.parse import parse


def test_a_text_is_read_back():
    """Header and body come out as they went in."""
    message = parse(compose({"Subject": "Grüße", "From": "Ann"}, "Hallo\n\nBob"))

    assert "Grüße" == message.header("subject")
    assert "Hallo\n\nBob" == message.texts[0].content
    assert "charset-mismatch" not in message.defects


def test_both_renderings_are_read_back():
    """With HTML the message is a multipart/alternative."""
    message = parse(compose({"Subject": "a"}, "plain\n--x", "<p>rich\n--x--"))

    assert ["html", "alternative"] == [text.place for text in message.texts]
    assert ("multipart/alternative",) == message.containers
    assert () == message.defects


@given(st.text(max_size=40), st.text(max_size=80))
def test_no_value_adds_a_header(value, text):
    """Line ends in a form field become spaces."""
    message = parse(compose({"Subject": value}, text))

    assert ["subject", "mime-version", "content-type"] == [
        h.name for h in message.headers
    ]
