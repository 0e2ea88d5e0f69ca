"""Places: the pieces of a message are its text, and their features its features."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from app.features.extract import extract
from app.features.headers import HEADERS
from app.features.observation import ids_of
from app.features.places import MOST_PIECES, passages, placed
from app.mail.parse import parse

LETTER = (
    b"Received: from a.example (a.example [192.0.2.7]) by mx; Fri, 6 Nov 2026\n"
    b"Date: Fri, 6 Nov 2026 09:00:00 +0100\n"
    b"From: Ann <ann@example.org>\n"
    b"Subject: Lunch www.example.org\n"
    b"Subject: second\n"
    b"X-Other: unread\n"
    b"Content-Type: text/html\n\n"
    b"<p>Lunch at <a href='http://shop.example/now'>noon</a>?"
    b"<img src='http://t.example/1.gif' alt='free money'>"
    b"<span style='display:none'>pale words</span>"
)
words = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=60
).map(lambda text: text.strip("\n"))


def names_of(raw, view):
    """Return the names of the features of a message in a view."""
    seen = extract(parse(raw))
    return dict(
        zip(seen.views[view].ids.tolist(), seen.names.get(view, ()), strict=True)
    )


def names_at_places(raw, view):
    """Return the text of each piece that holds a feature, with the feature's name."""
    found = passages(parse(raw))
    pieces = [piece.text for passage in found for piece in passage.pieces]
    names = names_of(raw, view)
    each = placed(found)[view]
    # Pairs are tried that the message does not have.
    return [
        (pieces[piece], names[id_])
        for piece, id_ in zip(each.piece.tolist(), each.ids.tolist(), strict=True)
        if id_ in names or view != "pairs"
    ]


@given(words, words)
def test_pieces_are_the_text(subject, body):
    """Whatever characters stand in it."""
    message = parse(f"Subject: {subject}\n\n{body}".encode())
    found = [
        (passage.kind, "".join(piece.text for piece in passage.pieces))
        for passage in passages(message)
    ]

    assert [text.content for text in message.texts] == [
        text for kind, text in found if kind == "text"
    ]
    assert [header.value for header in message.headers if header.name in HEADERS] == [
        text for kind, text in found if kind == "header"
    ]


@given(st.text("aé 中\u3002\uff01\uff1a\u200b\u0430.!$-\n'", max_size=80))
@example("a\u0430a a中\u0430")
def test_words_of_pieces_are_words_of_the_text(body):
    """As many of each as the whole text has, but for what only the whole text shows."""
    raw = b"\n" + body.encode()
    seen = extract(parse(raw))
    counts = seen.views["words"].counts.tolist()
    whole = {
        name: count
        for name, count in zip(seen.names.get("words", ()), counts, strict=True)
        if not name.startswith(("trick:", "random:"))
    }
    names = [name for _, name in names_at_places(raw, "words")]

    assert whole == Counter(name for name in names if not name.startswith("trick:"))


@given(st.text("ab \n!-'$", max_size=60))
def test_all_pairs_have_places(body):
    """But for those of dotted words, whose parts stand at the end of the text."""
    raw = b"Subject: one two\n\n" + body.encode()
    seen = set(extract(parse(raw)).views["pairs"].ids.tolist())

    assert seen == set(placed(passages(parse(raw)))["pairs"].ids.tolist())


def test_a_pair_stands_at_both_of_its_words():
    """In their passage; the last word of one and the first of the next are no pair."""
    found = names_at_places(b"Subject: free money\n\nmoney now", "pairs")

    assert sorted(
        [
            ("free", "free money"),
            ("money", "free money"),
            ("money", "money now"),
            ("now", "money now"),
        ]
    ) == sorted(found)


def test_a_clause_without_blanks_is_a_piece():
    """A whole paragraph of Chinese or Japanese would be one word to shade."""
    (_, text) = passages(parse("Subject: x\n\n明天开会。您中奖了。。请确认".encode()))

    assert ["明天开会。", "您中奖了。。", "请确认"] == [
        piece.text for piece in text.pieces
    ]


def test_a_dotted_word_has_its_pairs():
    """With the word before and the word behind it."""
    found = names_at_places(b"\nsee www.example.org now", "pairs")

    assert {"see www.example.org", "www.example.org now", "www example"} <= {
        name for _, name in found
    }


def test_the_end_of_a_very_long_text_is_one_piece():
    """Of which nothing is read; no text after it is taken apart."""
    words = MOST_PIECES // 2
    raw = b"\n" + b"a " * words + b"b c d"
    *found, rest = passages(parse(raw))[0].pieces

    assert ("b c d", ()) == (rest.text, rest.words)
    assert words == sum(piece.words != () for piece in found)


def test_a_message_without_anything_has_no_places():
    """No piece, no feature."""
    assert {"words": 0, "headers": 0, "pairs": 0} == {
        view: each.ids.size for view, each in placed(passages(parse(b""))).items()
    }


def test_words_stand_where_they_are_read():
    """The subject, texts, links, and what is apart from the text, by their names."""
    found = names_at_places(LETTER, "words")

    assert ("Lunch", "lunch") in found
    assert ("www.example.org", "example") in found
    assert ("http://shop.example/now", "link:shop.example") in found
    assert ("money", "alt:money") in found
    assert ("pale", "hidden:pale") in found


def test_words_of_headers_stand_in_their_header():
    """With networks and time zones; what is made of several words has no place."""
    found = names_at_places(LETTER, "headers")
    placeless = set(names_of(LETTER, "headers").values()) - {name for _, name in found}

    assert ("+0100", "date:+0100") in found
    assert ("[192.0.2.7])", "received:192.0.2") in found
    assert ("Lunch", "subject:lunch") in found
    assert {"from:shape:a", "defect:html-hidden-text"} <= placeless
    assert all("shape" in n or "defect" in n or ":." in n for n in placeless)


def test_a_second_subject_is_not_read():
    """As the features have it."""
    texts = [piece.text for each in passages(parse(LETTER)) for piece in each.pieces]

    assert "Lunch" in texts
    assert "second" not in texts


def test_tricks_stand_at_the_word_that_plays_them():
    """Beside the word as a person reads it."""
    found = names_at_places("\nhello p\u0430ypal".encode(), "words")

    assert [("p\u0430ypal", "paypal"), ("p\u0430ypal", "trick:mixed")] == sorted(
        pair for pair in found if pair[0] != "hello" and pair[1] != pair[0]
    )


def test_files_are_places_of_their_names():
    """A file's name and what it is are features of the file."""
    raw = (
        b"Content-Type: application/zip; name=bill.pdf.exe\n"
        b"Content-Disposition: attachment\n\nMZ"
    )

    assert ("bill.pdf.exe", "file:.exe") in names_at_places(raw, "words")
    assert set(ids_of(["file:.exe"]).tolist()) <= set(
        placed(passages(parse(raw)))["words"].ids.tolist()
    )
