"""Words of what is read are plain, others are tagged by where they stand."""

from __future__ import annotations

from app.features.tokens import words_of
from app.features.words import disguised_words, marked_words, sequences
from app.kernels.text import TEXT, WHOLE
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
    """The subject and each shown text are a sequence of words of their own."""
    assert [["big", "sale"], ["hello"], ["fwd"]] == [
        words_of([span]) for span in sequences(MESSAGE)
    ]


def test_words_outside_the_text_are_tagged_by_their_place():
    """Texts that stand in for images, and targets of links."""
    assert ["link:http", "link:example.com", "link:buy", "alt:logo"] == words_of(
        marked_words(MESSAGE)
    )


def test_letters_by_themselves_are_a_word():
    """Three different ones in a row, whatever is between them."""
    for text, spaced in (
        ("V i a g r a", True),
        ("v.i.a.g.r.a", True),
        ("now F-R-E-E", True),
        ("w e  b u y. V i a", True),
        ("I am a well-known opt-out, 1 2 3 4", False),
        ("V a V a V a", False),
    ):
        read = [("", text, TEXT)]
        found = disguised_words(read, b"")

        assert spaced == (("", "trick:spaced", WHOLE) in found)
