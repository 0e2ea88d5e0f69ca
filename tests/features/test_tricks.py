"""A trick is a feature of its own, beside the word that it hides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.extract import extract
from app.features.observation import ids_of
from app.features.tokens import of_name, tokens_of
from app.features.tokens import of_text as words_of
from app.features.tricks import of_characters, of_text, of_words, undisguised
from app.kernels.text import TEXT
from app.mail.parse import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text", []),
        ("Größe und Maß", []),
        ("vi\u200bagra", ["trick:invisible"]),
        ("vi\u034fagra", ["trick:invisible"]),
        ("i \u2764\ufe0f it, \u034f 1\ufe0f\u20e3", []),
        ("pay\u200eplay", ["trick:invisible"]),
        ("приз\u200bы", ["trick:invisible"]),
        ("نمی\u200cشود, क्\u200dष, ไทย\u200bภาษา, 👨\u200d👩", []),
        ("שלום Windows\u200f 10, \u202bPDF\u202c (\u2068Ann\u2069)\u200f", []),
        ("pay\u202eplay", ["trick:bidi"]),
        ("p\u0430yp\u0430l!", ["trick:mixed"]),
        ("привет мир, 2\xd7шт, Google\u055d \u0531", []),
    ],
)
def test_what_is_done_to_words_is_seen(text, expected):
    """Invisible and misordered characters, and mixed scripts."""
    assert expected == of_characters(text) == of_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u202eargaiv yub\u202c now", "buy viagra\u202c now"),
        ("\u202eeerf\n\u202edr\u043ew", "free\nword"),
        ("\u202eשבת, abc", "\u202eשבת, abc"),
        ("\u202dfree\u202c", "\u202dfree\u202c"),
        ("eerf", "eerf"),
    ],
)
def test_what_is_shown_backwards_is_turned(text, expected):
    """Letters of Hebrew and Arabic are in their order already."""
    assert expected == undisguised(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u0430\u03b2\u0441", "abc"),
        ("\u043c\u03c3\u03b7\u0454\u0443 for \u00fcc\u03b1", "money for \u00fcca"),
        ("\u0586\u0578e\u0565", "sne\u0565"),
        ("\u15e9\u146d\u146d\u14aaE", "applE"),
        ("\u13b7on\u13acy", "MonEy"),
        ("\u0394T 50\u03bcm 4k\u03a9", "\u0394T 50\u03bcm 4k\u03a9"),
        ("\u0434\u043e\u043c \u03bb\u03cc\u03b3\u03bf\u03c2 \u13e3\u13b3\u13a9",) * 2,
    ],
)
def test_words_of_several_scripts_have_latin_letters(text, expected):
    """As people read them; words of one script stay as they are, and so do units."""
    assert expected == undisguised(text)


def test_words_of_look_alikes_are_the_words_that_people_read():
    """Whatever alphabet they are in, even the one of Lisu, which has no other letters."""
    for text in (
        "\u043c\u03c3\u03b7\u0454\u0443",
        "\u028d\u0585\u057c\u0117\u028f",
        "\ua4df\ua4f3\ua4e0\ua4f0\ua4ec",
    ):
        assert ids_of(["money"]).tolist() == tokens_of([("", text, TEXT)]).ids.tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("V i a g r a", ["trick:spaced", "viagra"]),
        ("v.i.a.g.r.a now", ["trick:spaced", "viagra"]),
        ("F - R - E - E", []),
        ("F-R-E-E", ["trick:spaced", "free"]),
        ("F\u00a0R\u2009E\u2800E", ["trick:spaced", "free"]),
        ("V\u3164i\uffa0a\u115fg\u1160r\u3164a", ["trick:spaced", "viagra"]),
        ("1 2 3 4 5", []),
        ("a b c", []),
    ],
)
def test_words_letter_by_letter_are_read(text, expected):
    """With blanks, dots, stars or hyphens between the letters."""
    assert expected == of_text(text)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("hello", []),
        ("strength", []),
        ("https", []),
        ("xkqzv", ["random:1"]),
        ("a1xkqzvfptq", ["random:2"]),
        ("x" * 40, ["random:8"]),
    ],
)
def test_random_words_have_a_shape(word, expected):
    """Five consonants in a row, and the length in steps of four."""
    words = f"{word} ".encode()

    assert expected == of_words(words) == of_words(words + b"a " + words)
    assert 2 * len(expected) == len(of_words(words + b"a" + words))


@given(st.text(max_size=200))
def test_any_text_is_read_for_tricks(text):
    """Reading is total, and no feature is empty."""
    words = "".join(word + " " for word in words_of(text)).encode()

    assert all(of_text(text) + of_words(words))


def test_found_tricks_are_bounded():
    """A text of nothing but tricks has as many features as any other."""
    assert 2 * 100 == len(of_text("V i a g r a, " * 500))


def test_words_of_two_scripts_are_read_in_latin():
    """All of them; names, which may be of somebody else, and other words as they are."""
    text = "P\u0430yp\u0430l \u0420\u0410YP\u0410L \u0430 \u03c1\u0391y1 д\u043e "

    assert ["paypal", "paypal", "\u0430", "pay1", "до"] * 200 == words_of(text * 200)
    assert ["p\u0430ypal.example"] == of_name("p\u0430ypal.example")


def test_a_trick_in_the_subject_counts():
    """Subject and texts are read alike."""
    names = extract(parse(b"Subject: V.I.A.G.R.A\n\nhi")).names["words"]

    assert {"trick:spaced", "viagra"} <= set(names)
