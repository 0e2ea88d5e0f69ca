"""Grams are runs of four symbols of what is read, with their beginnings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.models.chain import ORDER, SYMBOLS, with_beginnings
from app.features.grams import MAX_GRAM_TEXT, grams
from app.mail.message import Header, Message, Text


def message(text, subject=""):
    """Return a message of one text."""
    return Message(headers=(Header("subject", subject),), texts=(Text("plain", text),))


def symbols(run):
    """Return the symbols of a run as numbers."""
    return tuple(run // SYMBOLS**place % SYMBOLS for place in range(ORDER))[::-1]


@given(st.text("aAb9 .→", max_size=60), st.text("aAb9 .→", max_size=10))
def test_runs_differ_where_their_symbols_differ(text, subject):
    """Letters are symbols of their own, in both cases; other bytes share some."""
    content = f"{subject}\n{text}\n".encode()
    folded = bytes(255 if byte > 127 else byte for byte in content)
    ring = folded + folded
    places = range(len(folded)) if len(folded) >= ORDER else ()
    expected = {ring[i : i + ORDER] for i in places}

    x = grams(message(text, subject))

    assert len(expected) == x.numbers.size
    assert with_beginnings(x.numbers) == x


def test_every_byte_has_a_symbol_of_the_alphabet():
    """Any text is a chain."""
    runs = grams(message("".join(map(chr, range(1, 300))))).numbers

    assert runs.size
    assert set(range(SYMBOLS)) == {
        symbol for run in runs.tolist() for symbol in symbols(run)
    }


@pytest.mark.parametrize(
    "disguised",
    [
        "V\u0336i\u0336a\u0336gr\u0330a\u0338",
        "Vi\u200ba\u2060gra",
        "V\u026a\u1d00\u0262\u0280\u1d00",
        "V\u0456\u0430gra",
    ],
)
def test_letters_are_those_that_people_read(disguised):
    """As in the words."""
    assert grams(message(f"{disguised} now")) == grams(message("Viagra now"))


def test_a_text_with_a_mark_on_each_letter_counts_whole():
    """Marks take no room from the letters."""
    text = "the words of a long text " * 20

    assert grams(message("\u0336".join(text))) == grams(message(text))


def test_marks_of_one_kind_are_one_symbol():
    """Digits, blanks, and bytes of signs beyond ASCII, but not letters."""
    assert grams(message("in 1999")) == grams(message("in\t2026"))
    assert grams(message("“yes”")) == grams(message("→yes。"))
    assert grams(message("für")) != grams(message("fär"))
    assert grams(message("free")) != grams(message("Free"))


@pytest.mark.parametrize(
    "alphabet",
    [
        "äöüßéè",
        "бвгдежзийклмнопрст",
        "ΑΒΓΔΕΖΗΘ",
        "אבגדהוזח",
        "ابتثجحخد",
        "ひふへほ",
        "発票優惠",
    ],
)
def test_letters_beyond_ascii_are_told_apart(alphabet):
    """Each has the symbol of a Latin capital, and its neighbours have others."""
    runs = grams(message(alphabet)).numbers

    read = {symbol for run in runs.tolist() for symbol in symbols(run)}
    # And the end of the line.
    assert len({*alphabet}) + 1 == len(read)
    assert len({*alphabet}) == len(read & set(range(26, 52)))


def test_only_the_first_bytes_are_read():
    """What a sender appends far below changes nothing."""
    text = "".join(f"{number} x" for number in range(MAX_GRAM_TEXT))

    assert grams(message(text)) == grams(message(text + "appended"))


def test_the_blanks_of_a_page_take_no_room():
    """They are those of its source, and people see one for all of them."""
    source = "\n".join(f"{' ' * MAX_GRAM_TEXT}{word}" for word in ("claim", "it"))
    page = Message(headers=(), texts=(Text("html", source),))

    assert grams(page) == grams(message("claim it"))


def test_later_texts_are_read_while_there_is_room():
    """A short text is followed by the next one; a long one leaves no room."""
    short = Message(texts=(Text("plain", "a"), Text("html", "bcd")))
    long = Message(texts=(Text("plain", "a" * MAX_GRAM_TEXT), Text("html", "bcd")))

    assert 7 == grams(short).numbers.size
    assert 5 == grams(long).numbers.size


def test_a_message_of_nothing_has_no_grams():
    """Fewer than four bytes have none."""
    assert np.array_equal([], grams(Message()).ids)
