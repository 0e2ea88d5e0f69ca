"""Grams are runs of four bytes of what is read, in buckets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.features.grams import BUCKET_BITS, GRAM_BYTES, MAX_GRAM_TEXT, grams
from app.mail.message import Header, Message, Text


def message(text, subject=""):
    """Return a message of one text."""
    return Message(headers=(Header("subject", subject),), texts=(Text("plain", text),))


def bucket(gram):
    """Return the bucket of one gram, by the formula in plain integers."""
    return (int.from_bytes(gram, "little") * 2_654_435_769 % 2**32) >> (
        32 - BUCKET_BITS
    )


@given(st.text(max_size=60), st.text(max_size=10))
def test_each_run_of_four_bytes_has_its_bucket(text, subject):
    """One feature for each different bucket, of presence."""
    content = f"{subject}\n{text}\n".encode()
    expected = {
        bucket(content[i : i + GRAM_BYTES])
        for i in range(len(content) - GRAM_BYTES + 1)
    }
    x = grams(message(text, subject))

    assert sorted(expected) == x.ids.tolist()
    assert (x.counts == 1).all()


def test_only_the_first_bytes_are_read():
    """What a sender appends far below changes nothing."""
    text = "".join(f"{number} " for number in range(MAX_GRAM_TEXT))

    assert grams(message(text)) == grams(message(text + "appended"))


def test_later_texts_are_read_while_there_is_room():
    """A short text is followed by the next one; a long one leaves no room."""
    short = Message(texts=(Text("plain", "a"), Text("html", "bcd")))
    long = Message(texts=(Text("plain", "a" * MAX_GRAM_TEXT), Text("html", "bcd")))

    assert 4 == grams(short).size
    assert 2 == grams(long).size


def test_a_message_of_nothing_has_no_grams():
    """Fewer than four bytes have none."""
    assert 0 == grams(Message()).size
