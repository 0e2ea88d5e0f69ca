"""Words of what is read are plain, others are tagged by where they stand."""

from __future__ import annotations

from app.features.words import marked_words, sequences
from app.mail.message import Header, Link, Message, Text

MESSAGE = Message(
    headers=(Header("subject", "Big Sale"), Header("from", "Bob")),
    texts=(
        Text("plain", "hello"),
        Text("alternative", "there"),
        Text("alt", "logo"),
        Text("attached", "fwd"),
    ),
    links=(Link("http://example.com/buy", "a", "here"),),
)


def test_what_is_read_begins_with_the_subject():
    """The subject and each text are a sequence of words of their own."""
    assert [["big", "sale"], ["hello"], ["there"], ["fwd"]] == sequences(MESSAGE)


def test_words_outside_the_text_are_tagged_by_their_place():
    """Texts that stand in for images, and targets of links."""
    assert ["alt:logo", "link:http", "link:example.com", "link:buy"] == marked_words(
        MESSAGE, ()
    )
